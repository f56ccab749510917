"""Elements of one request, in chunks, with credit only for what Spark takes: `open_chunks`."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager

import trio

from ... import RSocketError
from ...uri import shown
from ..demand import Window
from ..failures import ReadFailed, explain
from ..pulling import Chunk, Pull, nothing
from .connecting import Responder, connected
from .settings import Request, SourceSettings

__all__ = ["open_chunks"]


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
        window = Window(settings.window, settings.window_size, limit)
        pull = Pull(window, settings.window, settings.timeout, str(request), responder.uri)
        async with responder.requester.request_stream(
            request.payload,
            route=request.route,
            metadata=request.metadata,
            prefetch=0,
            initial_request_n=window.grant(),
        ) as stream:
            pull.stream = stream
            try:
                yield pull
            finally:
                pull.stream = None


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
                f"{shown(uri)} has not answered {request} within {self._timeout:g} s "
                "(option timeoutMs)"
            )
        if answer is None:
            raise StopAsyncIteration
        return Chunk([answer], nothing)
