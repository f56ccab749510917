"""Pass the trace of a request on to the requests its handler makes (Tracing-Zipkin.md).

This module only passes the ids on; it does not record or report spans. A handler that does so gets
the trace of its request from `current_trace`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from typing import Final

import attrs

from .field_checks import FUNCTION, argument
from .metadata.tracing_zipkin import ZipkinTrace

__all__ = ["Tracing", "current_trace"]

_current: Final[ContextVar[ZipkinTrace | None]] = ContextVar("rsocket_trace", default=None)


def current_trace() -> ZipkinTrace | None:
    """Return the trace of the request that is being answered, or ``None``.

    Handlers of a `rsocket_trio.Router` with ``tracing``, and the tasks they start, see the trace
    that their request carried.
    """
    return _current.get()


class Tracing:
    """Passes traces on: a router reads them from requests, a requester adds them to its requests.

    A request made while another one is being answered belongs to the same trace, as a new span
    whose parent is the span of the other request. It does not begin a trace: to begin one, send a
    request with ``metadata=Metadata(trace=ZipkinTrace(...))``.

    Args:
        random_bytes: Makes ids: it takes a number and returns that many bytes.
    """

    def __init__(self, *, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> None:
        argument("random_bytes", random_bytes, FUNCTION)
        self._random_bytes = random_bytes

    def child(self, trace: ZipkinTrace) -> ZipkinTrace:
        """Return a new span of a trace; a sampling decision without ids is returned as it is."""
        if trace.span_id is None:
            return trace
        return attrs.evolve(trace, span_id=self._random_bytes(8), parent_id=trace.span_id)

    def outgoing(self) -> ZipkinTrace | None:
        """Return the trace for a request that is sent now, or ``None``."""
        trace = _current.get()
        return None if trace is None else self.child(trace)

    def around(self, trace: ZipkinTrace) -> Callable[[object], AsyncGenerator[None, None]]:
        """Return a block that makes ``trace`` current while a request is answered."""

        async def traced(_call: object) -> AsyncGenerator[None, None]:
            token = _current.set(trace)
            try:
                yield
            finally:
                _current.reset(token)

        return traced
