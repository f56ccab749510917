"""Blocks of elements as they arrive: `PackedStream`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, final

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from ..entrance import Home, gives_way
from ..errors import fresh_copy
from ..one_waiter import OneWaiter
from ..reactive_streams.unread import UnreadAccount
from ..sealed import Sealed, make
from .errors import DifferentSizes
from .packed import PackedElements

if TYPE_CHECKING:
    from ..reactive_streams.interfaces import Subscription

__all__ = ["PackedInbox", "PackedStream"]


class PackedInbox(OneWaiter):
    """A subscriber that keeps the blocks for one task that reads them.

    Args:
        window: The largest number of elements that are requested or unread.
        limit: The number of elements after which it cancels; ``None`` if there is none.

    Attributes:
        account: Counts the octets of the unread blocks.
        closed: Whether the reader wants no more.
    """

    def __init__(self, window: int, limit: int | None = None) -> None:
        self.blocks: deque[PackedElements] = deque()
        self.ended = False
        self.received = 0
        self._outstanding = 0
        self._window: Final = window
        self._batch: Final = max(window // 4, 1)
        self._consumed = 0
        self._left = limit  # what may still be requested
        self._failure: Exception | None = None
        self._subscription: Subscription | None = None
        self._task = None
        self.closed = False
        self.account: UnreadAccount | None = None
        self._home: Final = Home()

    # -- Subscriber ---------------------------------------------------------------------------

    def on_subscribe(self, subscription: Subscription, /) -> None:
        """Request the first window."""
        if self._subscription is not None or self.ended:
            subscription.cancel()
            return
        self._subscription = subscription
        self._request(self._window)

    def on_block(self, elements: bytes, size: int, count: int, /) -> None:
        """Keep a block."""
        if not self.ended:
            failure = None if self.account is None else self.account.add(elements)
            if failure is not None:
                self._end(failure)
                return
            self.received += count
            self.blocks.append(make(PackedElements, elements, size, count))
            self._outstanding -= count
            self._wake()
            if self._left == 0 and not self._outstanding:
                self._end(None)  # the limit is reached

    def on_next(self, element: Any, /) -> None:
        """Refuse an element of a stream whose elements have different sizes."""
        self._end(
            DifferentSizes(
                "the elements of this publisher do not have one size: read it with open()"
            )
        )

    def on_error(self, error: Exception, /) -> None:
        """End; the reader gets the error behind the blocks."""
        self._subscription = None
        self._end(error)

    def on_complete(self) -> None:
        """End behind the blocks."""
        self._subscription = None
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if not self.ended:
            self.ended = True
            self._failure = error
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.cancel()
        self._wake()

    # -- for the reader -----------------------------------------------------------------------

    def pop(self) -> PackedElements:
        """Take a block, and request more elements if it is time."""
        block = self.blocks.popleft()
        if self.account is not None:
            self.account.remove(block.data)
        self._consumed += block.count
        if self._consumed >= self._batch and self._subscription is not None:
            consumed, self._consumed = self._consumed, 0
            self._request(consumed)
        return block

    def _request(self, n: int) -> None:
        left = self._left
        if left is not None:
            n = min(n, left)
            self._left = left - n
        if n and self._subscription is not None:
            self._outstanding += n
            self._subscription.request(n)

    async def wait(self) -> None:
        """Wait for a block.

        Raises:
            trio.EndOfChannel: There will be none; or the error with which the stream ended.
            trio.ClosedResourceError: It was closed here.
            trio.BusyResourceError: Another task waits.
            RuntimeError: The caller is in another thread than the connection.

        Checkpoint: always.
        If cancelled: nothing is lost.
        """
        self.check_home()
        if self._task is not None:
            raise trio.BusyResourceError("another task is receiving")
        if self.blocks or self.ended:
            await checkpoint()
        while not (self.blocks or self.ended):  # another task may have taken what woke this one
            if self._task is not None:
                raise trio.BusyResourceError("another task is receiving")
            await self._until_woken()
            if not self.blocks and gives_way(self._failure):
                await checkpoint_if_cancelled()
        if self.closed:
            raise trio.ClosedResourceError("this stream was closed here")
        if not self.blocks:
            if self._failure is not None:
                raise fresh_copy(self._failure)
            raise trio.EndOfChannel

    def check_home(self) -> None:
        """Refuse a reader in another thread.

        Raises:
            RuntimeError: It is in one.
        """
        self._home.check("this iteration")

    def close(self) -> None:
        """Want no more."""
        self.closed = True
        if self.account is not None:
            self.account.remove_all(block.data for block in self.blocks)
        self.blocks.clear()
        self._end(None)


@final
class PackedStream(
    trio.abc.ReceiveChannel[PackedElements],
    metaclass=Sealed,
    given="RemotePublisher.open_packed gives one",
):
    """The elements of a publisher in blocks, as they have arrived. Iterate over it.

    One task reads it at a time. Blocks that have arrived are delivered before the end or the error.
    """

    def __init__(self, inbox: PackedInbox) -> None:
        self._inbox = inbox

    async def receive(self) -> PackedElements:
        """Receive the next block.

        Raises:
            trio.EndOfChannel: The publisher is complete, and all blocks have been received.
            PublisherError: The publisher has failed.
            DifferentSizes: Its elements do not have one size.
            ConnectionClosed: The connection is over.
            trio.ClosedResourceError: The block of `open_packed` or of the connection has ended.
            trio.BusyResourceError: Another task is receiving.

        Checkpoint: always.
        If cancelled: no block is lost.
        """
        await self._inbox.wait()
        return self._inbox.pop()

    def close(self) -> None:
        """Stop reading: cancel the subscription, and drop what is unread."""
        if not self._inbox.closed:
            self._inbox.check_home()
        self._inbox.close()

    async def aclose(self) -> None:
        """`close`, and a checkpoint.

        Checkpoint: always.
        If cancelled: closed nevertheless.
        """
        self.close()
        await checkpoint()
