"""Subscribers that break a rule (2.1 to 2.13, 3.8, 3.10, 3.11)."""

from __future__ import annotations

from typing import Any

from rsocket_trio.reactive_streams.tck import SubscriberVerification, verify_subscriber
from tests.reactive_streams.tck.mutants.table import Mutant
from tests.reactive_streams.tck.reference import Obedient, Taker


def verified(cls: type[Taker], **hooks: Any) -> type[SubscriberVerification]:
    """The verification of a subscriber: one that is told to request, if it is `Obedient`."""
    made = {"subscriber": lambda: cls(), "limited": cls, "trigger_cancel": lambda s: s.cancel()}
    if issubclass(cls, Obedient):
        made["trigger_request"] = lambda s, n: s.request(n)
    return verify_subscriber(**{**made, **hooks})


class NeverRequests(Taker):
    def begin(self) -> None:
        pass


class RequestsZero(Taker):
    def begin(self) -> None:
        self.request(0)


class CancelsInOnComplete(Taker):
    def on_complete(self) -> None:
        self.cancel()


class RequestsInOnError(Taker):
    def on_error(self, error: Any) -> None:
        self.none(error)
        self.request(1)
        self.over = True


class TriesAgain(Taker):
    """It subscribes again in on_error."""

    def __init__(self, publisher: Any) -> None:
        super().__init__()
        self.publisher = publisher

    def on_error(self, error: Any) -> None:
        super().on_error(error)
        self.publisher.subscribe(self)


class GoesOnAfterComplete(Obedient):
    def on_complete(self) -> None:
        pass


class GoesOnAfterError(Obedient):
    def on_error(self, error: Any) -> None:
        self.none(error)


class IgnoresSecond(Taker):
    def second(self, subscription: Any) -> None:
        pass


class TakesSecond(Taker):
    def second(self, subscription: Any) -> None:
        subscription.request(1)
        subscription.cancel()


class PrefersSecond(Taker):
    def second(self, subscription: Any) -> None:
        self.subscription.cancel()
        subscription.cancel()


class ForgetsToCancel(Taker):
    def enough(self) -> None:
        self.over = True


class RaisesAfterCancel(Taker):
    def on_next(self, element: Any) -> None:
        if self.over and self.limit is None and element is not None:
            raise RuntimeError("it is cancelled")
        super().on_next(element)


class NoEndWithDemand(Obedient):
    def on_complete(self) -> None:
        super().on_complete()
        if self.owed:
            raise RuntimeError("there were too few elements")


class NoEndWithoutDemand(Obedient):
    asked = False

    def request(self, n: int) -> None:
        self.asked = True
        super().request(n)

    def on_complete(self) -> None:
        super().on_complete()
        if not self.asked:
            raise RuntimeError("nothing was requested")


class NoErrorWithDemand(Obedient):
    def on_error(self, error: Any) -> None:
        super().on_error(error)
        if self.owed:
            raise RuntimeError("there were too few elements")


class NoErrorWithoutDemand(Obedient):
    asked = False

    def request(self, n: int) -> None:
        self.asked = True
        super().request(n)

    def on_error(self, error: Any) -> None:
        super().on_error(error)
        if not self.asked:
            raise RuntimeError("nothing was requested")


class RaisesForAnElement(Obedient):
    def on_next(self, element: Any) -> None:
        if element == 4:
            raise RuntimeError("it does not like 4")
        super().on_next(element)


class NoneInOnSubscribe(Taker):
    def on_subscribe(self, subscription: Any) -> None:
        if subscription is not None:
            super().on_subscribe(subscription)


class NoneInOnNext(Taker):
    def on_next(self, element: Any) -> None:
        if element is not None:
            super().on_next(element)


class NoneInOnError(Taker):
    def on_error(self, error: Any) -> None:
        if error is None:
            raise AttributeError("None has no text")
        super().on_error(error)


class NotInsideRequest(Taker):
    requesting = False
    forbidden = "on_next"

    def request(self, n: int) -> None:
        self.requesting = True
        try:
            super().request(n)
        finally:
            self.requesting = False

    def refuse(self, signal: str) -> None:
        if self.requesting and signal == self.forbidden:
            raise RuntimeError("request has not returned")

    def on_next(self, element: Any) -> None:
        self.refuse("on_next")
        super().on_next(element)

    def on_complete(self) -> None:
        self.refuse("on_complete")
        super().on_complete()


class NoEndInsideRequest(NotInsideRequest):
    forbidden = "on_complete"


INSIDE = "in the test of rule 3.11 the end comes while its request is not satisfied"

