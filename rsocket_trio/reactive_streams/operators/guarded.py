"""Calls into code of others that must not harm us: subscribers, sources; and checks of arguments.

A subscriber that raises harms only itself (rule 2.13). The same goes for a source whose
subscription raises, which rules 3.15 and 3.16 forbid.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, Protocol

from ...log_policy import logger
from ..emission import own_traceback, report_failure
from ..errors import StackExhausted
from ..interfaces import Publisher, Subscriber, Subscription
from ..short_stack import on_short_stack

__all__ = [
    "NOTHING",
    "below",
    "cancel",
    "check_count",
    "check_function",
    "check_publisher",
    "check_seconds",
    "complete",
    "drop_upstream",
    "fail",
    "ignore",
    "request",
    "subscribe",
]


class _Holder(Protocol):
    upstream: Subscription | None


class _Nothing:
    """The subscription of a subscriber that gets no elements."""

    __slots__ = ()

    def request(self, n: int, /) -> None:
        """Do nothing (rule 3.6)."""

    def cancel(self) -> None:
        """Do nothing (rule 3.7)."""


NOTHING: Final[Subscription] = _Nothing()


def ignore(_element: Any) -> None:
    """Take the place of ``on_next`` and of functions of users after the end."""


def below(subscriber: object) -> int:
    """Return the number of operators from one before this subscriber to its end: see `joints`."""
    operators = getattr(subscriber, "operators_below", 0)
    # A subscriber of others may have such an attribute, too.
    return operators + 1 if type(operators) is int else 1


def cancel(subscription: Subscription | None) -> None:
    """Cancel a subscription, if there is one."""
    if subscription is not None:
        try:
            subscription.cancel()
        except RecursionError:
            on_short_stack(subscription.cancel)
        except Exception as error:  # of a source that breaks rule 3.15
            logger.error("a source raised from cancel()", exc_info=own_traceback(error))


def drop_upstream(holder: _Holder) -> None:
    """Cancel the source of one of our own subscribers, and forget it."""
    upstream = holder.upstream
    if upstream is not None:
        holder.upstream = None
        try:
            upstream.cancel()
        except RecursionError:
            holder.upstream = upstream  # for another attempt
            on_short_stack(drop_upstream, holder)
        except Exception as error:  # of a source that breaks rule 3.15
            logger.error("a source raised from cancel()", exc_info=own_traceback(error))


def request(subscription: Subscription, n: int, failed: Callable[[Exception], None]) -> None:
    """Request elements; ``failed`` gets what the source raises, which rule 3.16 forbids."""
    try:
        subscription.request(n)
    except RecursionError:
        on_short_stack(failed, StackExhausted("request"))
    except Exception as error:  # of a source that breaks rule 3.16
        failed(own_traceback(error))


def fail(subscriber: Subscriber[Any], error: Exception) -> None:
    """Signal on_error."""
    try:
        subscriber.on_error(error)
    except RecursionError:
        on_short_stack(subscriber.on_error, error)
    except Exception as raised:  # of the subscriber (rule 2.13)
        report_failure("on_error", own_traceback(raised))


def complete(subscriber: Subscriber[Any]) -> None:
    """Signal on_complete."""
    try:
        subscriber.on_complete()
    except RecursionError:
        on_short_stack(subscriber.on_error, StackExhausted("on_complete"))
    except Exception as raised:  # of the subscriber (rule 2.13)
        report_failure("on_complete", own_traceback(raised))


def subscribe(publisher: Publisher[Any], subscriber: Subscriber[Any]) -> None:
    """Subscribe one of our own subscribers; a publisher that raises has failed (rule 1.9)."""
    try:
        publisher.subscribe(subscriber)
    except RecursionError:
        on_short_stack(subscriber.on_error, StackExhausted("subscribe"))
    except Exception as error:  # of a source that breaks rule 1.9
        subscriber.on_error(own_traceback(error))


def check_publisher(publisher: object) -> None:
    """Refuse what is no publisher.

    Raises:
        TypeError: It has no ``subscribe``.
    """
    if not callable(getattr(publisher, "subscribe", None)):
        raise TypeError(f"{type(publisher).__name__} is no Publisher: it has no subscribe()")


def check_function(function: object) -> None:
    """Refuse what cannot be called for a result.

    Raises:
        TypeError: It cannot be called, or it is an async function.
    """
    if not callable(function):
        raise TypeError(f"a function is needed, not {type(function).__name__}")
    if inspect.iscoroutinefunction(function):
        raise TypeError("operators do not await: the function must not be async")


def check_count(name: str, value: int, least: int = 1) -> None:
    """Refuse a number that cannot be a bound.

    Raises:
        ValueError: It is too small.
        TypeError: It is not an integer.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def check_seconds(name: str, value: float) -> None:
    """Refuse a number that cannot be a time.

    Raises:
        ValueError: It is not positive, or not finite.
        TypeError: It is not a number.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    # This form of the condition also refuses NaN.
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be greater than 0 and finite, not {value!r}")
