"""No more than one element in a time: `throttle`."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, TypeVar

import trio

from ..checks import check_nursery
from ..interfaces import Publisher, Subscriber
from .guarded import check_seconds
from .intake import Intake
from .operator import Operated, Operator
from .timers import Timer

__all__ = ["throttle"]

T = TypeVar("T")


def throttle(interval: float, nursery: trio.Nursery) -> Operator[Any, Any]:
    """Make an operator that slows a source down: it loses no element, and holds none.

    It requests one element at a time, and the next one ``interval`` seconds after the last one
    came. For a source that cannot be held back, put `buffer` before it.

    Example::

        pipe(from_iterable(jobs), ops.throttle(0.1, nursery))  # ten a second at most

    Args:
        interval: The shortest time between two elements, in seconds.
        nursery: Where each subscription has its task. When it is cancelled, the subscriber gets
            `SourceClosed`.

    Raises:
        ValueError: The interval is not positive, or not finite.
        TypeError: An argument has the wrong type.
    """
    check_seconds("the interval of throttle()", interval)
    check_nursery("throttle()", nursery)

    def operator(source: Publisher[T]) -> Operated[T, T]:
        return Operated(source, partial(_Throttle, interval, nursery))

    return operator


class _Throttle(Intake[T, T]):
    __slots__ = ("_interval", "_next", "_timer")

    def __init__(self, interval: float, nursery: trio.Nursery, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._interval = interval
        self._next = -inf
        self._timer: Timer | None = Timer(nursery, self._ask, self.end)

    def start(self) -> None:
        failure = None if self._timer is None else self._timer.start()
        if failure is not None:
            self._ended(failure)  # rule 1.9: the last signal comes behind on_subscribe
        super().start()

    def received(self, element: T) -> None:
        self._next = trio.current_time() + self._interval
        self.push(element)
        self._ask()

    def _requested(self, n: int) -> None:
        self._ask()

    def _ask(self) -> None:
        """Request the next element, now or in time."""
        timer = self._timer
        if timer is None or self.expected.outstanding or not self.demand.outstanding or self.queue:
            return
        if trio.current_time() >= self._next:
            self.ask(1)
        else:
            timer.at(self._next)

    def let_go(self) -> None:
        super().let_go()
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.stop()
