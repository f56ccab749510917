"""Traces that go on: from a request to the requests its handler makes (Tracing-Zipkin.md).

Only the ids travel. Nothing is recorded or reported here: a handler that wants to finds the trace
of its request with `current_trace`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextvars import ContextVar, Token
from typing import Final

import attrs

from .metadata.tracing_zipkin import ZipkinTracing

__all__ = ["Tracing", "current_trace"]

_current: Final[ContextVar[ZipkinTracing | None]] = ContextVar("rsocket_trace", default=None)


def current_trace() -> ZipkinTracing | None:
    """The trace of the request that is being answered, or ``None``.

    It is there in handlers of a `rsocket_trio.Router` with ``tracing``, and in the tasks they
    start, where the request carried one.
    """
    return _current.get()


class Tracing:
    """Passes traces on: given to a router it takes them in, given to `connect` it sends them out.

    A request made while another is being answered belongs to the same trace, as a new span whose
    parent is the span of that other. Where there is no trace none is begun: send the first with
    ``metadata=Metadata(trace=ZipkinTracing(...))``.

    Args:
        random_bytes: Makes ids: given a number, that many bytes.
    """

    def __init__(self, *, random_bytes: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._random_bytes = random_bytes

    def child(self, trace: ZipkinTracing) -> ZipkinTracing:
        """A new span within a trace; a decision without ids stays as it is."""
        if trace.span_id is None:
            return trace
        return attrs.evolve(trace, span_id=self._random_bytes(8), parent_id=trace.span_id)

    def outgoing(self) -> ZipkinTracing | None:
        """What a request made now carries."""
        trace = _current.get()
        return None if trace is None else self.child(trace)

    def enter(self, trace: ZipkinTracing) -> Token[ZipkinTracing | None]:
        """From now on this task answers a request of that trace; `leave` ends it."""
        return _current.set(trace)

    def leave(self, token: Token[ZipkinTracing | None]) -> None:
        """The request is answered. In the task that called `enter`."""
        _current.reset(token)