MUTANTS = [
    Mutant(
        name="a trigger_cancel without effect",
        verification=verified(Taker, trigger_cancel=lambda _: None),
        fails={"setup_request_elements_and_cancel"},
        says="trigger_cancel did not cancel the subscription",
    ),
    Mutant(
        name="never requests",
        verification=verified(NeverRequests),
        fails={"r2_01_demand_is_signalled"},
        says="rule 2.1: after on_subscribe the subscriber requested nothing",
    ),
    Mutant(
        name="requests zero",
        verification=verified(RequestsZero),
        fails={"r2_01_demand_is_signalled"},
        says="rule 2.1: the subscriber called request(0)",
    ),
    Mutant(
        name="cancels in on_complete",
        verification=verified(CancelsInOnComplete),
        fails={"r2_03_on_complete_calls_nothing"},
        says="rule 2.3: on_complete called cancel() of its subscription",
    ),
    Mutant(
        name="requests in on_error",
        verification=verified(RequestsInOnError),
        fails={"r2_03_on_error_calls_nothing"},
        says="rule 2.3: on_error called request(1) of its subscription",
    ),
    Mutant(
        name="subscribes again in on_error",
        verification=verify_subscriber(lambda publisher: TriesAgain(publisher)),
        fails={"r2_03_on_error_calls_nothing"},
        says="rule 2.3: on_error called subscribe of the publisher",
    ),
    Mutant(
        name="requests after on_complete",
        verification=verified(GoesOnAfterComplete),
        fails={"r2_04_no_request_after_on_complete"},
        says="rule 2.4: after on_complete the subscriber requested [1]",
    ),
    Mutant(
        name="requests after on_error",
        verification=verified(GoesOnAfterError),
        fails={"r2_04_no_request_after_on_error"},
        says="rule 2.4: after on_error the subscriber requested [1]",
    ),
    Mutant(
        name="ignores a second subscription",
        verification=verified(IgnoresSecond),
        fails={"r2_05_second_subscription_is_cancelled"},
        says="rule 2.5: a second subscription was not cancelled",
    ),
    Mutant(
        name="requests from a second subscription",
        verification=verified(TakesSecond),
        fails={"r2_05_second_subscription_is_cancelled"},
        says="rule 2.5: the subscriber requested [1] of a second subscription",
    ),
    Mutant(
        name="cancels the first subscription too",
        verification=verified(PrefersSecond),
        fails={"r2_05_second_subscription_is_cancelled"},
        says="rule 2.5: a second subscription made the subscriber cancel its first one",
    ),
    Mutant(
        name="does not cancel what it no longer needs",
        verification=verified(ForgetsToCancel),
        unmet={"r2_06_cancels_what_it_no_longer_needs"},
        says="rule 2.6: a subscriber that needs 2 elements did not cancel",
    ),
    Mutant(
        name="on_next raises after cancel",
        verification=verified(RaisesAfterCancel),
        fails={"r2_08_elements_after_cancel_are_tolerated"},
        says="rule 2.8: on_next after cancel() raised RuntimeError",
    ),
    Mutant(
        name="on_complete raises while there is demand",
        verification=verified(NoEndWithDemand),
        fails={"r2_09_on_complete_after_a_request"},
        unmet={"r3_11_end_inside_of_request"},
        says="RuntimeError('there were too few elements')",
        why=INSIDE,
    ),
    Mutant(
        name="on_complete raises if nothing was requested",
        verification=verified(NoEndWithoutDemand),
        fails={"r2_09_on_complete_without_a_request"},
        says="rule 2.9: on_complete right after on_subscribe raised RuntimeError",
    ),
    Mutant(
        name="on_error raises while there is demand",
        verification=verified(NoErrorWithDemand),
        fails={"r2_10_on_error_after_a_request"},
        unmet={"r3_11_end_inside_of_request"},
        says="RuntimeError('there were too few elements')",
        why=INSIDE,
    ),
    Mutant(
        name="on_error raises if nothing was requested",
        verification=verified(NoErrorWithoutDemand),
        fails={"r2_10_on_error_without_a_request"},
        says="rule 2.10: on_error right after on_subscribe raised RuntimeError",
    ),
    Mutant(
        name="on_next raises for an element",
        verification=verified(RaisesForAnElement),
        fails={"r2_13_signals_return_normally"},
        says="rule 2.13: on_next raised RuntimeError('it does not like 4')",
    ),
    Mutant(
        name="takes None for a subscription",
        verification=verified(NoneInOnSubscribe),
        fails={"r2_13_on_subscribe_of_none_is_a_type_error"},
        says="rule 2.13: on_subscribe(None) has to raise TypeError, and returned",
    ),
    Mutant(
        name="takes None for an element",
        verification=verified(NoneInOnNext),
        fails={"r2_13_on_next_of_none_is_a_type_error"},
        says="rule 2.13: on_next(None) has to raise TypeError, and returned",
    ),
    Mutant(
        name="AttributeError for an error that is None",
        verification=verified(NoneInOnError),
        fails={"r2_13_on_error_of_none_is_a_type_error"},
        says="rule 2.13: on_error(None) has to raise TypeError, and raised AttributeError",
    ),
    Mutant(
        name="requests one element of two",
        verification=verified(Obedient, trigger_request=lambda s, _n: s.request(1)),
        fails={"r3_08_all_that_is_wanted_is_requested"},
        says="rule 3.8: 2 elements were wanted, and only 1 requested",
    ),
    Mutant(
        name="on_next raises inside of request",
        verification=verified(NotInsideRequest),
        unmet={"r3_10_elements_inside_of_request"},
        says="rule 3.10: on_next inside of request raised RuntimeError",
    ),
    Mutant(
        name="on_complete raises inside of request",
        verification=verified(NoEndInsideRequest),
        unmet={"r3_11_end_inside_of_request"},
        says="rule 3.11: on_complete inside of request raised RuntimeError",
    ),
]
