"""From a call of `send` into the backlog: events are checked, and queued in order: `Intake`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from typing import Final

import trio

from ...entrance import over
from ...field_checks import argument, instance_of
from .backlog import Backlog
from .deliveries import Delivery
from .event_encoder import EventEncoder

__all__ = ["Intake"]

_CHECKED: Final = 2048
"""Events that are checked before other tasks run."""

_READ: Final = 256
"""Events of a generator that are read before other tasks run: its code may take long for each."""

_MAX_KEPT: Final = 8 * 2**20
"""Bytes of encoded events that wait. Checking an event encodes it, and so many of these bytes are
kept. All other events are encoded again when they are sent."""


class Intake:
    """Checks the events of each call before the first one is sent.

    Checking many events takes turns with other tasks. Yet no later call overtakes an earlier one.

    Args:
        encoder: Encodes events, and refuses those that can never be sent.
        backlog: Gets the events.

    Attributes:
        kept: Bytes of encoded events that are kept.
    """

    def __init__(self, encoder: EventEncoder, backlog: Backlog) -> None:
        self.kept = 0
        self._encoder: Final = encoder
        self._backlog: Final = backlog
        self._numbers: Final = count()
        # Calls that are not queued yet. The event of the first one is set. Each has its own, so
        # that a long line does not wake as a whole for each call that leaves it.
        self._checking: OrderedDict[int, trio.Event] = OrderedDict()
        self._closed = False

    async def check_open(self) -> None:
        """Check that `close` was not called.

        Raises:
            trio.ClosedResourceError: It was.

        Checkpoint: only if it was.
        If cancelled: nothing changes.
        """
        if self._closed:
            await over(trio.ClosedResourceError("the block of lumberjack.connect has ended"))

    def close(self) -> None:
        """Queue nothing more."""
        self._closed = True

    async def queue(
        self, events: Iterable[object], finished: Callable[[], None]
    ) -> Delivery | None:
        """Check all events of a call, and queue them. Call `over` in the end.

        Args:
            events: The events of the caller.
            finished: See `Delivery`.

        Returns:
            ``None`` if there are no events.

        Raises:
            LocalProtocolError: An event can never be sent; nothing is queued.
            TypeError: An event cannot be encoded; nothing is queued.
            trio.ClosedResourceError: `close` was called.

        Checkpoint: if there are many events, or an earlier call is not queued yet.
        If cancelled: nothing is queued.
        """
        argument("events", events, instance_of(Iterable))
        number = next(self._numbers)
        first = self._checking[number] = trio.Event()
        self._tell_first()
        delivery: Delivery | None = None
        try:
            listed = await _listed(events)
            if not listed:
                return None
            delivery = Delivery(number, listed, finished)
            await self._check(delivery)
            if not first.is_set():
                await first.wait()
            await self.check_open()
            self._backlog.add(delivery)
        except BaseException:  # nothing is queued, so nothing is kept
            if delivery is not None:
                self._release(delivery)
            raise
        finally:
            del self._checking[number]
            self._tell_first()
        return delivery

    def _tell_first(self) -> None:
        if self._checking:
            next(iter(self._checking.values())).set()

    def over(self, delivery: Delivery) -> None:
        """Forget a delivery; what is unsent of it is not sent."""
        self._release(delivery)
        self._backlog.fail(delivery, None)

    async def _check(self, delivery: Delivery) -> None:
        events = delivery.events
        encoder = self._encoder
        # Bytes of the caller are not encoded, so there is nothing to keep.
        keeping = not isinstance(events[0], bytes)
        position = 0
        while position < len(events):
            part = encoder.encode(events, position, min(position + _CHECKED, len(events)))
            position += len(part)
            if keeping:
                size = sum(map(len, part))
                keeping = self.kept + size <= _MAX_KEPT
                if keeping:
                    self.kept += size
                    delivery.encoded += part
                    delivery.encoded_size += size
            if position < len(events):
                await trio.lowlevel.checkpoint()

    def _release(self, delivery: Delivery) -> None:
        self.kept -= delivery.encoded_size
        delivery.encoded_size = 0


async def _listed(events: Iterable[object]) -> list[object]:
    if not isinstance(events, Iterator):
        return list(events)  # In one step, as the caller may change it afterwards.
    listed: list[object] = []
    while True:
        part = list(islice(events, _READ))
        listed += part
        if len(part) < _READ:
            return listed
        await trio.lowlevel.checkpoint()
