"""Demand, incoming: `PayloadStream` is what a stream's user reads.

The peer may have as many items on the way, or unread here, as we granted: that is the
capacity of a `PayloadStream`, so the connection's reader delivers without ever waiting, and a full
stream means that the peer overran its credit. It is a `trio.abc.ReceiveChannel`; inside, it is a
deque and one wake-up (`Arrivals`), because that is several times as fast as a memory channel's
hand-off (docs/performance.md).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import trio
from trio.lowlevel import checkpoint_if_cancelled

from ..errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from ..payload import Payload
from ..protocol.credit import Window, split_request_n
from .arrivals import Arrivals

if TYPE_CHECKING:
    from .operation import Outbound

__all__ = ["Inlet", "PayloadStream", "StreamStatistics"]

_BURST: Final = 64
"""Items handed out in a row without letting another task run."""


@attrs.frozen
class StreamStatistics:
    """What a `PayloadStream` has seen.

    Attributes:
        received: Items that have arrived.
        unread: Items that have arrived and were not received yet.
        outstanding: Items granted that have not arrived yet.
        peak: The largest number of items that were ever unread, against ``window``.
        window: The most items that may be on the way or unread: ``prefetch``, or what has been
            granted at most where demand is manual.
    """

    received: int
    unread: int
    outstanding: int
    peak: int
    window: int


class Inlet(Protocol):
    """What a `PayloadStream` tells its operation."""

    @abstractmethod
    def grant(self, n: int) -> None:
        """The reader of the stream wants ``n`` more items."""

    @abstractmethod
    def abandon(self) -> None:
        """The reader of the stream wants no more of it."""


class PayloadStream(Arrivals[Payload]):
    """The payloads of a stream, in order: what you iterate over. A `trio.abc.ReceiveChannel`.

    It is made by `Requester.request_stream` and `Requester.request_channel`, and given to
    handlers of request_channel. One task reads it at a time. Closing it before its end cancels
    the stream at the peer; leaving the ``async with`` block that made it closes it.

    Demand: with ``prefetch`` the peer is granted more as items are consumed, in batches of a
    quarter. With ``prefetch=0`` nothing is granted but what `request_n` says.
    """

    __slots__ = (
        "_burst",
        "_inlet",
        "_outbound",
        "_peak",
        "_received",
        "_window",
        "max_window",
    )

    def __init__(self, inlet: Inlet, outbound: Outbound, window: Window, max_window: int) -> None:
        super().__init__()
        self._inlet = inlet
        self._outbound = outbound
        self._window = window
        self._burst = 0
        self._received = 0
        self._peak = 0
        self.max_window = max_window

    @property
    def initial_request_n(self) -> int:
        """What the request frame grants."""
        return self._window.initial_request_n

    # -- the connection's side: synchronous, called by the operation ------------------------

    def deliver(self, payload: Payload, *, free: bool = False) -> None:
        """Take one item that arrived.

        Args:
            payload: The item.
            free: It used no credit: the item inside a REQUEST_CHANNEL frame. The window was made
                with ``uncredited=1``.

        Raises:
            RemoteProtocolError: The peer overran its credit, or the connection's limit of unread
                bytes is reached. The stream is over then.
        """
        window = self._window
        if window.outstanding and not free:
            # As `Window.received`, without a call more.
            window.outstanding -= 1
            window.unread += 1
        elif not free and not window.received():
            raise RemoteProtocolError(
                "the peer sent more items than it was granted", code=ErrorCode.INVALID
            )
        outbound = self._outbound
        metadata = payload.metadata
        unread = outbound.unread + (len(payload.data) if metadata is None else _size(payload))
        if unread > outbound.max_unread:
            # Before it is kept: many streams could each go past the limit by an item else.
            raise RemoteProtocolError(
                f"more than {outbound.max_unread} bytes are unread on this connection "
                "(Limits.max_unread_size); read faster or use a smaller prefetch",
                code=ErrorCode.CANCELED,
            )
        outbound.unread = unread
        self._received += 1
        queue = self._queue
        queue.append(payload)
        if len(queue) > self._peak:
            self._peak = len(queue)
        if self._task is not None:
            self._wake()

    # -- the user's side --------------------------------------------------------------------

    def __aiter__(self) -> PayloadStream:
        return self

    async def __anext__(self) -> Payload:
        """The next item.

        Checkpoint: every item is a cancellation point; other tasks run whenever this has to wait,
        and every 64 items at least.
        If cancelled: no item is lost.
        """
        if self._queue and self._burst < _BURST:
            await checkpoint_if_cancelled()
            self._burst += 1
            # As `_pop`, without a call more.
            payload = self._queue.popleft()
            self._outbound.unread -= (
                len(payload.data) if payload.metadata is None else _size(payload)
            )
            n = self._window.consumed()
            if n and not self._ended:
                self._inlet.grant(n)
            return payload
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def receive(self) -> Payload:
        """Receive the next item.

        Raises:
            trio.EndOfChannel: The stream was completed and all its items have been received.
            StreamError: The peer ended the stream with an error.
            RemoteProtocolError: The peer broke the rules on this stream.
            ConnectionClosed: The connection ended before the stream did.
            trio.ClosedResourceError: This stream was closed here.
            trio.BusyResourceError: Another task is receiving.

        Checkpoint: always.
        If cancelled: no item is lost.
        """
        self._burst = 0
        await self._wait()
        return self._pop()

    async def receive_many(self, limit: int | None = None) -> list[Payload]:
        """Receive all that is here, and wait only where there is nothing.

        Args:
            limit: The most items to return; all there are by default.

        Returns:
            At least one item.

        Raises:
            trio.EndOfChannel: And all else as `receive`.
            ValueError: ``limit`` is less than 1.

        Checkpoint: always.
        If cancelled: no item is lost.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        self._burst = 0
        await self._wait()
        here = len(self._queue)
        return [self._pop() for _ in range(here if limit is None else min(limit, here))]

    def receive_nowait(self) -> Payload:
        """Receive an item that is here already.

        Raises:
            trio.WouldBlock: There is none yet.
            trio.EndOfChannel: And all else as `receive`.
        """
        self._check()
        if not self._queue:
            raise trio.WouldBlock
        return self._pop()

    def request_n(self, n: int) -> None:
        """Grant ``n`` more items; only for a stream opened with ``prefetch=0``.

        Raises:
            LocalProtocolError: ``n`` is less than 1, the stream's demand is automatic, or more
                would be granted than `Limits.max_prefetch` allows to be on the way or unread.
            trio.ClosedResourceError: This stream was closed here.
        """
        if n < 1:
            raise LocalProtocolError(f"n must be at least 1, not {n}")
        if not self._window.manual:
            raise LocalProtocolError(
                "the demand of this stream is automatic; open it with prefetch=0 to steer it"
            )
        if self._closed:
            raise trio.ClosedResourceError
        if self._ended:
            return
        if self._window.outstanding + len(self._queue) + n > self.max_window:
            raise LocalProtocolError(
                f"granting {n} more would let more than {self.max_window} items pile up here "
                "(Limits.max_prefetch)"
            )
        for part in split_request_n(n):
            self._window.grant(part)
            self._inlet.grant(part)

    def close(self) -> None:
        """Stop reading. Before the end of the stream this cancels it at the peer."""
        if self._closed:
            return
        self._closed = True
        unread = sum(map(_size, self._queue))
        self._queue.clear()
        self._outbound.unread -= unread
        if not self._ended:
            self._ended = True
            self._inlet.abandon()
        self._wake()

    def statistics(self) -> StreamStatistics:
        """Numbers about this stream, for humans and tests."""
        window = self._window
        return StreamStatistics(
            received=self._received,
            unread=len(self._queue),
            outstanding=window.outstanding,
            peak=self._peak,
            window=window.peak,
        )

    # -- inside -----------------------------------------------------------------------------

    def _pop(self) -> Payload:
        payload = self._queue.popleft()
        self._outbound.unread -= len(payload.data) if payload.metadata is None else _size(payload)
        n = self._window.consumed()
        if n and not self._ended:
            self._inlet.grant(n)
        return payload


def _size(payload: Payload) -> int:
    return len(payload.data) + len(payload.metadata or b"")
