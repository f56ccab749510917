"""`Emission`: one subscription to a synchronous source, and the loop that sends its signals.

All synchronous publishers use this one loop, so the rules about it stand here:

- Recursion has the depth 1 (rule 3.3): a `request` inside a signal only adds to the demand, and
  the loop that is running goes on. While ``on_subscribe`` runs, nothing is sent.
- Signals are serial (rule 1.3): also an ``on_error`` for a wrong `request` waits until the signal
  that made the request has returned.
- After `EMISSION_BUDGET` elements in a row other tasks run, and the loop goes on in a later turn.
  Otherwise an endless source with a demand without limit would stop all other tasks (rule 3.4).
  Operators that subscribe to many sources count these, and all their elements, together (`TURN`).
- A subscriber that raises from a signal loses its subscription (rule 2.13). The error is logged; it
  does not reach the source, the nursery or other subscribers.
- If Python's stack is used up below a signal, the signal may not have come to its end, and there is
  no stack to say so. Then the subscription ends with `StackExhausted`, signalled in a later turn
  of trio. Every call may be the one that fails, so a method leaves this object in a state in which
  it can be called again.
- At the end, and in `cancel`, the references to the subscriber and the source go (rule 3.13).
"""

from __future__ import annotations

from abc import abstractmethod
from contextvars import copy_context
from typing import Final, Generic, TypeVar

import trio

from ..log_policy import logger
from .checks import demand_of
from .demand import Demand
from .errors import SourceClosed, StackExhausted
from .interfaces import Subscriber
from .short_stack import on_short_stack, reported

__all__ = ["EMISSION_BUDGET", "TURN", "Emission", "own_traceback", "report_failure"]

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

EMISSION_BUDGET: Final = 256
"""Elements in a row before other tasks run. That turn costs as much as some dozens of elements."""


class _Turn:
    """What operators with many sources have done since a loop was last continued by trio.

    Each source has a budget of its own. So with thousands of them, or with such operators inside
    of each other, the budgets alone would let millions of elements pass in one turn.

    Attributes:
        spent: Elements and sources.
    """

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0


# Threads share it, which does no harm: a loop is continued one turn too early or too late.
TURN: Final = _Turn()

_IDLE: Final = 0
_RUNNING: Final = 1
_LATER: Final = 2
_NEW: Final = 3


def report_failure(signal: str, error: BaseException) -> None:
    """Log the error that a subscriber raised from a signal, which rule 2.13 forbids.

    Args:
        signal: The name of the method.
        error: What it raised.
    """
    logger.error(
        "a subscriber raised from %s(), so its subscription is cancelled", signal, exc_info=error
    )


def own_traceback(error: E) -> E:
    """Take the caller's frame from the traceback of an error that it has just caught.

    The frame has the subscriber and the element in its variables. The error may live long.
    """
    trace = error.__traceback__
    return error if trace is None else error.with_traceback(trace.tb_next)


