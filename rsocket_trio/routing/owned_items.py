"""The items of an answer, within a block that lives as long as they do: `OwnedItems`.

The block is the nursery of a task that publishes the items of a channel, or the middleware of the
call. It is entered before the first item and left after the last one, in the task of the handler,
which iterates over the items and closes them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeAlias, TypeVar

import attrs
import trio

from ..interactions.block import Block
from ..interactions.sending import ENDED, throw_into
from ..payload import Payload
from ..reactive_streams.interfaces import Publisher
from ..reactive_streams.iterating import close_iterator, iterator_over
from ..reactive_streams.pumps import from_channel
from ..streamed import AnyPayload
from .converted_streams import DecodedChannel

__all__ = ["OwnedItems", "PublishedItems", "published"]

T = TypeVar("T")
Answer: TypeAlias = AsyncIterable[AnyPayload] | Awaitable[AsyncIterable[AnyPayload]]


@attrs.frozen
class PublishedItems:
    """The items of a channel, and the nursery for the task that publishes them."""

    payloads: trio.abc.ReceiveChannel[Payload]
    nursery: trio.Nursery

    def publisher(
        self, decode: Callable[[bytes], Any] | None, *, skips_first: bool = False
    ) -> Publisher[Any]:
        """Return the items as a publisher, converted by ``decode``; payloads without it."""
        if decode is None:
            return from_channel(self.payloads, self.nursery)
        channel = DecodedChannel(self.payloads, decode, skips_first=skips_first)
        return from_channel(channel, self.nursery)


@asynccontextmanager
async def published(payloads: trio.abc.ReceiveChannel[Payload]) -> AsyncIterator[PublishedItems]:
    """Open a nursery for the publisher of a channel's items; the answer's end cancels it."""
    block = Block()
    with block.around():
        async with trio.open_nursery() as nursery:
            with block.body():
                yield PublishedItems(payloads, nursery)
            nursery.cancel_scope.cancel()


class OwnedItems(AsyncIterator[AnyPayload], Generic[T]):
    """The items of an answer within a block.

    Args:
        block: The block.
        start: Calls the handler with what the block gives.
        given: Gets what the block gives and the number of items, before the block is left.
        sent: Gets each item.
    """

    # The method of the generator itself: a function around it would double what an item costs.
    __slots__ = ("__anext__", "_demand", "_given", "_items", "_sent")

    __anext__: Callable[[], Awaitable[AnyPayload]]

    def __init__(
        self,
        block: AbstractAsyncContextManager[T],
        start: Callable[[T], Answer],
        given: Callable[[T, int], object] | None = None,
        sent: Callable[[AnyPayload], object] | None = None,
    ) -> None:
        self._demand: Callable[[], int] | None = None
        self._given = given
        self._sent = sent
        self._items = self._iterate(block, start)
        self.__anext__ = self._items.__anext__

    def follow(self, demand: Callable[[], int]) -> None:
        """See `rsocket_trio.reactive_streams.ElementStream.follow`."""
        self._demand = demand

    async def athrow(self, error: BaseException) -> AnyPayload:
        """See `rsocket_trio.routing.converted_streams.EncodedItems.athrow`.

        Checkpoint: as the handler's iterator does.
        If cancelled: as the handler's iterator does.
        """
        return await self._items.athrow(error)

    async def aclose(self) -> None:
        """Close the handler's iterator, then the block.

        Checkpoint: as the handler's iterator and the block do.
        If cancelled: as the handler's iterator and the block do.
        """
        await self._items.aclose()

    async def _iterate(
        self, block: AbstractAsyncContextManager[T], start: Callable[[T], Answer]
    ) -> AsyncGenerator[AnyPayload, None]:
        # The connection iterates and closes this in one task, so a block may be open at `yield`.
        async with block as value:
            answer = start(value)
            items = iterator_over(await answer if isinstance(answer, Awaitable) else answer)
            follow = getattr(items, "follow", None)
            if follow is not None and self._demand is not None:
                follow(self._demand)
            count, sent = 0, self._sent
            try:
                async for item in items:
                    count += 1
                    if sent is not None:
                        sent(item)
                    thrown: Any = item
                    while True:
                        try:
                            yield thrown
                            break
                        except GeneratorExit:
                            raise
                        except BaseException as error:  # for the handler's generator
                            thrown = await throw_into(items, error)
                        if thrown is ENDED:
                            return
            finally:
                if self._given is not None:
                    self._given(value, count)
                await close_iterator(items)
