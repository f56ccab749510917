"""Streams of payloads as streams of objects, and back; an item costs one coroutine."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

import trio

from ..payload import Payload
from ..reactive_streams.interfaces import Publisher
from ..reactive_streams.iterating import close_iterator, counted, iterator_over
from ..reactive_streams.unread import ElementCounter
from ..streamed import AnyPayload, StreamedPayload

__all__ = ["READY", "DecodedChannel", "EncodedItems", "in_one_piece"]

T = TypeVar("T")

READY: Final = (Payload, StreamedPayload)
"""Results of these types are sent as they are."""


async def in_one_piece(answer: StreamedPayload) -> bytes:
    """Return the data of an answer over a wire that has no chunks, and close what gives them.

    Checkpoint: as the iterator of the chunks does.
    If cancelled: the iterator is closed.
    """
    chunks = aiter(answer.data)
    try:
        return b"".join([chunk async for chunk in chunks])
    finally:
        await close_iterator(chunks)


class EncodedItems(AsyncIterator[AnyPayload]):
    """The items of a handler as payloads. The task that iterates closes it.

    It is no generator: a generator that has not started would not close the one of the handler.

    Args:
        items: The items.
        encode: Converts an item.
        name: Metadata of the first item that is converted.
        note: Gets an error of the handler before it is raised.
        ready: Items of these types are sent as they are.

    Attributes:
        source: The items, as the handler gave them.
    """

    __slots__ = ("_encode", "_items", "_name", "_next", "_note", "_ready", "source")

    def __init__(
        self,
        items: AsyncIterable[Any] | Publisher[Any],
        encode: Callable[[Any], bytes],
        name: bytes | None = None,
        note: Callable[[Exception], None] | None = None,
        ready: tuple[type, ...] = READY,
    ) -> None:
        self.source = items
        self._items = iterator_over(items)
        self._next = self._items.__anext__
        self._encode = encode
        self._name = name
        self._note = note
        self._ready = ready

    async def __anext__(self) -> AnyPayload:
        try:
            item: Any = await self._next()
            if isinstance(item, self._ready):
                return cast("AnyPayload", item)
            if self._name is None:
                return Payload(self._encode(item))
            name, self._name = self._name, None
            return Payload(self._encode(item), name)
        except StopAsyncIteration:
            raise
        except Exception as error:  # to be raised again, with a note
            if self._note is not None:
                self._note(error)
            raise

    def follow(self, demand: Callable[[], int]) -> None:
        """See `rsocket_trio.reactive_streams.ElementStream.follow`."""
        follow = getattr(self._items, "follow", None)
        if follow is not None:
            follow(demand)

    def counted(self, counter: ElementCounter | None) -> AbstractContextManager[None]:
        """See `rsocket_trio.reactive_streams.iterating.counted`."""
        return counted(self._items, counter)

    async def athrow(self, error: BaseException) -> AnyPayload:
        """Raise ``error`` where the handler's generator waits.

        Raises:
            BaseException: ``error`` itself, if the handler's iterator is no generator.

        Checkpoint: as the handler's iterator does.
        If cancelled: as the handler's iterator does.
        """
        athrow = getattr(self._items, "athrow", None)
        try:
            if athrow is None:
                raise error
            item = await athrow(error)
        finally:
            del error  # its traceback holds this frame: a cycle, with all that the handler has
        return (
            cast("AnyPayload", item)
            if isinstance(item, self._ready)
            else Payload(self._encode(item))
        )

    async def aclose(self) -> None:
        """Close the handler's iterator, if it can be closed.

        Checkpoint: as the handler's iterator does.
        If cancelled: as the handler's iterator does.
        """
        aclose = getattr(self._items, "aclose", None)
        if aclose is not None:
            await cast("Awaitable[object]", aclose())


class DecodedChannel(trio.abc.ReceiveChannel[T], Generic[T]):
    """The items that the requester of a channel sends, as objects.

    Args:
        payloads: The items.
        decode: Converts the data of one.
        skips_first: The first payload is no item, but only there because a request has one.
    """

    def __init__(
        self,
        payloads: trio.abc.ReceiveChannel[Payload],
        decode: Callable[[bytes], T],
        *,
        skips_first: bool = False,
    ) -> None:
        self._payloads = payloads
        self._receive = payloads.receive
        self._next = payloads.__anext__
        self._decode = decode
        if skips_first:
            self._receive = partial(self._behind_first, payloads.receive)
            self._next = partial(self._behind_first, payloads.__anext__)

    async def _behind_first(self, receive: Callable[[], Awaitable[Payload]]) -> Payload:
        await receive()
        self._receive = self._payloads.receive
        self._next = self._payloads.__anext__
        return await receive()

    async def receive(self) -> T:
        """Receive the next item.

        Raises:
            Invalid: The item cannot be converted. The next item may be received.
            trio.EndOfChannel: The requester has completed.

        Checkpoint: always.
        If cancelled: no item is lost.
        """
        return self._decode((await self._receive()).data)

    async def __anext__(self) -> T:
        return self._decode((await self._next()).data)

    async def aclose(self) -> None:
        """Cancel what the requester sends.

        Checkpoint: always.
        If cancelled: it is closed nevertheless.
        """
        await self._payloads.aclose()
