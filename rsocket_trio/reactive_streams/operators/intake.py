"""Operators that hold elements or wait: `Intake`, one subscription of such an operator.

An intake is the subscriber of its source, and the subscription of its downstream with a queue
between the two. It counts what it has requested and has not got (`Intake.expected`). So a source
that sends more than that (rule 1.1) fills no memory: it is cancelled.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ..checks import check_element, check_error, check_subscription
from ..demand import Demand
from ..errors import TooManyElements
from ..interfaces import Subscriber, Subscription
from ..queued_emission import QueueEmission
from .guarded import below, cancel, drop_upstream, request

__all__ = ["Intake", "too_many"]

T = TypeVar("T")
R = TypeVar("R")


def too_many() -> TooManyElements:
    """Make the error for a source that sends what nobody has requested."""
    return TooManyElements("the source sent more elements than were requested (rule 1.1)")


class Intake(QueueEmission[R], Generic[T, R]):
    """One subscription of an operator that holds elements or waits.

    Args:
        downstream: The subscriber of the operator.

    Attributes:
        expected: What is requested from the source and has not come.
        operators_below: This operator and those behind it, up to a joint: see `joints`.
    """

    __slots__ = ("_source_over", "_subscribed", "expected", "operators_below", "upstream")

    def __init__(self, downstream: Subscriber[R]) -> None:
        super().__init__(downstream)
        self._subscribed = False
        self._source_over = False
        self.upstream: Subscription | None = None
        self.expected = Demand()
        self.operators_below = below(downstream)

    # For the operators.

    def opened(self) -> None:
        """The source is there, and the downstream has its subscription."""

    def received(self, element: T) -> None:
        """Handle an element."""
        raise NotImplementedError

    def completed(self) -> None:
        """The source is complete: so is this, behind the elements of the queue."""
        self.close()

    def ask(self, n: int) -> None:
        """Request elements from the source, unless it has ended."""
        upstream = self.upstream
        if upstream is not None:
            self.expected.add(n)
            request(upstream, n, self.end)

    @property
    def attached(self) -> bool:
        """Whether there is a source that may send more."""
        return self.upstream is not None

    def let_go(self) -> None:
        """Cancel the source, and drop what else this holds: called when it is over, or later."""
        drop_upstream(self)

    # The subscriber of the source.

    def on_subscribe(self, subscription: Subscription, /) -> None:
        """Take the source, and hand a subscription on: this object."""
        check_subscription(subscription)
        if self._subscribed or self._over:
            cancel(subscription)  # rule 2.5
            return
        self._subscribed = True
        self.upstream = subscription
        self.start()
        if self.upstream is not None:
            self.opened()

    def on_next(self, element: T, /) -> None:
        """Take an element."""
        if element is None:
            check_element(element)
        if self._over:
            return  # rule 2.8
        if not self.expected.outstanding:
            if not self._source_over:
                self.end(too_many())
            return
        self.expected.take()
        self.received(element)

    def on_error(self, error: Exception, /) -> None:
        """Hand the error on at once (rule 4.2): elements that wait are dropped."""
        check_error(error)
        if self._source_over:
            return
        try:
            self._left()
            self.end(error)
        except RecursionError:  # for another attempt
            self._source_over = False
            raise

    def on_complete(self) -> None:
        """Hand the completion on, behind the elements that wait."""
        if self._source_over:
            return
        try:
            self._left()
            if self._subscribed:
                self.completed()
            else:  # the source breaks rule 1.9
                self.end()
        except RecursionError:  # for another attempt
            self._source_over = False
            raise

    def _left(self) -> None:
        """The source has sent its last signal: what it sends nevertheless is void (rule 1.7)."""
        self._source_over = True
        self.upstream = None
        self.expected = Demand()

    # The subscription of the downstream.

    def end(self, error: Exception | None = None) -> None:
        """End it at once, and the source."""
        super().end(error)
        self.let_go()

    def cancel(self) -> None:
        """Cancel it, and the source at once."""
        super().cancel()
        self.let_go()

    def _release(self) -> None:
        super()._release()
        self.let_go()
