"""The checks of arguments that the rules demand, with their texts.

A wrong argument of `subscribe` or of a signal is raised to the caller (rules 1.9, 2.13). A wrong
argument of `request` becomes a signal, so `demand_error` returns the error.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator
from operator import index
from typing import Final, TypeVar

__all__ = [
    "check_element",
    "check_error",
    "check_nursery",
    "check_subscriber",
    "check_subscription",
    "demand_error",
    "demand_of",
    "iterator_of",
    "null_element",
]

_SIGNALS: Final = ("on_subscribe", "on_next", "on_error", "on_complete")
_REQUESTS: Final = ("request", "cancel")

T = TypeVar("T")


def check_subscriber(subscriber: object) -> None:
    """Check the argument of `Publisher.subscribe`.

    Raises:
        TypeError: It is ``None``, or does not have the four methods (rule 1.9).
    """
    if subscriber is None:
        raise TypeError("the subscriber must not be None (rule 1.9)")
    for name in _SIGNALS:
        if not callable(getattr(subscriber, name, None)):
            raise TypeError(f"{type(subscriber).__name__} is no Subscriber: it has no {name}()")


def check_subscription(subscription: object) -> None:
    """Check the argument of `Subscriber.on_subscribe`.

    Raises:
        TypeError: It is ``None``, or does not have the two methods (rule 2.13).
    """
    if subscription is None:
        raise TypeError("the subscription must not be None (rule 2.13)")
    for name in _REQUESTS:
        if not callable(getattr(subscription, name, None)):
            raise TypeError(f"{type(subscription).__name__} is no Subscription: it has no {name}()")


def check_element(element: object) -> None:
    """Check the argument of `Subscriber.on_next`.

    Raises:
        TypeError: It is ``None`` (rule 2.13).
    """
    if element is None:
        raise TypeError("an element must not be None (rule 2.13)")


def check_error(error: object) -> None:
    """Check the argument of `Subscriber.on_error`.

    Raises:
        TypeError: It is ``None``, or no `Exception` (rule 2.13).
    """
    if error is None:
        raise TypeError("the error must not be None (rule 2.13)")
    if not isinstance(error, Exception):
        raise TypeError(f"the error must be an Exception, not {type(error).__name__} (rule 2.13)")


def check_nursery(what: str, nursery: object) -> None:
    """Check the nursery for the tasks of a publisher or an operator.

    Args:
        what: Whose nursery it is, e.g. ``"throttle()"``.
        nursery: It.

    Raises:
        TypeError: It has no ``start_soon``.
    """
    if not callable(getattr(nursery, "start_soon", None)):
        raise TypeError(
            f"the nursery of {what} must be a trio.Nursery, not {type(nursery).__name__}"
        )


def iterator_of(source: Iterable[T]) -> Iterator[T]:
    """Begin to iterate over a source.

    Raises:
        TypeError: It is no iterable. For an async iterable the text says what takes one.
    """
    if isinstance(source, AsyncIterable) and not isinstance(source, Iterable):
        raise TypeError(
            f"{type(source).__name__} is an async iterable, which needs a task: give "
            "from_async_iterable(source, nursery) in its place"
        )
    return iter(source)


def null_element() -> TypeError:
    """Make the error for a source that has ``None`` among its elements."""
    return TypeError("the source gave None, which is no element (rule 2.13)")


def demand_of(n: object) -> int | Exception:
    """Read the argument of `Subscription.request`.

    Returns:
        The number if it is a positive integer; otherwise the error to signal, see `demand_error`.
    """
    try:
        number = index(n)  # type: ignore[arg-type]  # it raises TypeError for everything else
    except Exception:  # also what an `__index__` of the application raises (rule 3.16)
        return TypeError(f"the demand must be an integer, not {type(n).__name__} (rule 3.9)")
    if number <= 0:
        text = f"a non-positive request is illegal (rule 3.9): {_cut(number)}"
        return ValueError(text)
    return number


def demand_error(n: object) -> Exception | None:
    """Check the argument of `Subscription.request`.

    Returns:
        ``None`` for a positive integer. Otherwise the error to signal: a `ValueError` for an
        integer that is not positive (rule 3.9), a `TypeError` for what is no integer.
    """
    demand = demand_of(n)
    return demand if isinstance(demand, Exception) else None


def _cut(number: int) -> str:
    """Return the number; a huge one cannot be turned to digits."""
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"
