"""Incoming demand: `PayloadInbox` takes items that arrive, and its user reads a `PayloadStream`.

The items on the way, and those unread here, are at most as many as we granted. This is the capacity
of a `PayloadInbox`, so the connection's reader delivers without waiting. If the inbox is full, the
peer has sent more than its credit. The inbox is a deque with one wake-up (`Inbox`), because that is
several times as fast as a memory channel (docs/performance.md).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias, final

import attrs
import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..account import ITEM_COST, Account
from ..errors import ErrorCode, LocalProtocolError, RemoteProtocolError, RSocketError
from ..field_checks import COUNT, argument
from ..payload import Payload
from ..protocol.credit import Window, split_request_n
from ..sealed import Sealed
from .inbox import Inbox
from .operation import IN_A_ROW

__all__ = ["Inlet", "PayloadInbox", "PayloadStream", "StreamStatistics"]

OpenAgain: TypeAlias = "Callable[[RSocketError], Awaitable[PayloadStream | None]]"
"""Takes the error of a stream, and opens another one; ``None`` if that may not be."""

_NAME: Final = "PayloadStream"


@attrs.frozen(kw_only=True)
class StreamStatistics:
    """Numbers about a `PayloadStream`.

    Attributes:
        received: The number of items that have arrived.
        unread: The number of items that have arrived and that the user has not received yet.
        outstanding: The number of granted items that have not arrived yet.
        peak_unread: The largest number of unread items so far; compare it with ``window``.
        window: The largest number of items that may be on the way or unread: ``prefetch``, or with
            manual demand the largest grant so far.
    """

    received: int
    unread: int
    outstanding: int
    peak_unread: int
    window: int


class Inlet(Protocol):
    """The functions of an operation that its `PayloadInbox` calls."""

    @abstractmethod
    def grant(self, n: int) -> None:
        """Grant ``n`` more items, for the reader of the stream."""

    @abstractmethod
    def abandon(self) -> None:
        """Cancel the stream: its reader wants no more items."""


class PayloadInbox(Inbox[Payload]):
    """The items that have arrived on a stream; its user reads them from a `PayloadStream`.

    Attributes:
        inlet: The operation.
        account: Counts the unread bytes of the connection.
        window: The demand that has been granted.
        max_window: The largest number of items that may be on the way or unread.
        received: The number of items that have arrived.
        peak: The largest number of unread items so far.
    """

    __slots__ = ("account", "inlet", "max_window", "peak", "received", "window")

    def __init__(self, inlet: Inlet, account: Account, window: Window, max_window: int) -> None:
        super().__init__()
        self.inlet = inlet
        self.account = account
        self.window = window
        self.max_window = max_window
        self.received = 0
        self.peak = 0

    def deliver(self, payload: Payload, *, free: bool = False) -> None:
        """Add one item that arrived.

        Args:
            payload: The item.
            free: Whether it used no credit: the item inside a REQUEST_CHANNEL frame. The window
                was made with ``uncredited=1``.

        Raises:
            RemoteProtocolError: The peer overran its credit, or the connection's limit of unread
                bytes is reached. The stream is over then.
        """
        window = self.window
        if window.outstanding and not free:
            # Does the same as `Window.received`, but saves the call.
            window.outstanding -= 1
            window.unread += 1
        elif not free and not window.received():
            raise RemoteProtocolError(
                "the peer sent more items than it was granted", code=ErrorCode.INVALID
            )
        account = self.account
        metadata = payload.metadata
        size = len(payload.data) + ITEM_COST if metadata is None else _size(payload)
        # Does the same as `Account.take`, but saves the call.
        held = account.held + size
        if held > account.limit:
            raise RemoteProtocolError(
                f"{account.refusal}; read faster or use a smaller prefetch",
                code=ErrorCode.CANCELED,
            )
        account.held = held
        self.received += 1
        queue = self.queue
        queue.append(payload)
        if len(queue) > self.peak:
            self.peak = len(queue)
        if self._task is not None:
            self._wake()

    def pop(self) -> Payload:
        """Take an item from the queue, and grant more items if it is time."""
        payload = self.queue.popleft()
        self.account.held -= _size(payload)
        n = self.window.consumed()
        if n and not self.ended:
            self.inlet.grant(n)
        return payload

    def close(self) -> None:
        """See `PayloadStream.close`."""
        if self.closed:
            return
        self.account.give_back(sum(map(_size, self.queue)))
        self.drop()
        if not self.ended:
            self.ended = True
            self.inlet.abandon()
        self._wake()


@final
class PayloadStream(
    trio.abc.ReceiveChannel[Payload],
    metaclass=Sealed,
    given="Requester.request_stream and request_channel give one, and handlers are given one",
):
    """The payloads of a stream, in order. Iterate over it; it is a `trio.abc.ReceiveChannel`.

    `Requester.request_stream` and `Requester.request_channel` make it, and handlers of
    request_channel get one. One task reads it at a time. Closing it before its end cancels the
    stream at the peer; leaving the ``async with`` block that made it closes it.

    Demand: with ``prefetch`` the peer is granted more items as items are consumed, in batches of
    a quarter of ``prefetch``. With ``prefetch=0`` only `request_n` grants items.
    """

    __slots__ = ("_again", "_begun", "_burst", "_inbox", "_queue")

    def __init__(self, inbox: PayloadInbox) -> None:
        self._inbox = inbox
        self._queue = inbox.queue
        self._burst = 0
        self._again: OpenAgain | None = None
        self._begun: Callable[[bool], None] | None = None

    def _tells(self, begun: Callable[[bool], None]) -> None:
        """Call a function when an item is read, once: the first one if a reader waits for it.

        It is told whether one does. If items were there before, it may be a later one.
        """
        self._begun = begun

    def _opens_again(self, again: OpenAgain) -> None:
        """Ask for another stream in the place of this one if it fails before its first item.

        It is asked also if this one may not be replaced, as it learns of the error so.
        """
        self._again = again

    @property
    def _replaceable(self) -> bool:
        """Whether another stream may be in the place of this one.

        What was granted by `request_n` is known to this one only.
        """
        return not self._inbox.window.manual

    @property
    def _answered(self) -> bool:
        """Whether an item has come, or the end without one."""
        inbox = self._inbox
        return inbox.received > 0 or (inbox.ended and inbox.failure is None and not inbox.closed)

    async def _replaced(self, error: RSocketError) -> bool:
        """Go on with another stream, if this one has failed before its first item.

        It does not raise ``error`` itself: its frame would be in the traceback, and hold it. A
        reader that is cancelled meanwhile, e.g. by its timeout, may ask again.
        """
        again, self._again = self._again, None
        if again is None or self._inbox.received:
            return False
        try:
            other = await again(error)
        except trio.Cancelled:
            self._again = again
            raise
        if other is None:
            return False
        closed = self._inbox.closed
        if other._begun is not None:  # noqa: SLF001 - this class
            self._begun = other._begun  # noqa: SLF001 - this class
        self._inbox = other._inbox  # noqa: SLF001 - this class
        self._queue = other._queue  # noqa: SLF001 - this class
        self._again = again
        if closed:  # by another task, meanwhile
            self._inbox.close()
        return True

    def _tell(self, *, waited: bool) -> None:
        """Tell of an item, and whether a reader has waited for it as the first one."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun(waited)

    def __aiter__(self) -> PayloadStream:
        return self

    async def __anext__(self) -> Payload:
        """Return the next item.

        Checkpoint: every item is a cancellation point; other tasks run whenever this has to wait,
        and after every 64 items at least.
        If cancelled: no item is lost.
        """
        queue = self._queue
        if queue and self._burst < IN_A_ROW:
            await checkpoint_if_cancelled()
            self._burst += 1
            # Does the same as `PayloadInbox.pop`, but saves the call.
            inbox = self._inbox
            payload = queue.popleft()
            inbox.account.held -= (
                len(payload.data) + ITEM_COST if payload.metadata is None else _size(payload)
            )
            n = inbox.window.consumed()
            if n and not inbox.ended:
                inbox.check_home(_NAME)  # not for each item, which would cost too much
                inbox.inlet.grant(n)
            return payload
        try:
            return await self.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None

    async def receive(self) -> Payload:
        """Receive the next item.

        Raises:
            trio.EndOfChannel: The stream is complete, and all its items have been received.
            StreamError: The peer ended the stream with an error.
            RemoteProtocolError: The peer broke the protocol on this stream.
            ConnectionClosed: The connection ended before the stream did.
            trio.ClosedResourceError: This stream was closed here.
            trio.BusyResourceError: Another task is receiving.
            RuntimeError: The caller is in another thread than the connection. This holds for each
                method of this class that does something.

        Checkpoint: always.
        If cancelled: no item is lost.
        """
        self._burst = 0
        waited = self._begun is not None and not self._inbox.received
        while True:  # A stream without an item may be opened again, session after session.
            try:
                await self._inbox.wait(_NAME)
                break
            except RSocketError as error:
                if not await self._replaced(error):
                    raise
        if self._begun is not None:
            self._tell(waited=waited)
        return self._inbox.pop()

    async def receive_many(self, limit: int | None = None) -> list[Payload]:
        """Receive all items that have arrived; wait only if there is none.

        Args:
            limit: The largest number of items to return; by default there is no limit.

        Returns:
            At least one item.

        Raises:
            trio.EndOfChannel: As `receive`, and its other errors.
            ValueError: ``limit`` is less than 1.

        Checkpoint: always.
        If cancelled: no item is lost.
        """
        if limit is not None and (type(limit) is not int or limit < 1):
            argument("limit", limit, COUNT)
        self._burst = 0
        waited = self._begun is not None and not self._inbox.received
        while True:  # as `receive`
            try:
                await self._inbox.wait(_NAME)
                break
            except RSocketError as error:
                if not await self._replaced(error):
                    raise
        if self._begun is not None:
            self._tell(waited=waited)
        pop = self._inbox.pop
        here = len(self._queue)
        return [pop() for _ in range(here if limit is None else min(limit, here))]

    def receive_nowait(self) -> Payload:
        """Receive an item that has arrived already.

        Raises:
            trio.WouldBlock: There is no item yet.
            trio.EndOfChannel: As `receive`, and its other errors.
        """
        self._inbox.check_home(_NAME)
        self._inbox.check()
        if not self._queue:
            raise trio.WouldBlock
        return self._inbox.pop()

    def request_n(self, n: int) -> None:
        """Grant ``n`` more items; only for a stream opened with ``prefetch=0``.

        Raises:
            LocalProtocolError: ``n`` is less than 1, the stream's demand is automatic, or more
                items could be on the way or unread than `Limits.max_prefetch` allows.
            trio.ClosedResourceError: This stream was closed here.
        """
        inbox = self._inbox
        inbox.check_home(_NAME)
        if inbox.closed:
            raise trio.ClosedResourceError("this stream was closed here")
        if n < 1:
            raise LocalProtocolError(f"n must be at least 1, not {n}")
        if not inbox.window.manual:
            raise LocalProtocolError(
                "the demand of this stream is automatic; open it with prefetch=0 to use request_n"
            )
        if inbox.ended:
            return
        if inbox.window.outstanding + len(inbox.queue) + n > inbox.max_window:
            raise LocalProtocolError(
                f"after granting {n} more, more than {inbox.max_window} items could be on the way "
                "or unread (Limits.max_prefetch)"
            )
        for part in split_request_n(n):
            inbox.window.grant(part)
            inbox.inlet.grant(part)

    def close(self) -> None:
        """Stop reading. If the stream has not ended, this cancels it at the peer."""
        if not self._inbox.closed:
            self._inbox.check_home(_NAME)
        self._inbox.close()

    async def aclose(self) -> None:
        """`close`, and a checkpoint.

        Checkpoint: always.
        If cancelled: closed all the same.
        """
        self.close()
        await checkpoint()

    def statistics(self) -> StreamStatistics:
        """Return numbers about this stream, for humans and tests."""
        inbox = self._inbox
        return StreamStatistics(
            received=inbox.received,
            unread=len(inbox.queue),
            outstanding=inbox.window.outstanding,
            peak_unread=inbox.peak,
            window=inbox.window.peak,
        )


def _size(payload: Payload) -> int:
    """The number of bytes counted for an unread item."""
    return len(payload.data) + len(payload.metadata or b"") + ITEM_COST
