"""A stream that goes on across sessions, as the application knows positions: `resubscribed`."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, Generic, TypeVar

import trio

from .errors import Canceled, ConnectionClosed, NotConnected
from .field_checks import argument, instance_of
from .interactions.block import opened_by_block
from .log_policy import logger
from .protocol.retry import Retry

__all__ = ["resubscribed"]

T = TypeVar("T")
P = TypeVar("P")

_RETRY: Final = Retry(jitter=1)


@opened_by_block
async def resubscribed(
    open_stream: Callable[[P | None], AbstractAsyncContextManager[AsyncIterator[T]]],
    /,
    *,
    position: Callable[[T], P],
    retry: Retry = _RETRY,
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
        retry: The waits before another stream is opened while they end without an item, and how
            many such streams there may be in a row. By default any number: a quiet stream outlives
            each deploy of its server. After an item the next one is opened at once.

    Returns:
        A context manager for the items. A stream is opened when the first item is asked for, and
        again each time that one ends with `ConnectionClosed`, or with `Canceled`, as the streams of
        a server that stops do. All other errors are the caller's, and so is each one of
        ``open_stream``. A stream that is complete is the end.

    Raises:
        TypeError: ``retry`` is no `Retry`.

    Checkpoint: entering, no; leaving, as that of the stream.
    If cancelled: the stream is cancelled at the peer.
    """
    argument("retry", retry, instance_of(Retry))
    async with AsyncExitStack() as stack:
        yield _Resubscription(open_stream, position, retry, stack)


class _Resubscription(AsyncIterator[T], Generic[T, P]):
    """The items of one stream after the other."""

    def __init__(
        self,
        open_stream: Callable[[P | None], AbstractAsyncContextManager[AsyncIterator[T]]],
        position: Callable[[T], P],
        retry: Retry,
        stack: AsyncExitStack,
    ) -> None:
        self._open = open_stream
        self._position = position
        self._after: P | None = None
        self._stack = stack
        self._stream: AsyncIterator[T] | None = None
        self._retry = retry
        self._waits = retry.delays(random.random)  # since the last item
        self._until = 0.0  # no stream is opened before
        self._gave = False  # whether the present stream has given an item

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
                await trio.sleep_until(self._until)
                self._stream = await self._stack.enter_async_context(self._open(self._after))
            try:
                item = await anext(self._stream)
            except (ConnectionClosed, Canceled) as error:
                if isinstance(error, NotConnected) or not self._goes_on(error):
                    raise
                self._stream = None
                await self._stack.pop_all().aclose()
            else:
                self._after = self._position(item)
                self._gave = True
                return item

    def _goes_on(self, error: Exception) -> bool:
        """Return whether another stream follows one that has ended so, and decide when."""
        now = trio.current_time()
        if self._gave:
            self._gave = False
            self._until = now
            self._waits = self._retry.delays(random.random)
            return True
        wait = next(self._waits, None)
        if wait is None:
            return False
        self._until = now + wait
        logger.info("resubscribed: no item, another stream in %.3g s: %s", wait, error)
        return True
