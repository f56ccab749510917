"""Another attempt when a source fails: `retry`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from random import random
from typing import Any, Final, TypeVar

import trio

from ...field_checks import argument, instance_of
from ...protocol.budget import Budget, Purse
from ...protocol.retry import Retry
from ..checks import check_nursery, check_subscriber
from ..emission import own_traceback
from ..interfaces import Publisher, Subscriber
from ..iterating import IterablePublisher
from .guarded import check_count, check_function, check_publisher
from .operator import Operator
from .succession import Succession
from .timers import Timer

__all__ = ["retry"]

T = TypeVar("T")


def retry(
    times: int | None = None,
    *,
    backoff: Retry | None = None,
    nursery: trio.Nursery | None = None,
    when: Callable[[Exception], object] | None = None,
    budget: Budget | None = None,
) -> Operator[Any, Any]:
    """Make an operator that subscribes to the source again when it fails.

    The new subscription gets the demand that is left. The elements of the attempt that failed have
    been handed on; a source that begins anew sends them once more. The last error is handed on.

    Example::

        pipe(readings, ops.retry(3))
        pipe(readings, ops.retry(backoff=Retry(max_delay=5), nursery=nursery))

    Args:
        times: How many times to subscribe again in all; ``None``: as often as ``backoff`` says.
        backoff: The waits before that. Without it there is no wait. They begin anew after an
            attempt from which an element was handed on, and so does the count of
            `Retry.max_attempts`: those are attempts in a row.
        nursery: With ``backoff``: where each subscription has its task. When it is cancelled, a
            subscriber that waits gets the last error, and others `SourceClosed`.
        when: Called with the error; if the result is not true, the error is handed on at once.
        budget: Bounds the attempts for all subscribers of this operator together; each attempt that
            has handed on an element, or completes, earns. If nothing is left, the error is handed
            on. By default there is no bound.

    Raises:
        ValueError: ``times`` is negative, or only one of ``backoff`` and ``nursery`` is given, or
            neither ``times`` nor ``backoff``.
        TypeError: An argument has the wrong type.
    """
    if times is not None:
        check_count("the times of retry()", times, 0)
    elif backoff is None:
        raise ValueError("retry() without a limit needs waits: times or backoff")
    if (backoff is None) is not (nursery is None):
        raise ValueError("retry() needs a nursery if it has backoff, and only then")
    if nursery is not None:
        check_nursery("retry()", nursery)
    if backoff is not None and not isinstance(backoff, Retry):
        raise TypeError(f"the backoff of retry() must be a Retry, not {type(backoff).__name__}")
    if when is not None:
        check_function(when)
    argument("the budget of retry()", budget, instance_of(Budget, none=True))
    purse = None if budget is None else Purse(budget, 0.0)  # it may be made before trio runs

    def operator(source: Publisher[T]) -> IterablePublisher[T]:
        check_publisher(source)
        return _Retried(source, partial(_Attempts, source, times, backoff, nursery, when, purse))

    return operator


class _Retried(IterablePublisher[T]):
    def __init__(
        self, source: Publisher[T], attempts: Callable[[Subscriber[T]], _Attempts[T]]
    ) -> None:
        self._source: Final = source
        self._attempts: Final = attempts

    def subscribe(self, subscriber: Subscriber[T], /) -> None:
        check_subscriber(subscriber)
        self._attempts(subscriber).start()


class _Attempts(Succession[T]):
    __slots__ = (
        "_backoff",
        "_error",
        "_left",
        "_passed",
        "_publisher",
        "_purse",
        "_ready",
        "_timer",
        "_waits",
        "_when",
    )

    def __init__(
        self,
        publisher: Publisher[T],
        times: int | None,
        backoff: Retry | None,
        nursery: trio.Nursery | None,
        when: Callable[[Exception], object] | None,
        purse: Purse | None,
        downstream: Subscriber[T],
    ) -> None:
        super().__init__(downstream)
        self._publisher: Publisher[T] | None = publisher
        self._left = times
        self._backoff = backoff
        self._waits = _waits(backoff)
        self._passed = False  # Whether an element of this attempt was handed on.
        self._when = when
        self._purse = purse
        self._ready = True
        self._timer = None if nursery is None else Timer(nursery, self._again, self._lost)
        self._error: Exception | None = None

    def start(self) -> None:
        failure = None if self._timer is None else self._timer.start()
        if failure is not None:
            self._ended(failure)  # rule 1.9: the last signal comes behind on_subscribe
        super().start()

    def next_source(self) -> Publisher[T] | None:
        if not self._ready:
            return None
        self._ready = False
        return self._publisher

    def completed(self) -> None:
        self._earn()
        self.close()

    def arrived(self, element: T) -> None:
        self._passed = True
        super().arrived(element)

    def failed(self, error: Exception) -> None:
        try:
            again = self._when is None or bool(self._when(error))
        except Exception as raised:  # of the function (rule 1.4)
            self.end(own_traceback(raised))
            return
        wait = self._next_wait() if again else None
        if wait is None:
            self.end(error)
        elif self._timer is None:
            self._ready = True
        else:
            self._error = error
            self._timer.at(trio.current_time() + wait)

    def _next_wait(self) -> float | None:
        if self._left is not None:
            if not self._left:
                return None
            self._left -= 1
        if self._passed:
            self._passed = False
            self._waits = _waits(self._backoff)
            self._earn()
        wait = next(self._waits, None)
        if wait is None or self._purse is None or self._purse.take(trio.current_time()):
            return wait
        return None

    def _earn(self) -> None:
        if self._purse is not None:
            self._purse.earn(trio.current_time())

    def _again(self) -> None:
        self._ready = True
        self._error = None
        self.wake()

    def _lost(self, error: Exception) -> None:
        self.end(self._error or error)

    def let_go(self) -> None:
        super().let_go()
        self._publisher = None
        self._error = None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.stop()


def _waits(backoff: Retry | None) -> Iterator[float]:
    return repeat(0.0) if backoff is None else backoff.delays(random)
