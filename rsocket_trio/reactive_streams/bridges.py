"""A stream of the network, or any other that is opened by a block, as a publisher."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import trio

from .iterating import IterablePublisher
from .pumps import PumpedPublisher

__all__ = ["stream_publisher"]

T = TypeVar("T")


def stream_publisher(
    open_stream: Callable[[], AbstractAsyncContextManager[AsyncIterator[T]]],
    nursery: trio.Nursery,
) -> IterablePublisher[T]:
    """Make a publisher that opens a stream for each subscriber.

    For example::

        ticks = stream_publisher(lambda: requester.request_stream(route="ticks"), nursery)

    The stream is opened when it is subscribed to, in a task of its own, and its block is left at
    the end. One element is taken ahead of the requests, besides what the stream itself prefetches.
    So an end or an error of the stream is signalled at once.

    Args:
        open_stream: Returns the block, for example of `rsocket_trio.Requester.request_stream` or
            `rsocket_trio.Caller.request_stream`. An error on entering it is ``on_error``.
        nursery: The owner of the tasks.
    """
    return PumpedPublisher(open_stream, nursery, ahead=True)
