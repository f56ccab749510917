"""Operators that hold no elements: `Stage`, one subscription of such an operator.

A stage is the subscriber of its source and the subscription of its downstream in one object.
Signals pass on the stack of the source, and demand passes up as it is. So the source's count is the
count of the stage, and the source's loop bounds the recursion of both (rule 3.3).

The path of an element is one call per operator. Most questions that there are for each element are
an assignment somewhere else: before on_subscribe and after the end `Stage.signal` is a function
that does nothing. What is left is `Stage.state`, because the answer to a wrong request waits until
the signal has returned that made it (rules 1.3, 3.9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ..checks import check_error, check_subscription, demand_error
from ..emission import own_traceback, report_failure
from ..errors import StackExhausted
from ..interfaces import Subscriber, Subscription
from ..short_stack import on_short_stack
from .guarded import NOTHING, below, cancel, complete, fail, ignore

__all__ = ["IDLE", "SIGNALLING", "Stage"]

T = TypeVar("T")
R = TypeVar("R")

IDLE: Final = 0
SIGNALLING: Final = 1
_REFUSED: Final = 2


class Stage(Generic[T, R]):
    """One subscription of an operator that holds no elements.

    Args:
        downstream: The subscriber of the operator.

    Attributes:
        downstream: It, or ``None`` after the end: nothing refers to it then (rule 3.13).
        signal: Its ``on_next``, or `ignore` before on_subscribe and after the end.
        upstream: The subscription of the source, or ``None``.
        operators_below: This operator and those behind it, up to a joint: see `joints`.
        state: `SIGNALLING` while the downstream is in on_subscribe or on_next. If it is something
            else after that signal, `settle` has to be called.
    """

    __slots__ = (
        "__weakref__",
        "_refused",
        "downstream",
        "operators_below",
        "signal",
        "state",
        "upstream",
    )

    def __init__(self, downstream: Subscriber[R]) -> None:
        self.downstream: Subscriber[R] | None = downstream
        self.upstream: Subscription | None = None
        self.signal: Callable[[R], None] = ignore
        self.state = IDLE
        self._refused: tuple[Subscriber[R], Exception] | None = None
        self.operators_below = below(downstream)

    # The subscriber of the source.

    def on_subscribe(self, subscription: Subscription, /) -> None:
        """Hand a subscription on: this object."""
        check_subscription(subscription)
        downstream = self.downstream
        if self.upstream is not None or downstream is None:
            cancel(subscription)  # rule 2.5
            return
        self.upstream = subscription
        self.signal = downstream.on_next
        self.state = SIGNALLING
        try:
            downstream.on_subscribe(self)
        except Exception as error:  # of the subscriber (rule 2.13)
            self.harmed("on_subscribe", error)
        self.settle()

    def on_next(self, element: T, /) -> None:
        """Handle an element."""
        raise NotImplementedError

    def on_error(self, error: Exception, /) -> None:
        """Hand the error on at once (rule 4.2)."""
        check_error(error)
        downstream = self._leave()
        if downstream is not None:
            try:
                fail(downstream, error)
            except RecursionError:  # for another attempt
                self.downstream, self.upstream = downstream, NOTHING
                raise

    def on_complete(self) -> None:
        """Hand the completion on."""
        downstream = self._leave()
        if downstream is not None:
            try:
                complete(downstream)
            except RecursionError:  # for another attempt
                self.downstream, self.upstream = downstream, NOTHING
                raise

    # The subscription of the downstream.

    def request(self, n: int, /) -> None:
        """Ask the source for as many elements."""
        upstream = self.upstream
        if upstream is None:
            return  # rule 3.6
        if type(n) is not int or n <= 0:
            error = demand_error(n)
            if error is not None:
                self.refuse(error)
                return
        try:
            upstream.request(n)
        except RecursionError:
            on_short_stack(self.fail, StackExhausted("request"))
        except Exception as error:  # of a source that breaks rule 3.16
            self.refuse(own_traceback(error))

    def cancel(self) -> None:
        """Cancel the source at once, and forget both ends."""
        upstream = self.upstream
        self.release()
        try:
            cancel(upstream)
        except RecursionError:  # for another attempt
            self.upstream = upstream
            raise

    # For the operators.

    def release(self) -> None:
        """Forget the source, the downstream, and what the operator holds for them."""
        self.upstream = None
        self.downstream = None
        self.signal = ignore

    def fail(self, error: Exception) -> None:
        """End with an error of our own: the source is cancelled first."""
        downstream = self.downstream
        try:
            self.cancel()
            if downstream is not None:
                fail(downstream, error)
        except RecursionError:  # for another attempt
            self.downstream = downstream
            if self.upstream is None:
                self.upstream = NOTHING
            raise

    def refuse(self, error: Exception) -> None:
        """End with the error of a request, behind the signal that made it."""
        downstream = self.downstream
        if self.state == IDLE or downstream is None:
            self.fail(error)
        else:
            self.cancel()
            self.state = _REFUSED
            self._refused = downstream, error

    def settle(self) -> None:
        """A signal has returned."""
        self.state = IDLE
        refused, self._refused = self._refused, None
        if refused is not None:
            fail(*refused)

    def harmed(self, signal: str, error: Exception) -> None:
        """The downstream has raised: the source is cancelled, and this is reported (rule 2.13)."""
        self.state = IDLE
        self._refused = None
        if isinstance(error, RecursionError):
            self.signal = ignore
            on_short_stack(self.fail, StackExhausted(signal))
            return
        self.cancel()
        report_failure(signal, own_traceback(error))

    def _leave(self) -> Subscriber[R] | None:
        """Return the downstream for its last signal, and forget it (rule 1.7)."""
        downstream = self.downstream
        if downstream is not None and self.upstream is None:
            # The source breaks rule 1.9: its first signal is the last one.
            self.upstream = NOTHING
            try:
                downstream.on_subscribe(self)
            except Exception as error:  # of the subscriber (rule 2.13)
                self.harmed("on_subscribe", error)
                return None
            downstream = self.downstream  # None if it has cancelled
        self.release()
        return downstream
