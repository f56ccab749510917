"""Publishers that break a rule of streams: counts, ends and order (set-up, 1.1 to 1.8)."""

from __future__ import annotations

import weakref
from typing import Any

import trio

from rsocket_trio.reactive_streams.tck import verify_publisher
from tests.reactive_streams.tck.mutants.table import Mutant
from tests.reactive_streams.tck.reference import Cold, Failure, Link, then_fail


def verified(link: type[Link], publisher: type[Cold] = Cold, **capabilities: Any):
    """The verification of a publisher with this subscription."""
    cls = type(publisher.__name__, (publisher,), {"link": link})
    made = {
        "publisher": lambda n: cls(lambda: range(n)),
        "failing": lambda n: cls(lambda: then_fail(n)),
    }
    return verify_publisher(**{**made, **capabilities})


class TooMany(Link):
    def add(self, n: int) -> None:
        super().add(n + 1)


class Eager(Link):
    def start(self) -> None:
        self.demand = 1
        super().start()


class CompletesByRequest(Link):
    """It looks for the end only when a request finds nothing."""

    fresh = False

    def add(self, n: int) -> None:
        super().add(n)
        self.fresh = True

    def emit(self, element: Any) -> None:
        self.fresh = False
        super().emit(element)

    def finish(self, error: Exception | None) -> None:
        if error is not None or self.fresh:
            super().finish(error)


class NestedCompletion(Link):
    """It completes inside of request, although on_next is still running."""

    def add(self, n: int) -> None:
        super().add(n)
        if self.running and self.sent and not self.ahead and not self.look():
            self.finish(self.error)


class InsideOnSubscribe(Link):
    def start(self) -> None:
        self.running = False
        super().start()


class HidesFirstFailure(Link):
    def finish(self, error: Exception | None) -> None:
        super().finish(None if isinstance(error, Failure) and not self.sent else error)


class HidesLateFailure(Link):
    def finish(self, error: Exception | None) -> None:
        super().finish(None if isinstance(error, Failure) and self.sent else error)


class CompletesOfLargeDemand(Link):
    def finish(self, error: Exception | None) -> None:
        if error is not None or self.demand >= 5:
            super().finish(error)


class NeverCompletes(Link):
    def finish(self, error: Exception | None) -> None:
        if error is not None:
            super().finish(error)


class CompletesOnDemand(Link):
    def finish(self, error: Exception | None) -> None:
        if error is not None or self.demand:
            super().finish(error)


class Remembers(Link):
    """The base of those that signal something after the end."""

    last: Any = staticmethod(lambda: None)
    error_before: Exception | None = None

    def terminal(self, subscriber: Any, error: Exception | None) -> None:
        self.last = weakref.ref(subscriber)
        self.error_before = error
        super().terminal(subscriber, error)


class ChecksAfterCompletion(Remembers):
    def request(self, n: int) -> None:
        subscriber = self.last()
        if subscriber is not None and not self.error_before and n <= 0:
            subscriber.on_error(ValueError("3.9"))
        super().request(n)


class KeepsAfterCompletion(Link):
    kept: Any = None

    def terminal(self, subscriber: Any, error: Exception | None) -> None:
        self.kept = subscriber if error is None else None
        super().terminal(subscriber, error)


class KeepsAfterError(Link):
    kept: Any = None

    def terminal(self, subscriber: Any, error: Exception | None) -> None:
        self.kept = None if error is None else subscriber
        super().terminal(subscriber, error)


class FailsWithNone(Link):
    def terminal(self, subscriber: Any, error: Exception | None) -> None:
        if isinstance(error, Failure):
            self.error = None
            subscriber.on_error(None)
        else:
            super().terminal(subscriber, error)


class CompletesAgain(Remembers):
    again = False

    def request(self, n: int) -> None:
        subscriber = self.last()
        if subscriber is not None and not self.error_before and n > 0 and not self.again:
            self.again = True
            subscriber.on_complete()
        super().request(n)


class FailsAgain(Remembers):
    def request(self, n: int) -> None:
        subscriber = self.last()
        if subscriber is not None and isinstance(self.error_before, Failure):
            subscriber.on_error(self.error_before)
        super().request(n)


class GoesOnAfterBadRequest(Link):
    """It signals on_error for a bad request, and keeps the subscription open."""

    def request(self, n: int) -> None:
        if not self.over and self.check(n) is not None:
            self.subscriber.on_error(self.check(n))
        else:
            super().request(n)


class GivesNone(Link):
    def emit(self, element: Any) -> None:
        super().emit(None if self.sent == 4 else element)


class CompletesLongAfterCancel(Link):
    def cancel(self) -> None:
        if not self.over:
            trio.lowlevel.spawn_system_task(self.later, weakref.ref(self.subscriber))
        super().cancel()

    @staticmethod
    async def later(reference: Any) -> None:
        await trio.sleep(1000)
        if (subscriber := reference()) is not None:
            subscriber.on_complete()


class CompletesAfterCancel(Link):
    def emit(self, element: Any) -> None:
        subscriber = self.subscriber
        super().emit(element)
        if self.over and not self.look():
            subscriber.on_complete()


NO_END = {
    "r1_05_completes_without_further_demand",
    "r1_05_empty_stream_completes_without_demand",
}
ONE_MORE_IF_ONE = lambda n: Cold(lambda: range(max(n, 2) if n else 0))  # noqa: E731 - short rows
ONE_MORE_IF_THREE = lambda n: Cold(lambda: range(4 if n == 3 else n))  # noqa: E731 - as above

