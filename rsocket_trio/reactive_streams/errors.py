"""The errors that Reactive Streams add."""

from __future__ import annotations

import sys

from ..errors import RSocketError

__all__ = [
    "AlreadySubscribed",
    "ReactiveStreamsError",
    "SourceClosed",
    "StackExhausted",
    "TooManyElements",
    "TooMuchUnread",
]


class ReactiveStreamsError(RSocketError):
    """The base class of the errors of `rsocket_trio.reactive_streams`."""


class AlreadySubscribed(ReactiveStreamsError):
    """The publisher has given its elements to another subscriber, and has them only once."""


class SourceClosed(ReactiveStreamsError):
    """The nursery or the run of trio that the source belongs to has ended before the source."""


class StackExhausted(ReactiveStreamsError, RecursionError):
    """A signal or a request has met a `RecursionError`, and could not pass on.

    Operators of this package never cause it, however long their chain is. Operators of others that
    call each other do; so does a program that requests at the end of a deep recursion of its own.
    """

    def __init__(self, signal: str) -> None:
        super().__init__(
            f"Python's stack of {sys.getrecursionlimit()} calls is used up at {signal}(), so the "
            "source is cancelled: request from a shallower stack, use a shorter chain where "
            "operators are not of this package, or allow more with sys.setrecursionlimit()"
        )


class TooManyElements(ReactiveStreamsError):
    """A publisher sent more elements than were requested, which rule 1.1 forbids."""


class TooMuchUnread(ReactiveStreamsError):
    """The elements that wait for their readers have more bytes than a connection may hold."""
