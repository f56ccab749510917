"""Processors that break a rule (4.1, 4.2, and those of several subscribers)."""

from __future__ import annotations

from typing import Any

from rsocket_trio.reactive_streams.tck import ProcessorVerification, verify_processor
from tests.reactive_streams.tck.mutants.table import Mutant
from tests.reactive_streams.tck.reference import Failure, Fan, FanLink, Prefetching, Relay


def verified(cls: type[Relay], **capabilities: Any) -> type[ProcessorVerification]:
    """The verification of a processor for one subscriber."""
    return verify_processor(cls, **{"subscribers": "one", "max_elements": 1000, **capabilities})


class LosesElements(Relay):
    count = 0

    def on_next(self, element: Any) -> None:
        if element is not None:
            self.count += 1
        if self.count % 10 or element is None:
            super().on_next(element)


class EndsTooSoon(Prefetching):
    size = 20

    def on_complete(self) -> None:
        if self.taken:
            self.waiting.clear()
        super().on_complete()


class Greedy(Prefetching):
    size = 50


class KeepsUpstream(Relay):
    def give_up(self) -> None:
        self.downstream = None


class ErrorOnDemand(Relay):
    error: Any = None

    def on_error(self, error: Any) -> None:
        self.error = error
        super().on_error(error)

    def drain(self) -> None:
        if self.error is None or self.demand or self.waiting:
            super().drain()


class OtherError(Relay):
    def on_error(self, error: Any) -> None:
        super().on_error(error if error is None else Failure("something failed"))


class GoesOnAfterError(Relay):
    def on_error(self, error: Any) -> None:
        if error is None:
            raise TypeError("the error is None")


class ErrorForFirst(Fan):
    def receivers(self) -> list[FanLink]:
        return self.links[:1] if self.ended[0] is not None else super().receivers()


class StopsEarly(Fan):
    def goes_on(self) -> bool:
        return self.sent < 10 or len(self.links) < 2


def fan(cls: type[Fan]) -> type[ProcessorVerification]:
    return verify_processor(cls, coordinated=True, max_elements=1000)


MUTANTS = [
    Mutant(
        name="loses every tenth element",
        verification=verified(LosesElements),
        fails={"r4_01_elements_pass_in_order"},
        says="rule 4.1: the elements [0, 1, 2",
    ),
    Mutant(
        name="completes before the elements that wait",
        verification=verified(EndsTooSoon),
        fails={"r4_01_elements_pass_before_the_end"},
        says="rule 4.1: 3 elements waited when the upstream completed, and 0 of them came out",
    ),
    Mutant(
        name="requests more ahead than declared",
        verification=verified(Greedy, buffer_size=4),
        fails={"r4_01_demand_ahead_is_bounded"},
        says="rule 4.1: with a demand of 0 it requested 50 elements ahead",
    ),
    Mutant(
        name="does not cancel upstream",
        verification=verified(KeepsUpstream, cancels_upstream=False),
        unmet={"r4_01_cancel_goes_upstream"},
        says="rule 4.1: the only subscriber cancelled, and the upstream was not cancelled",
    ),
    Mutant(
        name="does not cancel upstream and declares it",
        verification=verified(KeepsUpstream),
        fails={"setup_request_elements_and_cancel"},
        unmet={"r4_01_cancel_goes_upstream"},
        says="cancel",
        why="the declaration is wrong too",
    ),
    Mutant(
        name="passes errors on by demand",
        verification=verified(ErrorOnDemand),
        fails={"r4_02_error_is_passed_on_at_once"},
        says="rule 4.2: an error from upstream was not passed on",
    ),
    Mutant(
        name="passes another error on",
        verification=verified(OtherError),
        fails={"r4_02_error_is_passed_on_at_once"},
        says="rule 4.2: SignalledError('the publisher fails') from upstream was passed on as",
    ),
    Mutant(
        name="goes on with a failed upstream",
        verification=verified(GoesOnAfterError, recovers=True),
        fails={"r4_02_error_is_passed_on_at_once", "r2_04_no_request_after_on_error"},
        says="on_error",
        why="who recovers has to consider the subscription cancelled, as each subscriber has to",
    ),
    Mutant(
        name="an error for the first subscriber only",
        verification=fan(ErrorForFirst),
        fails={"r1_04_error_reaches_all_subscribers"},
        says="rule 1.4: an error did not reach a subscriber without demand",
    ),
    Mutant(
        name="stops requesting for two subscribers",
        verification=fan(StopsEarly),
        fails={"r2_01_demand_goes_on_upstream"},
        says="rule 2.1: of 20 elements that a subscriber requested only 10 were requested upstream",
    ),
]
