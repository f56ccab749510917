"""Code around every call of a client: `ClientInterceptor`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import attrs

from ...escapes import names_only
from ..metadata import Metadata
from ..methods import Method

__all__ = ["ClientInterceptor", "OutgoingCall", "around_open", "around_unary"]


@attrs.frozen
class OutgoingCall:
    """A call before it is sent. `attrs.evolve` makes a changed copy, e.g. with more metadata.

    Attributes:
        method: The method.
        metadata: The metadata of the call, in order.
    """

    method: Method[Any, Any]
    metadata: Metadata = attrs.field(default=(), repr=names_only)


Unary = Callable[[OutgoingCall, Any], Awaitable[Any]]
Open = Callable[[OutgoingCall, Any], AbstractAsyncContextManager[Any]]


class ClientInterceptor:
    """Runs around the calls of a client; override one method or both.

    The first interceptor is the outermost one. It runs in the task of the caller.
    """

    async def unary(self, call: OutgoingCall, request: Any, proceed: Unary) -> Any:
        """Run around a call with one request and one answer.

        Args:
            call: Method and metadata.
            request: The request.
            proceed: Runs the next interceptor, or sends the call.

        Returns:
            The answer.

        Checkpoint: as the call does.
        If cancelled: as the call is.
        """
        return await proceed(call, request)

    def stream(
        self, call: OutgoingCall, request: Any, proceed: Open
    ) -> AbstractAsyncContextManager[Any]:
        """Run around a call with a stream; usually a `contextlib.asynccontextmanager`.

        Args:
            call: Method and metadata.
            request: The request of a server stream; ``None`` for the other kinds.
            proceed: Opens the stream, as an asynchronous context manager.

        Returns:
            The context manager that the caller enters.

        Checkpoint: entering and leaving wait as the stream does.
        If cancelled: as the stream is.
        """
        return proceed(call, request)


def around_unary(interceptors: Sequence[ClientInterceptor], send: Unary) -> Unary:
    """Return a function that sends unary calls, with the interceptors around it."""
    for each in reversed(interceptors):
        send = partial(_unary, each, send)
    return send


def around_open(interceptors: Sequence[ClientInterceptor], send: Open) -> Open:
    """Return a function that opens streams, with the interceptors around it."""
    for each in reversed(interceptors):
        send = partial(_open, each, send)
    return send


async def _unary(each: ClientInterceptor, proceed: Unary, call: OutgoingCall, request: Any) -> Any:
    return await each.unary(call, request, proceed)


def _open(
    each: ClientInterceptor, proceed: Open, call: OutgoingCall, request: Any
) -> AbstractAsyncContextManager[Any]:
    return each.stream(call, request, proceed)
