"""A stream that goes on across sessions, as the application knows positions: `resubscribed`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, Generic, TypeVar

import trio

from .errors import Canceled, ConnectionClosed, NotConnected
from .interactions.block import opened_by_block

__all__ = ["resubscribed"]

T = TypeVar("T")
P = TypeVar("P")

_AT_ONCE: Final = 1.0
"""Seconds within which a stream without an item is cancelled at once, and would be again."""


@opened_by_block
async def resubscribed(
    open_stream: Callable[[P | None], AbstractAsyncContextManager[AsyncIterator[T]]],
    /,
    *,
    position: Callable[[T], P],
) -> AsyncIterator[AsyncIterator[T]]:
    """Read a stream to its end, over as many sessions as it takes.

    ``async with resubscribed(prices_after, position=number_of) as prices``

    A client with ``reconnect=`` has another session after each that ends, but only the application
    knows where a stream is to go on. With resumption on both ends this is needed only for servers
    that are replaced.

    Args:
        open_stream: Opens the stream behind a position, or from its beginning if that is ``None``.
            It raises, or the stream does, if the server cannot go on from there.
        position: Returns the position of an item.

    Returns:
        A context manager for the items. A stream is opened when the first item is asked for, and
        again each time that one ends with `ConnectionClosed`; also if it ends with `Canceled`, as
        the streams of a server that stops do, behind an item or after a second. (Another one would
        end so at once.) All other errors are the caller's, and so is each one of ``open_stream``. A
        stream that is complete is the end.

    Checkpoint: entering, no; leaving, as that of the stream.
    If cancelled: the stream is cancelled at the peer.
    """
    async with AsyncExitStack() as stack:
        yield _Resubscription(open_stream, position, stack)


class _Resubscription(AsyncIterator[T], Generic[T, P]):
    """The items of one stream after the other."""

    def __init__(
        self,
        open_stream: Callable[[P | None], AbstractAsyncContextManager[AsyncIterator[T]]],
        position: Callable[[T], P],
        stack: AsyncExitStack,
    ) -> None:
        self._open = open_stream
        self._position = position
        self._after: P | None = None
        self._stack = stack
        self._stream: AsyncIterator[T] | None = None
        self._lives_from = 0.0  # when a Canceled of the present stream does not come "at once"

    async def __anext__(self) -> T:
        """Return the next item.

        Raises:
            StopAsyncIteration: A stream was complete.
            RSocketError: It ended with an error that another stream does not mend.

        Checkpoint: as that of the stream.
        If cancelled: no item is lost.
        """
        while True:
            if self._stream is None:
                self._stream = await self._stack.enter_async_context(self._open(self._after))
                self._lives_from = trio.current_time() + _AT_ONCE
            try:
                item = await anext(self._stream)
            except (ConnectionClosed, Canceled) as error:
                if isinstance(error, NotConnected):
                    raise
                if isinstance(error, Canceled) and trio.current_time() < self._lives_from:
                    raise
                self._stream = None
                await self._stack.pop_all().aclose()
            else:
                self._after = self._position(item)
                self._lives_from = 0.0
                return item
