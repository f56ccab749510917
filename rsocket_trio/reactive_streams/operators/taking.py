"""The first elements: `take`."""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from ..checks import check_element, check_subscription, demand_of
from ..errors import StackExhausted
from ..interfaces import Publisher, Subscriber, Subscription
from ..short_stack import on_short_stack
from .guarded import NOTHING, cancel, check_count
from .operator import Operated, Operator
from .stage import IDLE, SIGNALLING, Stage

__all__ = ["take"]

T = TypeVar("T")


def take(count: int) -> Operator[T, T]:
    """Make an operator that completes after some elements.

    It never requests more than that many, cancels the source before it hands on the last one, and
    completes right after it. With a count of 0 it completes at once.

    Example::

        pipe(from_iterable(range(1_000_000)), ops.take(2))  # 0, 1

    Args:
        count: The number of elements.

    Raises:
        ValueError: The count is negative.
        TypeError: The count is not an integer.
    """
    check_count("the count of take()", count, 0)

    def operator(source: Publisher[T]) -> Operated[T, T]:
        return Operated(source, partial(_Take, count))

    return operator


class _Take(Stage[T, T]):
    __slots__ = ("_remaining", "_requestable")

    def __init__(self, count: int, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._remaining = count
        self._requestable = count

    def on_subscribe(self, subscription: Subscription, /) -> None:
        if self._remaining or self.downstream is None:
            super().on_subscribe(subscription)
            return
        check_subscription(subscription)
        cancel(subscription)
        self.on_complete()

    def on_next(self, element: T, /) -> None:
        if element is None:
            check_element(element)
        remaining = self._remaining = self._remaining - 1
        last = None
        if remaining <= 0:
            last = self.downstream
            # The source is over before the last element, so nothing can come between.
            upstream, self.upstream = self.upstream, NOTHING
            cancel(upstream)
        signal = self.signal
        self.state = SIGNALLING
        try:
            signal(element)
        except Exception as error:  # of the subscriber (rule 2.13)
            if last is None or not isinstance(error, RecursionError):
                self.harmed("on_next", error)
            else:  # The source is over, and the downstream may have cancelled.
                on_short_stack(self._end_cut_short, last)
            return
        if self.state == SIGNALLING:
            self.state = IDLE
        else:
            self.settle()
        if remaining <= 0:
            try:
                self.on_complete()
            except RecursionError:  # The source is over, so nobody else would say so.
                on_short_stack(self.on_complete)

    def _end_cut_short(self, downstream: Subscriber[T]) -> None:
        self.downstream = downstream
        self.fail(StackExhausted("on_next"))

    def request(self, n: int, /) -> None:
        number, before = demand_of(n), self._requestable
        if isinstance(number, int):
            n = min(number, self._requestable)
            self._requestable -= n
            if not n:
                return
        try:
            super().request(n)
        except RecursionError:  # to the caller, who may request again
            self._requestable = before
            raise