MUTANTS = [
    Mutant(
        name="a factory that gives two elements for one",
        verification=verify_publisher(ONE_MORE_IF_ONE),
        fails={"setup_factory_gives_one_element"},
        says="publisher(1) gave 2 elements",
    ),
    Mutant(
        name="a factory that gives four elements for three",
        verification=verify_publisher(ONE_MORE_IF_THREE),
        fails={"setup_factory_gives_three_elements"},
        unmet={"r1_05_completes_without_further_demand"},
        says="",
        why="after three of four elements there is no end",
    ),
    Mutant(
        name="one element more than requested",
        verification=verified(TooMany),
        fails={"r1_01_never_more_elements_than_requested"},
        says="rule 1.1: after request(1) there were 1 elements more than requested",
    ),
    Mutant(
        name="an element without demand",
        verification=verified(Eager),
        fails={"r1_01_never_more_elements_than_requested"},
        says="rule 1.1: before any request there were 1 elements more",
    ),
    Mutant(
        name="completes only by a request that finds nothing",
        verification=verified(CompletesByRequest),
        fails={"r1_02_may_complete_with_fewer_elements"},
        unmet=NO_END,
        says="on_complete",
        why="the two optional tests ask for an end without a further request",
    ),
    Mutant(
        name="on_complete inside of the last on_next",
        verification=verified(NestedCompletion),
        fails={"r1_03_signals_are_serial"},
        says="rule 1.3: on_complete began while on_next was running",
    ),
    Mutant(
        name="on_next inside of on_subscribe",
        verification=verified(InsideOnSubscribe),
        unmet={"r1_03_no_signal_inside_on_subscribe"},
        says="rule 1.3: on_next began while on_subscribe was running",
    ),
    Mutant(
        name="completes if it fails at once",
        verification=verified(HidesFirstFailure),
        fails={"r1_04_failed_publisher_signals_on_error"},
        says="rule 1.4: a publisher that fails after 0 elements signalled no on_error",
    ),
    Mutant(
        name="completes if it fails after elements",
        verification=verified(HidesLateFailure),
        fails={"r1_04_failure_after_elements_signals_on_error"},
        says="rule 1.4: a publisher that fails after 2 elements signalled no on_error",
    ),
    Mutant(
        name="completes only with a large demand left",
        verification=verified(CompletesOfLargeDemand),
        fails={"r1_05_finite_stream_completes"},
        unmet=NO_END,
        says="complete",
        why="as for the one that completes by a request",
    ),
    Mutant(
        name="never completes",
        verification=verified(NeverCompletes),
        fails={"r1_05_finite_stream_completes", "r1_02_may_complete_with_fewer_elements"},
        unmet=NO_END,
        says="complete",
        why="each of these tests waits for on_complete",
    ),
    Mutant(
        name="needs a request to complete",
        verification=verified(CompletesOnDemand),
        unmet=NO_END,
        says="complete",
        why="there are two optional tests for two kinds of streams",
    ),
    Mutant(
        name="checks requests after completion",
        verification=verified(ChecksAfterCompletion),
        fails={"r1_06_subscription_is_cancelled_after_completion"},
        says="rule 1.6: after on_complete, request(0) and cancel() made it signal",
    ),
    Mutant(
        name="keeps the subscriber after completion",
        verification=verified(KeepsAfterCompletion),
        fails={"r1_06_subscriber_is_dropped_after_completion"},
        says="rule 1.6: after on_complete the subscriber is still referenced",
    ),
    Mutant(
        name="keeps the subscriber after an error",
        verification=verified(KeepsAfterError),
        fails={"r1_06_subscriber_is_dropped_after_an_error"},
        says="rule 1.6: after on_error the subscriber is still referenced",
    ),
    Mutant(
        name="completes again for a request",
        verification=verified(CompletesAgain),
        fails={"r1_07_nothing_after_on_complete"},
        says="rule 1.7: after on_complete it signalled ['on_complete']",
    ),
    Mutant(
        name="fails again for each request",
        verification=verified(FailsAgain),
        fails={"r1_07_nothing_after_on_error"},
        says="rule 1.7: after on_error it signalled ['on_error']",
    ),
    Mutant(
        name="goes on after the error for a bad request",
        verification=verified(GoesOnAfterBadRequest),
        fails={"r1_07_nothing_after_on_error_for_a_request"},
        says="rule 1.7: after the on_error for request(-1) it signalled ['on_next', ",
    ),
    Mutant(
        name="gives None for an element in the middle",
        verification=verified(GivesNone),
        fails={"r2_13_no_element_is_none"},
        says="rule 2.13: on_next was called with None, for element 3 of 300",
    ),
    Mutant(
        name="fails with None for an error",
        verification=verified(FailsWithNone),
        fails={"r2_13_no_error_is_none"},
        says="rule 2.13: on_error was called with None, which is no exception",
    ),
    Mutant(
        name="completes long after cancel",
        verification=verified(CompletesLongAfterCancel),
        fails={"r1_08_silence_after_cancel"},
        says="rule 1.8: some time after cancel() it signalled ['on_complete']",
    ),
    Mutant(
        name="completes after cancel in the last on_next",
        verification=verified(CompletesAfterCancel),
        unmet={"r1_08_nothing_once_cancel_has_returned"},
        says="rule 1.8: after cancel() had returned it signalled on_complete",
    ),
]
