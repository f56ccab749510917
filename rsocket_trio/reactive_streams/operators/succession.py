"""Operators that have one source after another: `Succession`, one subscription of such an operator.

The next source is subscribed to in the loop of the emission, and not on the stack of the one
before. So any number of sources that end at once need one level of recursion. A source that
signals while it is subscribed to does so inside the loop; its elements pass on directly. At all
other times they pass through the queue, which is empty again when the signal returns. After some
hundreds of sources and elements in a row other tasks run.

The current source has been asked for exactly what the downstream has requested and not got.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from ..checks import check_element, check_error, check_subscription
from ..emission import TURN
from ..interfaces import Publisher, Subscriber, Subscription
from ..queued_emission import QueueEmission
from .guarded import below, cancel, drop_upstream, request
from .intake import too_many
from .joints import attach

__all__ = ["Succession"]

T = TypeVar("T")


class Succession(QueueEmission[T]):
    """One subscription of an operator with one source after another. Call `start` once.

    Args:
        downstream: The subscriber of the operator.
    """

    __slots__ = ("_current", "_inside", "operators_below")

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self._current: _Source[T] | None = None
        self._inside = False
        self.operators_below = below(downstream)

    # For the operators.

    @abstractmethod
    def next_source(self) -> Publisher[T] | None:
        """Return the next source; or ``None``, if there is none now, or if this has ended."""

    @abstractmethod
    def completed(self) -> None:
        """Handle that the current source is complete."""

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """Handle that the current source has failed."""

    def let_go(self) -> None:
        """Cancel the current source, and drop what else this holds."""
        if self._current is not None:
            self._current.cancel()
            self._current = None

    # For the subscriber of the current source.

    def arrived(self, element: T) -> None:
        """Hand on an element."""
        if not self.demand.outstanding:
            self.end(too_many())
        elif self._inside:
            subscriber = self._subscriber
            assert subscriber is not None
            self.demand.take()
            TURN.spent += 1
            try:
                subscriber.on_next(element)
            except Exception as error:  # of the subscriber (rule 2.13)
                self._raised("on_next", error)
                self.let_go()
        else:
            self.push(element)

    def left(self, error: Exception | None) -> None:
        """The current source has ended; look for another one."""
        self._current = None
        if error is None:
            self.completed()
        else:
            self.failed(error)
        self.wake()

    # The emission.

    def _requested(self, n: int) -> None:
        if self._current is not None:
            self._current.request(n)

    def _emit(self, subscriber: Subscriber[T], limit: int) -> int:
        sent = super()._emit(subscriber, limit)
        while self._current is None and not self._over and not self._closing and not self.queue:
            if self._pause():
                return sent
            TURN.spent += 1
            publisher = self.next_source()
            if publisher is None:
                break
            self._current = source = _Source(self)
            self._inside = True
            try:
                attach(publisher, source)
            finally:
                self._inside = False
        if not self._over:
            super()._emit(subscriber, 0)  # Has it been closed meanwhile?
        return sent

    def end(self, error: Exception | None = None) -> None:
        """End it at once, and the current source."""
        super().end(error)
        self.let_go()

    def cancel(self) -> None:
        """Cancel it, and the current source at once."""
        super().cancel()
        self.let_go()

    def _release(self) -> None:
        super()._release()
        self.let_go()


class _Source(Generic[T]):
    """The subscriber of one source."""

    __slots__ = ("__weakref__", "_owner", "operators_below", "upstream")

    def __init__(self, owner: Succession[T]) -> None:
        self._owner: Succession[T] | None = owner
        self.operators_below = owner.operators_below
        self.upstream: Subscription | None = None

    def request(self, n: int) -> None:
        owner, upstream = self._owner, self.upstream
        # Before on_subscribe this is counted only.
        if owner is not None and upstream is not None:
            request(upstream, n, owner.end)

    def cancel(self) -> None:
        self._owner = None
        drop_upstream(self)

    def on_subscribe(self, subscription: Subscription, /) -> None:
        check_subscription(subscription)
        owner = self._owner
        if owner is None or self.upstream is not None:
            cancel(subscription)  # rule 2.5
            return
        self.upstream = subscription
        if owner.demand.outstanding:
            self.request(owner.demand.outstanding)

    def on_next(self, element: T, /) -> None:
        if element is None:
            check_element(element)
        if self._owner is not None:
            self._owner.arrived(element)

    def on_error(self, error: Exception, /) -> None:
        check_error(error)
        self._left(error)

    def on_complete(self) -> None:
        self._left(None)

    def _left(self, error: Exception | None) -> None:
        owner, self._owner = self._owner, None
        self.upstream = None
        if owner is not None:
            try:
                owner.left(error)
            except RecursionError:  # for another attempt
                self._owner = owner
                raise
