"""Code around every handler: `ServerInterceptor`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .call import Call

__all__ = ["ServerInterceptor", "around_reply", "around_stream"]

Reply = Callable[["Call", Any], Awaitable[Any]]
Stream = Callable[["Call", Any], AsyncIterable[Any] | Awaitable[AsyncIterable[Any]]]


class ServerInterceptor:
    """Runs around the handlers of a server; override one method or both.

    The first interceptor is the outermost one. An interceptor may refuse a call (raise a
    `CallError`), change the request or the answer, or run code before and after. It runs in the
    task of the handler, under the deadline of the call.
    """

    async def reply(self, call: Call, request: Any, proceed: Reply) -> Any:
        """Run around a handler with one answer: unary, and client streams.

        Args:
            call: The facts about the call.
            request: The request; for a client stream, its `MessageStream`.
            proceed: Runs the next interceptor or the handler; call it with ``call`` and a request.

        Returns:
            The answer.

        Checkpoint: as the handler does.
        If cancelled: as the handler does.
        """
        return await proceed(call, request)

    def stream(
        self, call: Call, request: Any, proceed: Stream
    ) -> AsyncIterable[Any] | Awaitable[AsyncIterable[Any]]:
        """Run around a handler with a stream of answers; an async generator fits.

        Args:
            call: The facts about the call.
            request: The request; for a bidirectional stream, its `MessageStream`.
            proceed: Runs the next interceptor or the handler; call it with ``call`` and a request.

        Returns:
            The answers.
        """
        return proceed(call, request)


def around_reply(interceptors: Sequence[ServerInterceptor], handler: Reply) -> Reply:
    """Return a handler with one answer, with the interceptors around it."""
    for each in reversed(interceptors):
        handler = partial(_reply, each, handler)
    return handler


def around_stream(interceptors: Sequence[ServerInterceptor], handler: Stream) -> Stream:
    """Return a handler with a stream of answers, with the interceptors around it."""
    for each in reversed(interceptors):
        handler = partial(_stream, each, handler)
    return handler


async def _reply(each: ServerInterceptor, proceed: Reply, call: Call, request: Any) -> Any:
    return await each.reply(call, request, proceed)


def _stream(
    each: ServerInterceptor, proceed: Stream, call: Call, request: Any
) -> AsyncIterable[Any] | Awaitable[AsyncIterable[Any]]:
    return each.stream(call, request, proceed)
