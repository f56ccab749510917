"""What a handler gets: `Batch`. What a hook gets for an event that cannot be decoded: `Poison`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from inspect import isawaitable
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from ...routing.kinds import EventBatch
from ...sealed import Sealed
from ...sockets.byte_stream import TransportInfo
from ..wire.batches import IncomingBatch
from ..wire.events import InvalidEvent, decode_event, decode_slices
from .acknowledgements import BatchProgress

__all__ = ["Batch", "Poison", "PoisonHook", "convert", "decode_with_hook"]

_SLICE: Final = 256 * 2**10
"""Bytes of events that are decoded before other tasks run."""
_PER_EVENT: Final = 64
"""Bytes that count for an event besides its own, as small events take time, too."""


@attrs.frozen(kw_only=True)
class Poison:
    """An event that cannot be decoded, for the hook ``on_poison`` of `serve`.

    Attributes:
        raw: The event as it arrived, without the head of its frame.
        number: Which event of its batch it is; the first is number 1.
        reason: What is wrong, without any of the contents.
        version: The version of the batch, 1 or 2.
        transport: Facts about the connection.
    """

    raw: bytes
    number: int
    reason: str
    version: int
    transport: TransportInfo


PoisonHook: TypeAlias = Callable[[Poison], Awaitable[None] | None]
"""A function, async or not, that is called with each event that cannot be decoded."""


@final
class Batch(EventBatch, metaclass=Sealed, given="serve calls the handler with one"):
    """The events of one window, and their acknowledgement.

    The sender keeps its events until they are acknowledged, and sends those that are not again on
    its next connection. When the handler returns, all events of its batch are acknowledged.

    Attributes:
        raw: The events as they arrived: JSON texts, or in version 1 also key-value pairs.
        version: The version of the protocol, 1 or 2.
        is_json: Whether the events are JSON texts. If not, they are key-value pairs.
        size: The bytes of ``raw`` together.
        compressed: The zlib stream that contains the frames of exactly these events, if they came
            in one compressed frame. Else ``None``.
        transport: Facts about the connection: the peer's address, its certificate.
    """

    def __init__(
        self, incoming: IncomingBatch, transport: TransportInfo, progress: BatchProgress
    ) -> None:
        self.raw: Final[list[bytes]] = incoming.events
        self.version: Final = incoming.version
        self.is_json: Final = incoming.is_json
        self.size: Final = incoming.size
        self.compressed: Final = incoming.compressed
        self.transport: Final = transport
        self._incoming: Final = incoming
        self._progress: Final = progress
        self._decoded: list[Any] | None = None
        self._numbers: list[int] | None = None

    def __len__(self) -> int:
        return len(self._incoming)

    def __repr__(self) -> str:
        return (
            f"<Batch of {len(self)} events, version {self.version}, "
            f"{self.acknowledged} acknowledged>"
        )

    @property
    def acknowledged(self) -> int:
        """How many events are acknowledged, from the first on. It never goes back."""
        return self._progress.acknowledged

    @property
    def events(self) -> list[Any]:
        """The decoded events, i.e. the value of each JSON text, or a dict of text for pairs.

        They are decoded at the first use. With a hook ``on_poison``, events that cannot be decoded
        are missing here; see `numbered`.

        Raises:
            InvalidEvent: One cannot be decoded, and there is no hook.
        """
        if self._decoded is None:
            if self._numbers is not None:
                self._decoded = [decode_event(self._incoming, n) for n in self._numbers]
                return self._decoded
            decoded: list[Any] = []
            for events, invalid in decode_slices(self.raw, self.is_json):
                if invalid:
                    found = (event for event in events if isinstance(event, InvalidEvent))
                    raise _with_remedy(next(found))
                decoded += events
            self._decoded = decoded
        return self._decoded

    def numbered(self) -> Iterator[tuple[int, Any]]:
        """Iterate over `events` with their numbers, as `ack` takes them; the first is number 1.

        Raises:
            InvalidEvent: As for `events`.
        """
        events = self.events
        numbers = range(1, len(self) + 1) if self._numbers is None else self._numbers
        return zip(numbers, events, strict=True)

    async def ack(self, n: int) -> None:
        """Acknowledge the first ``n`` events, and wait until the ACK has left.

        The sender does not send these events again. If ``n`` is not above `acknowledged`, nothing
        happens. In version 1 only the ACK of the last event leaves, as its senders take any ACK for
        that.

        Args:
            n: How many events, from the first on.

        Raises:
            TypeError: ``n`` is not an int.
            ValueError: There are not so many events.
            ConnectionLost: The connection is over.
            RuntimeError: The caller is in another thread than the server.

        Checkpoint: always.
        If cancelled: the ACK leaves nevertheless.
        """
        if isinstance(n, bool) or not isinstance(n, int):
            raise TypeError(f"n must be an int, not {type(n).__name__}")
        if not 0 <= n <= len(self):
            raise ValueError(f"there are {len(self)} events, so {n} cannot be acknowledged")
        await self._progress.acknowledge(n)


async def decode_with_hook(batch: Batch, on_poison: PoisonHook) -> None:
    """Decode the events of a batch, and give those that cannot be decoded to the hook.

    Raises:
        Exception: The hook's error.

    Checkpoint: now and then, as decoding takes time.
    If cancelled: some events have been given to the hook.
    """
    slices = decode_slices(batch.raw, batch.is_json)
    decoded = await convert(batch, slices, on_poison)
    batch._decoded = decoded  # noqa: SLF001 - same module; applications must not use it


def _with_remedy(error: InvalidEvent) -> InvalidEvent:
    error.add_note(
        "The sender sends this batch again, without end. serve(..., on_poison=...) takes such"
        " events out of their batches."
    )
    return error


async def convert(
    batch: Batch, slices: Iterable[tuple[Sequence[Any], bool]], on_poison: PoisonHook | None
) -> list[Any]:
    """Collect the converted events of a batch, and give those that cannot be to the hook.

    The events that the hook gets are missing in `Batch.events` from then on.

    Args:
        batch: The batch.
        slices: All events, some at a time; see `decode_slices`.
        on_poison: The hook, or ``None``.

    Raises:
        InvalidEvent: An event cannot be converted, and there is no hook.
        Exception: The hook's error.

    Checkpoint: now and then, as converting takes time.
    If cancelled: some events have been given to the hook.
    """
    converted: list[Any] = []
    numbers: list[int] = []
    size = end = 0
    for events, invalid in slices:
        start, end = end, end + len(events)
        if not invalid:
            converted += events
            numbers += range(start + 1, end + 1)
        else:
            for n, event in enumerate(events, start + 1):
                if not isinstance(event, InvalidEvent):
                    converted.append(event)
                    numbers.append(n)
                elif on_poison is None:
                    raise _with_remedy(event)
                else:
                    await _give(on_poison, batch, n, event.reason)
        size += sum(map(len, batch.raw[start:end])) + _PER_EVENT * len(events)
        if size >= _SLICE:
            size = 0
            await trio.lowlevel.checkpoint()
    if on_poison is not None:
        batch._numbers = numbers  # noqa: SLF001 - as above
    return converted


async def _give(on_poison: PoisonHook, batch: Batch, n: int, reason: str) -> None:
    poison = Poison(
        raw=batch.raw[n - 1],
        number=n,
        reason=reason,
        version=batch.version,
        transport=batch.transport,
    )
    waiting = on_poison(poison)
    if isawaitable(waiting):
        await waiting
