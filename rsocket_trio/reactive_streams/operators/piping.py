"""Operators one after the other: `pipe`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

from ..interfaces import Publisher, Subscriber
from ..iterating import IterablePublisher
from .guarded import check_publisher

__all__ = ["pipe"]

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")
G = TypeVar("G")
H = TypeVar("H")
J = TypeVar("J")


@overload
def pipe(
    publisher: Publisher[A],
    /,
) -> IterablePublisher[A]: ...


@overload
def pipe(
    publisher: Publisher[A],
    _1: Callable[[Publisher[A]], Publisher[B]],
    /,
) -> IterablePublisher[B]: ...


@overload
def pipe(
    publisher: Publisher[A],
    _1: Callable[[Publisher[A]], Publisher[B]],
    _2: Callable[[Publisher[B]], Publisher[C]],
    /,
) -> IterablePublisher[C]: ...


@overload
def pipe(
    publisher: Publisher[A],
    _1: Callable[[Publisher[A]], Publisher[B]],
    _2: Callable[[Publisher[B]], Publisher[C]],
    _3: Callable[[Publisher[C]], Publisher[D]],
    /,
) -> IterablePublisher[D]: ...


@overload
def pipe(
    publisher: Publisher[A],
    _1: Callable[[Publisher[A]], Publisher[B]],
    _2: Callable[[Publisher[B]], Publisher[C]],
    _3: Callable[[Publisher[C]], Publisher[D]],
    _4: Callable[[Publisher[D]], Publisher[E]],
    /,
) -> IterablePublisher[E]: ...


@overload
def pipe(
    publisher: Publisher[A],
    _1: Callable[[Publisher[A]], Publisher[B]],
    _2: Callable[[Publisher[B]], Publisher[C]],
    _3: Callable[[Publisher[C]], Publisher[D]],
    _4: Callable[[Publisher[D]], Publisher[E]],
    _5: Callable[[Publisher[E]], Publisher[F]],
    /,
) -> IterablePublisher[F]: ...


@overload
def pipe(
    publisher: Publisher[A],
    _1: Callable[[Publisher[A]], Publisher[B]],
    _2: Callable[[Publisher[B]], Publisher[C]],
    _3: Callable[[Publisher[C]], Publisher[D]],
    _4: Callable[[Publisher[D]], Publisher[E]],
    _5: Callable[[Publisher[E]], Publisher[F]],
    _6: Callable[[Publisher[F]], Publisher[G]],
    /,
) -> IterablePublisher[G]: ...


@overload
def pipe(
    publisher: Publisher[A],
    _1: Callable[[Publisher[A]], Publisher[B]],
    _2: Callable[[Publisher[B]], Publisher[C]],
    _3: Callable[[Publisher[C]], Publisher[D]],
    _4: Callable[[Publisher[D]], Publisher[E]],
    _5: Callable[[Publisher[E]], Publisher[F]],
    _6: Callable[[Publisher[F]], Publisher[G]],
    _7: Callable[[Publisher[G]], Publisher[H]],
    /,
) -> IterablePublisher[H]: ...


@overload
def pipe(
    publisher: Publisher[A],
    _1: Callable[[Publisher[A]], Publisher[B]],
    _2: Callable[[Publisher[B]], Publisher[C]],
    _3: Callable[[Publisher[C]], Publisher[D]],
    _4: Callable[[Publisher[D]], Publisher[E]],
    _5: Callable[[Publisher[E]], Publisher[F]],
    _6: Callable[[Publisher[F]], Publisher[G]],
    _7: Callable[[Publisher[G]], Publisher[H]],
    _8: Callable[[Publisher[H]], Publisher[J]],
    /,
) -> IterablePublisher[J]: ...


@overload
def pipe(
    publisher: Publisher[Any],
    /,
    *operators: Callable[[Publisher[Any]], Publisher[Any]],
) -> IterablePublisher[Any]: ...


def pipe(
    publisher: Publisher[Any],
    /,
    *operators: Callable[[Publisher[Any]], Publisher[Any]],
) -> IterablePublisher[Any]:
    """Make a publisher of a source and the operators behind it, in the order of the elements.

    Nothing is subscribed to. Each subscriber of the result is a new subscriber of the source.

    Example::

        evens = pipe(from_iterable(range(10)), ops.filter(is_even), ops.map(str), ops.take(3))

    Args:
        publisher: The source.
        operators: Each gets the publisher before it, and returns one.

    Returns:
        The last publisher; it is an async iterable, too.

    Raises:
        TypeError: The source is no publisher, or what an operator returns is none.
    """
    check_publisher(publisher)
    for operator in operators:
        publisher = operator(publisher)
        if not callable(getattr(publisher, "subscribe", None)):
            raise TypeError(
                f"{operator!r} is no operator: it must return a publisher, and has returned a "
                f"{type(publisher).__name__}; functions of elements go into map() or filter()"
            )
    return publisher if isinstance(publisher, IterablePublisher) else _Foreign(publisher)


class _Foreign(IterablePublisher[A]):
    """A publisher of others, with iteration."""

    def __init__(self, publisher: Publisher[A]) -> None:
        self._publisher: Final = publisher

    def subscribe(self, subscriber: Subscriber[A], /) -> None:
        self._publisher.subscribe(subscriber)
