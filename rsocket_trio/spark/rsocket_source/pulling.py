"""Elements of one request, in chunks, with credit only for what Spark takes: `open_chunks`.

The connection lives in a thread with trio. Spark's thread takes chunks, makes rows of them, and
says when it is done with a chunk. Only then is there credit for as many new elements.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from math import inf
from typing import Final, TypeAlias

import attrs
import trio

from ... import Payload, PayloadStream, RSocketError
from .connecting import Responder, connected
from .demand import Window
from .failures import ReadFailed, explain
from .settings import Request, SourceSettings

__all__ = ["BUFFER", "Chunk", "Chunks", "open_chunks"]

BUFFER: Final = 2
"""Chunks between the threads. The window bounds their elements, so this only saves waits."""

MOST: Final = 10_000
"""Elements of a chunk, at most: larger batches of Arrow are not faster."""

LINGER: Final = 0.01
"""Seconds to wait for more elements of a chunk: each chunk becomes a batch of Arrow."""

_OVERHEAD: Final = 100
"""Bytes that an element costs beside its contents, in Python."""


@attrs.frozen
class Chunk:
    """Elements that follow each other.

    Attributes:
        payloads: The elements, at least one.
        done: Called when Spark has taken them, in any thread.
    """

    payloads: list[Payload] = attrs.field(repr=False)
    done: Callable[[], None] = attrs.field(repr=False)


Chunks: TypeAlias = AbstractAsyncContextManager[AsyncIterable[Chunk]]


@asynccontextmanager
async def open_chunks(
    settings: SourceSettings,
    request: Request,
    *,
    limit: int | None = None,
    within: float | None = None,
    attempt: int = 0,
) -> AsyncIterator[AsyncIterable[Chunk]]:
    """Connect, send a request, and give its elements. Leaving cancels the stream.

    Args:
        settings: How to connect, and the window.
        request: The request.
        limit: The number of elements to ask for. The responder gets no credit for more.
        within: As for `connected`.
        attempt: The number of attempts before. Each begins with another responder.

    Raises:
        ReadFailed: No responder was reached. From the iteration: the responder has failed the
            request; or the connection ended; or no element came in time.
    """
    first = request.partition + attempt
    async with connected(settings, first=first, within=within) as responder:
        if settings.interaction == "request_response":
            yield _Answer(settings, responder, request)
            return
        pull = _Pull(settings, responder.uri, request, limit)
        async with pull.opened(responder):
            yield pull


class _Pull(AsyncIterator[Chunk]):
    """The elements of a stream."""

    def __init__(
        self, settings: SourceSettings, uri: str, request: Request, limit: int | None
    ) -> None:
        self._timeout = settings.timeout
        self._window = Window(settings.window, settings.window_size, limit)
        # Half of the window: the next chunk is on its way while Spark works at this one.
        self._most = max(1, min(MOST, settings.window // 2))
        self._uri = uri
        self._request = request
        self._token = trio.lowlevel.current_trio_token()
        self._stream: PayloadStream | None = None
        self._waiting: trio.CancelScope | None = None

    @asynccontextmanager
    async def opened(self, responder: Responder) -> AsyncIterator[None]:
        """Open the stream."""
        request = self._request
        async with responder.requester.request_stream(
            request.payload,
            route=request.route,
            metadata=request.metadata,
            prefetch=0,
            initial_request_n=self._window.grant(),
        ) as stream:
            self._stream = stream
            try:
                yield
            finally:
                self._stream = None

    async def __anext__(self) -> Chunk:
        assert self._stream is not None
        if self._window.is_over:
            raise StopAsyncIteration
        try:
            payloads = await self._receive(self._stream)
            with trio.move_on_after(LINGER), suppress(trio.EndOfChannel, RSocketError):
                # An error, or the end, comes again with the next chunk.
                while len(payloads) < self._most and self._window.outstanding:
                    more = await self._stream.receive_many(self._most - len(payloads))
                    self._window.arrived(list(map(_size, more)))
                    payloads += more
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        except RSocketError as error:
            raise explain(error, str(self._request), self._uri) from error
        count, size = len(payloads), sum(map(_size, payloads))
        return Chunk(payloads, partial(self._done, count, size))

    async def _receive(self, stream: PayloadStream) -> list[Payload]:
        with trio.CancelScope() as self._waiting:
            self._set_deadline()
            try:
                payloads = await stream.receive_many(self._most)
            finally:
                self._waiting = None
            self._window.arrived(list(map(_size, payloads)))
            return payloads
        raise ReadFailed(
            f"{self._uri} has sent no element of {self._request} for {self._timeout:g} s (option "
            "timeoutMs)"
        )

    def _set_deadline(self) -> None:
        """Expect an element in time, if the responder may send one."""
        if self._waiting is not None:
            outstanding = self._window.outstanding
            self._waiting.deadline = trio.current_time() + self._timeout if outstanding else inf

    def _done(self, count: int, size: int) -> None:
        # The thread may have ended, with the program.
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._consumed, count, size)

    def _consumed(self, count: int, size: int) -> None:
        self._window.consumed(count, size)
        if self._stream is None:
            return
        idle = not self._window.outstanding
        more = self._window.grant()
        if more:
            self._stream.request_n(more)
            if idle:
                self._set_deadline()


class _Answer(AsyncIterator[Chunk]):
    """The answer to a request with one response."""

    def __init__(self, settings: SourceSettings, responder: Responder, request: Request) -> None:
        self._timeout = settings.timeout
        self._responder = responder
        self._request = request
        self._is_over = False

    async def __anext__(self) -> Chunk:
        if self._is_over:
            raise StopAsyncIteration
        self._is_over = True
        request, uri = self._request, self._responder.uri
        try:
            with trio.move_on_after(self._timeout) as scope:
                answer = await self._responder.requester.request_response(
                    request.payload, route=request.route, metadata=request.metadata
                )
        except RSocketError as error:
            raise explain(error, str(request), uri) from error
        if scope.cancelled_caught:
            raise ReadFailed(
                f"{uri} has not answered {request} within {self._timeout:g} s (option timeoutMs)"
            )
        if answer is None:
            raise StopAsyncIteration
        return Chunk([answer], _nothing)


def _nothing() -> None:
    pass


def _size(payload: Payload) -> int:
    return len(payload.data) + len(payload.metadata or b"") + _OVERHEAD
