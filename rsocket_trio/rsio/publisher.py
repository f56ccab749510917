"""Publishers of the peer: `RemotePublisher`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, final

from trio.lowlevel import checkpoint_if_cancelled

from ..field_checks import FLAG, argument
from ..interactions.block import opened_by_block
from ..reactive_streams.checks import check_subscriber
from ..reactive_streams.consuming import collect
from ..reactive_streams.iterating import (
    PREFETCH,
    ElementStream,
    IterablePublisher,
    check_prefetch,
    open_iter,
)
from ..sealed import make
from ..uri import without_query
from .receiving import PackedInbox, PackedStream

if TYPE_CHECKING:
    from ..reactive_streams.interfaces import Subscriber
    from ..repeating import Repeating

__all__ = ["RemotePublisher"]

PACKED_PREFETCH: Final = 16 * 1024
"""Elements that `RemotePublisher.open_packed` requests ahead of its reader."""


@final
class RemotePublisher(IterablePublisher[bytes]):
    """A publisher of the peer, as any other publisher. `Connection.publisher` gives one.

    Its elements are bytes.

    It is cold: each subscriber has a stream of its own, and the peer is asked when it subscribes.
    A failure of the peer's publisher is a `PublisherError`, the end of the connection a
    `rsocket_trio.ConnectionClosed`, or `trio.ClosedResourceError` if it was closed here. They come
    by ``on_error``. ``async for element in publisher`` works too.

    Attributes:
        name: Its name.
    """

    __slots__ = ("_repeating", "_subscribe", "name")

    def __init__(self, name: str, subscribe: Callable[[str, Subscriber[bytes]], object]) -> None:
        self._subscribe = subscribe
        self._repeating: Repeating | None = None
        self.name = name

    def subscribe(self, subscriber: Subscriber[bytes], /) -> None:
        """See `rsocket_trio.reactive_streams.Publisher.subscribe`.

        What is requested in ``on_subscribe`` goes with the first message. A subscriber with a
        method ``on_block(elements, size, count)`` gets packed elements by it, many in one call.
        """
        check_subscriber(subscriber)
        self._subscribe(self.name, subscriber)

    async def first(self, *, idempotent: bool = False) -> bytes | None:
        """Subscribe, wait for the first element, and cancel: a request that has one answer.

        Args:
            idempotent: The peer may be asked twice, so a client with ``repeats=`` asks again when
                its publisher fails, if `rsocket_trio.Repeats.also` has `PublisherError`; and beside
                the first time, if that is slow, with `rsocket_trio.Repeats.hedge`.

        Returns:
            The element; ``None`` if there is none.

        Raises:
            PublisherError: The publisher has failed.
            CircuitOpen: With ``repeats=``: too many have failed, and nothing was sent.
            ConnectionClosed: The connection is over.
            trio.ClosedResourceError: It was closed here.
            TypeError: ``idempotent`` is no bool.

        Checkpoint: always.
        If cancelled: the subscription is cancelled; nothing is sent while it waits for a repeat.
        """
        argument("idempotent", idempotent, FLAG)
        repeating = self._repeating
        if repeating is None:
            return await self._first()
        name = without_query(self.name)
        return await repeating.answer(name, self._first, idempotent=idempotent)

    async def _first(self) -> bytes | None:
        elements = await collect(self, limit=1, prefetch=1)
        return elements[0] if elements else None

    def open(
        self, prefetch: int = PREFETCH, *, limit: int | None = None
    ) -> AbstractAsyncContextManager[ElementStream[bytes]]:
        """Subscribe, and read the elements; leaving the block cancels.

        ``async with publisher.open() as elements: async for element in elements: ...``

        Args:
            prefetch: The largest number of elements that are requested or unread. More are
                requested whenever a quarter of them has been read. 0: only
                `rsocket_trio.reactive_streams.ElementStream.request_n` requests.
            limit: The number of elements to request altogether; by default there is none.

        Raises:
            ValueError: ``prefetch`` is less than 0, ``limit`` less than 1, or one of them more
                than 2**63-1.

        Checkpoint: entering is a cancellation point; leaving never waits.
        If cancelled: the subscription is cancelled.
        """
        return open_iter(self, prefetch, limit=limit)

    @opened_by_block
    async def open_packed(
        self, prefetch: int = PACKED_PREFETCH, *, limit: int | None = None
    ) -> AsyncIterator[PackedStream]:
        """Subscribe to a publisher of elements of one size, and read them in blocks.

        ``async with publisher.open_packed() as blocks: async for block in blocks: ...``

        Args:
            prefetch: The largest number of elements that are requested or unread, as for `open`.
            limit: The number of elements to request altogether; by default there is none.

        Yields:
            The blocks: each has the elements that arrived in one message or one read.

        Raises:
            ValueError: ``prefetch`` or ``limit`` is less than 1, or more than 2**63-1.

        Checkpoint: entering is a cancellation point; leaving never waits.
        If cancelled: the subscription is cancelled.
        """
        check_prefetch(prefetch, "prefetch")
        if limit is not None:
            check_prefetch(limit, "limit")
        inbox = PackedInbox(prefetch, limit)
        try:
            await checkpoint_if_cancelled()
            self.subscribe(inbox)
            yield make(PackedStream, inbox)
        finally:
            inbox.close()

    def __repr__(self) -> str:
        return f"<RemotePublisher {without_query(self.name)!r}>"
