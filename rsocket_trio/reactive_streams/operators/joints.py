"""Chains of any length: `attach`, which subscribes to a source, and the joints of long chains.

Signals are plain calls, so each operator takes some of Python's stack. In a chain of more than
`SPAN` operators every so many are followed by a `Joint`. What passes a joint is called when the
call before it has returned (`run_flat`). So a chain of any length needs the stack of some spans,
and a shorter one has no joints, and costs nothing.

The number of operators up to the next joint is counted from the subscriber to the source, as
subscriptions are made in this order: see `below`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import local
from typing import Any, Final, TypeVar

from ..checks import check_error, check_subscription
from ..emission import TURN
from ..interfaces import Publisher, Subscriber, Subscription
from .guarded import below, drop_upstream, subscribe
from .intake import Intake

__all__ = ["BEHIND_PROCESSORS", "SPAN", "WINDOW", "Joint", "attach", "jointed", "run_flat"]

T = TypeVar("T")

SPAN: Final = 12
"""Operators between two joints. An operator takes up to 16 calls of the stack, of 1000 that Python
allows; so this leaves most of them to the program."""

BEHIND_PROCESSORS: Final = SPAN // 2
"""The same behind a processor, which does not know what will subscribe to it."""

WINDOW: Final = 64
"""Elements that are in a joint, or requested by it, at a time."""


class _Calls(local):
    """The calls of this thread that wait; ``None`` if none is running."""

    waiting: deque[tuple[Callable[..., object], tuple[Any, ...]]] | None = None


_CALLS: Final = _Calls()


def run_flat(call: Callable[..., object], *arguments: Any) -> None:
    """Call something now; or, inside of such a call, when that one has returned."""
    waiting = _CALLS.waiting
    if waiting is not None:
        waiting.append((call, arguments))
        return
    _CALLS.waiting = waiting = deque([(call, arguments)])
    try:
        while waiting:
            call, arguments = waiting.popleft()
            call(*arguments)
    finally:
        _CALLS.waiting = None
        if waiting:  # Ctrl-C goes on to the caller; what waits may belong to other streams.
            for call, arguments in waiting:
                run_flat(call, *arguments)


def attach(publisher: Publisher[Any], subscriber: Any) -> None:
    """Subscribe one of our own subscribers, with a joint between if it is time for one.

    Args:
        publisher: The source.
        subscriber: A subscriber with the attribute ``operators_below``.
    """
    if subscriber.operators_below < SPAN:
        subscribe(publisher, subscriber)
    else:
        run_flat(subscribe, publisher, Joint(subscriber))


def jointed(subscriber: Subscriber[T]) -> Subscriber[T]:
    """Return the subscriber of a processor, or a joint before it if it is time for one."""
    return subscriber if below(subscriber) <= BEHIND_PROCESSORS else Joint(subscriber)


class Joint(Intake[T, T]):
    """Passes signals and requests on, on a stack that is short again.

    It requests no more than its downstream has requested, and no more than `WINDOW` at a time.
    """

    __slots__ = ()

    def __init__(self, downstream: Subscriber[T]) -> None:
        super().__init__(downstream)
        self.operators_below = 0

    # The subscriber of the source.

    def on_subscribe(self, subscription: Subscription, /) -> None:
        """Take the source."""
        check_subscription(subscription)
        run_flat(super().on_subscribe, subscription)

    def received(self, element: T) -> None:
        """Hand the element on."""
        self.queue.append(element)
        if len(self.queue) == 1:
            run_flat(self.wake)

    def on_error(self, error: Exception, /) -> None:
        """Hand the error on, behind the elements that were sent before it."""
        check_error(error)
        run_flat(self._ended_with, error)

    def on_complete(self) -> None:
        """Hand the completion on."""
        run_flat(super().on_complete)

    def _ended_with(self, error: Exception) -> None:
        if not self._subscribed:  # the source breaks rule 1.9
            super().on_error(error)
            return
        if not self._source_over:
            self._left()
            self.close(error)  # What waits here is on its way, so the error comes behind it.

    # The subscription of the downstream.

    def _requested(self, n: int) -> None:
        run_flat(self._refill)

    def _emit(self, subscriber: Subscriber[T], limit: int) -> int:
        sent = 0
        while sent < limit and self.queue and not self._over:
            if self._pause():
                return sent
            just_sent = super()._emit(subscriber, limit - sent)
            sent += just_sent
            TURN.spent += just_sent
            run_flat(self._refill)  # A synchronous source may fill the queue here.
        if not self._over:
            super()._emit(subscriber, 0)  # Has it been closed?
        return sent

    def _refill(self) -> None:
        demand = self.demand.outstanding
        room = min(demand, WINDOW) - len(self.queue) - self.expected.outstanding
        # With a demand of more than a window, a request for each element would be slow.
        if room > 0 and not self._over and (demand <= WINDOW or room * 4 >= WINDOW):
            self.ask(room)

    def let_go(self) -> None:
        """Cancel the source."""
        if self.upstream is not None:
            run_flat(drop_upstream, self)