class Emission(Generic[T]):
    """A subscription whose elements a loop sends. A subclass has the source.

    Make it, then call `start` once. A subclass calls `wake` when it has elements, and `end` when it
    has no more.

    Attributes:
        demand: What is requested and not sent.
    """

    __slots__ = ("__weakref__", "_outcome", "_over", "_state", "_subscriber", "demand")

    _budget: int = EMISSION_BUDGET
    """Elements in a row. A subclass that sends many elements in one signal may have more."""

    def __init__(self, subscriber: Subscriber[T]) -> None:
        self._subscriber: Subscriber[T] | None = subscriber
        self._state = _NEW  # Nothing is sent before `on_subscribe` (rule 1.9).
        self._over = False  # No more elements: cancelled, or `_outcome` is the signal to send.
        self._outcome: Exception | None = None
        self.demand = Demand()

    # -- for the subclass -------------------------------------------------------------------

    @abstractmethod
    def _emit(self, subscriber: Subscriber[T], limit: int) -> int:
        """Take the demand of at most ``limit`` elements, and send them; stop once `_over` is set.

        At the end of the source call `_ended`. With a limit of 0 only see whether it has ended.

        Returns:
            The number of elements sent. If it is less than ``limit``, there are no more now.
        """

    @abstractmethod
    def _release(self) -> None:
        """Let go of the source; it is called once, and not while the loop runs."""

    def _requested(self, n: int) -> None:
        """``n`` more elements have been requested: called before any of them is sent."""

    def _ended(self, error: Exception | None = None) -> None:
        """Send no more elements, and then the last signal, for a subclass in `_emit`."""
        if not self._over:
            self._over = True
            self._outcome = error

    def _raised(self, signal: str, error: BaseException) -> None:
        """The subscriber raised: end the subscription without a signal.

        Raises:
            RecursionError: It was one. Whoever has more stack ends the subscription with a signal.
        """
        if isinstance(error, RecursionError):
            raise error
        self._over = True
        self._subscriber = None
        self._outcome = None
        report_failure(signal, own_traceback(error))

    # -- for the publisher ------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """Whether more signals may follow."""
        return not self._over

    def start(self) -> None:
        """Send ``on_subscribe``, then what was requested in it. It never raises an `Exception`."""
        subscriber = self._subscriber
        if subscriber is None or self._state != _NEW:
            return
        self._state = _RUNNING
        try:
            subscriber.on_subscribe(self)
        except RecursionError:
            self._state = _IDLE
            self._cut_short("on_subscribe")
            return
        except Exception as error:  # of the subscriber (rule 2.13)
            self._raised("on_subscribe", error)
        except BaseException:  # e.g. Ctrl-C: it goes on to the caller
            self._abandon()
            raise
        del subscriber  # the loop may end its subscription
        self._state = _IDLE
        self.wake()

    def start_ended(self, error: Exception | None = None) -> None:
        """Send ``on_subscribe``, and then the last signal: see `start` and `end`."""
        self.end(error)

    def wake(self) -> None:
        """Send what can be sent."""
        if self._state == _IDLE:
            try:
                self._run()
            except RecursionError:
                if self._subscriber is None:  # It has cancelled, so our caller says so.
                    raise
                self._cut_short("on_next")

    def end(self, error: Exception | None = None) -> None:
        """End it, without waiting for demand: ``on_error``, or ``on_complete`` without an error.

        If a signal is running, this one follows when that one has returned. If nothing was sent
        yet, ``on_subscribe`` is sent first.
        """
        if self._over and (self._subscriber is None or self._state != _IDLE):
            return
        self._ended(error)
        if self._state == _NEW:
            self.start()
        elif self._state != _RUNNING:
            self._finish()

    # -- Subscription -----------------------------------------------------------------------

    def request(self, n: int, /) -> None:
        """See `Subscription.request`."""
        if self._over:
            return
        if type(n) is not int or n <= 0:
            number = demand_of(n)
            if isinstance(number, Exception):
                self.end(number)
                return
            n = number
        self.demand.add(n)
        try:
            self._requested(n)
        except RecursionError:
            self._cut_short("request")
        except Exception as error:  # of the source; a request never raises (rule 3.16)
            self.end(own_traceback(error))
        if self._state == _IDLE:
            self.wake()

    def cancel(self) -> None:
        """See `Subscription.cancel`."""
        if self._subscriber is None and self._state == _RUNNING:
            return
        self._over = True
        self._outcome = None
        self._subscriber = None
        if self._state != _RUNNING:
            self._finish()

    # -- the loop ---------------------------------------------------------------------------

    def _run(self) -> None:
        """Send elements until there is no demand, nothing to send, or the budget is used."""
        left = self._budget
        demand = self.demand
        self._state = _RUNNING
        try:
            while not self._over:
                limit = demand.outstanding
                if limit > left:
                    limit = left
                    if not left:
                        if self._postpone():
                            return
                        left = limit = min(self._budget, demand.outstanding)
                subscriber = self._subscriber
                if subscriber is None:
                    break
                sent = self._emit(subscriber, limit)
                left -= sent
                if sent < limit or not demand.outstanding or self._state != _RUNNING:
                    break
        except RecursionError:
            self._state = _IDLE
            raise
        except BaseException:  # e.g. Ctrl-C: it goes on to the caller
            self._abandon()
            raise
        if self._state == _RUNNING:
            self._state = _IDLE
        if self._over:
            self._finish()

    def _pause(self) -> bool:
        """Return whether `TURN` is used up, and the loop goes on later, for a subclass in `_emit`.

        Then `_emit` returns without another signal.
        """
        if TURN.spent < EMISSION_BUDGET:
            return False
        if self._postpone():
            return True
        TURN.spent = 0
        return False

    def _postpone(self) -> bool:
        """Go on in a later turn of trio; return whether this is possible."""
        if not trio.lowlevel.in_trio_run():
            return False  # nobody waits for this thread
        token = trio.lowlevel.current_trio_token()
        try:
            token.run_sync_soon(copy_context().run, self._go_on)
        except trio.RunFinishedError:
            self._ended(SourceClosed("the run of trio has ended"))
            return False
        self._state = _LATER
        return True

    def _go_on(self) -> None:
        if self._state != _LATER:
            return
        TURN.spent = 0
        subscriber = self._subscriber
        try:
            self._state = _IDLE
            self.wake()
        except BaseException as error:  # whatever leaves this function ends the whole run of trio
            # Nobody called this who could get it, so the subscriber must not wait for ever.
            name = type(error).__name__
            logger.error("%s in a stream", name, exc_info=own_traceback(error))
            if subscriber is not None:
                failure = SourceClosed(f"the source or a subscriber raised {name}, see the log")
                reported(subscriber.on_error, failure)

    def _finish(self) -> None:
        """Send the last signal, if there is one to send; then nothing refers to anything."""
        self._state = _RUNNING
        subscriber, self._subscriber = self._subscriber, None
        outcome, self._outcome = self._outcome, None
        try:
            self._release()
        except RecursionError:
            self._subscriber, self._outcome, self._state = subscriber, outcome, _IDLE
            on_short_stack(self._finish)
            return
        except Exception as error:  # of the source's clean-up, no affair of the subscriber
            logger.error("closing the source of a publisher failed", exc_info=own_traceback(error))
        if subscriber is None:
            return
        try:
            if outcome is None:
                subscriber.on_complete()
            else:
                subscriber.on_error(outcome)
        except RecursionError:
            self._subscriber, self._outcome, self._state = subscriber, outcome, _IDLE
            signal = "on_complete" if outcome is None else "on_error"
            on_short_stack(subscriber.on_error, outcome or StackExhausted(signal))
            self._subscriber, self._outcome, self._state = None, None, _RUNNING
        except Exception as error:  # of the subscriber (rule 2.13)
            report_failure("on_complete" if outcome is None else "on_error", own_traceback(error))

    def _cut_short(self, signal: str) -> None:
        """The stack was used up: send nothing more now, and say so where it is short."""
        before = self._state
        self._state = _LATER
        try:
            on_short_stack(self._end_cut_short, signal)
        except RecursionError:  # Our caller has more of it, and does the same.
            self._state = before
            raise

    def _end_cut_short(self, signal: str) -> None:
        if self._state == _LATER:
            self._state = _IDLE
            self.end(StackExhausted(signal))

    def _abandon(self) -> None:
        """Something like `KeyboardInterrupt` passes: the subscription is over."""
        self._over = True
        self._subscriber = None
        self._outcome = None
        self._finish()
