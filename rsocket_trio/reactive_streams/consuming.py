"""Use up a publisher in one call: `collect`, `for_each`; `to_channel` for several readers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from typing import Generic, TypeVar

import trio

from ..errors import single_error
from .interfaces import Publisher
from .iterating import PREFETCH, ElementStream, check_prefetch, open_iter

__all__ = ["collect", "for_each", "to_channel"]

T = TypeVar("T")


async def collect(
    publisher: Publisher[T], *, limit: int | None = None, prefetch: int = PREFETCH
) -> list[T]:
    """Collect the elements of a publisher in a list.

    Args:
        publisher: What to collect.
        limit: Stop after so many elements, and cancel. Without a limit the publisher decides how
            much memory this takes.
        prefetch: See `open_iter`.

    Raises:
        Exception: The error that the publisher signalled, and those of `open_iter`.

    Checkpoint: always.
    If cancelled: the subscription is cancelled.
    """
    async with open_iter(publisher, prefetch, limit=limit) as elements:
        return [element async for element in elements]


async def for_each(
    publisher: Publisher[T],
    function: Callable[[T], Awaitable[object]] | Callable[[T], object],
    *,
    limit: int | None = None,
    prefetch: int = PREFETCH,
) -> None:
    """Call a function with each element, one after the other.

    Args:
        publisher: What to read.
        function: If it returns an awaitable (an async function does), that is awaited. An
            exception of it cancels the subscription, and is raised here.
        limit: Stop after so many elements, and cancel.
        prefetch: See `open_iter`. Use 1 if elements are expensive and the function may fail.

    Raises:
        Exception: The error that the publisher signalled, that of the function, and those of
            `open_iter`.

    Checkpoint: always.
    If cancelled: the subscription is cancelled.
    """
    async with open_iter(publisher, prefetch, limit=limit) as elements:
        async for element in elements:
            result = function(element)
            if isinstance(result, Awaitable):
                await result


@asynccontextmanager
async def to_channel(
    publisher: Publisher[T], capacity: int
) -> AsyncIterator[trio.MemoryReceiveChannel[T]]:
    """Feed the elements of a publisher into a memory channel, which several tasks may share.

    For one reader `open_iter` is several times as fast. Readers get the elements that have arrived,
    and then `trio.EndOfChannel`. If the publisher failed, its error is raised where the block ends,
    unless the block itself raises.

    Args:
        publisher: What to read.
        capacity: The largest number of elements that are requested or wait here; one more is on its
            way to a reader.

    Raises:
        ValueError: ``capacity`` is less than 1, or more than 2**63-1.
        TypeError: It is no integer, or ``publisher`` is no publisher.
        Exception: On leaving: the error that the publisher signalled.

    Checkpoint: on leaving, always.
    If cancelled: the subscription is cancelled.
    """
    check_prefetch(capacity, "capacity")
    send, receive = trio.open_memory_channel[T](0)
    async with open_iter(publisher, capacity) as elements:
        feed = _Feed(elements, send)
        raised: BaseException | None = None
        try:
            async with trio.open_nursery() as nursery, receive:
                nursery.start_soon(feed.run)
                try:
                    yield receive
                except BaseException as error:  # raised again; the nursery makes a group of it
                    raised = error
                    raise
                finally:
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:  # the nursery made it of the error of the block
            failure = group.split(trio.Cancelled)[1]
            if raised is None or (
                failure is not None and single_error(failure) is not single_error(raised)
            ):
                raise
        try:
            if raised is not None:
                raise raised
            if feed.failure is not None:
                raise feed.failure
        finally:
            del raised, feed


class _Feed(Generic[T]):
    """The task of `to_channel`.

    Attributes:
        failure: The error of the publisher.
    """

    def __init__(self, elements: ElementStream[T], send: trio.MemorySendChannel[T]) -> None:
        self._elements = elements
        self._send = send
        self.failure: Exception | None = None

    async def run(self) -> None:
        """Send each element to the channel, and close both."""
        with self._send, closing(self._elements):
            while True:
                try:
                    element = await self._elements.receive()
                except trio.EndOfChannel:
                    return
                except Exception as error:  # of the publisher; raised where the block ends
                    self.failure = error
                    return
                try:
                    await self._send.send(element)
                except trio.BrokenResourceError:
                    return  # all readers are closed
