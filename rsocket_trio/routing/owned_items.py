"""The answer of a handler that takes the items of a channel as a publisher: `OwnedItems`.

A task receives the items and sends them to the subscribers. Its nursery is open as long as the
answer is iterated, in the task of the handler; that task also closes it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import attrs
import trio

from ..interactions.block import Block
from ..payload import Payload
from ..reactive_streams.interfaces import Publisher
from ..reactive_streams.iterating import close_iterator, iterator_over
from ..reactive_streams.pumps import from_channel
from ..streamed import AnyPayload
from .converted_streams import DecodedChannel

__all__ = ["OwnedItems", "PublishedItems"]

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


class OwnedItems(AsyncIterator[AnyPayload]):
    """The items of an answer, with the nursery that they need.

    Args:
        payloads: The items of the channel.
        start: Calls the handler.
    """

    __slots__ = ("_demand", "_items")

    def __init__(
        self,
        payloads: trio.abc.ReceiveChannel[Payload],
        start: Callable[[PublishedItems], Answer],
    ) -> None:
        self._demand: Callable[[], int] | None = None
        self._items = self._iterate(payloads, start)

    def follow(self, demand: Callable[[], int]) -> None:
        """See `rsocket_trio.reactive_streams.ElementStream.follow`."""
        self._demand = demand

    async def __anext__(self) -> AnyPayload:
        return await anext(self._items)

    async def athrow(self, error: BaseException) -> AnyPayload:
        """See `rsocket_trio.routing.converted_streams.EncodedItems.athrow`.

        Checkpoint: as the handler's iterator does.
        If cancelled: as the handler's iterator does.
        """
        return await self._items.athrow(error)

    async def aclose(self) -> None:
        """Close the handler's iterator, then the nursery.

        Checkpoint: as the handler's iterator does.
        If cancelled: as the handler's iterator does.
        """
        await self._items.aclose()

    async def _iterate(
        self,
        payloads: trio.abc.ReceiveChannel[Payload],
        start: Callable[[PublishedItems], Answer],
    ) -> AsyncGenerator[AnyPayload, None]:
        # The connection iterates and closes this in one task, so a nursery may be open at `yield`.
        block = Block()
        with block.around():
            async with trio.open_nursery() as nursery:
                with block.body():
                    answer = start(PublishedItems(payloads, nursery))
                    items = iterator_over(await answer if isinstance(answer, Awaitable) else answer)
                    follow = getattr(items, "follow", None)
                    if follow is not None and self._demand is not None:
                        follow(self._demand)
                    try:
                        async for item in items:
                            thrown: AnyPayload = item
                            while True:
                                try:
                                    yield thrown
                                    break
                                except GeneratorExit:
                                    raise
                                except BaseException as error:  # for the handler's generator
                                    athrow = getattr(items, "athrow", None)
                                    if athrow is None:
                                        raise
                                    try:
                                        thrown = await athrow(error)
                                    except StopAsyncIteration:
                                        return
                    finally:
                        await close_iterator(items)
                nursery.cancel_scope.cancel()
