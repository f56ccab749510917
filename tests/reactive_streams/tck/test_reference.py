"""Correct publishers, subscribers and processors pass all tests of the kit."""

from __future__ import annotations

from typing import Any

from rsocket_trio.reactive_streams.tck import (
    ProcessorVerification,
    SubscriberVerification,
    verify_publisher,
)
from tests.reactive_streams.tck.reference import (
    Cold,
    Fan,
    Link,
    Obedient,
    Prefetching,
    Pump,
    Relay,
    Shared,
    Taker,
    then_fail,
)
from tests.reactive_streams.tck.running import run

TestCold = verify_publisher(
    lambda n: Cold(lambda: range(n)), failing=lambda n: Cold(lambda: then_fail(n))
)
TestColdOfFewElements = verify_publisher(lambda n: Cold(lambda: range(n)), max_elements=3)
TestColdInRealTime = verify_publisher(
    lambda n: Cold(lambda: range(n)), clock="real", settle_seconds=0.001
)
TestShared = verify_publisher(lambda n: Shared(lambda: range(n)), multicast=True)
TestPump = verify_publisher(
    lambda n, nursery: Pump(lambda: range(n), nursery),
    failing=lambda n, nursery: Pump(lambda: then_fail(n), nursery),
)


class Prompt(Link):
    """Signals inside of request() already while on_subscribe runs, as rule 3.2 allows."""

    def start(self) -> None:
        self.running = False
        super().start()


class ColdPrompt(Cold):
    link = Prompt


def test_elements_before_a_cancel_are_no_fault() -> None:
    """All came inside of the request() in on_subscribe, so the cancel behind it had no work."""
    verification = verify_publisher(lambda n: ColdPrompt(lambda: range(n)), max_elements=100)
    outcomes = run(verification)
    assert not outcomes.failed
    assert outcomes.undecided == {
        "test_r3_12_cancel_in_on_subscribe_stops_the_signals": "not decided: request() signalled"
        " all elements before the cancel, which tests of 1.3 judge"
    }


class TestTaker(SubscriberVerification):
    """It requests by itself."""

    limited = staticmethod(Taker)

    def subscriber(self) -> Taker:
        return Taker()

    def trigger_cancel(self, subscriber: Taker) -> None:
        subscriber.cancel()


class TestObedient(SubscriberVerification):
    """It requests when it is told to."""

    def subscriber(self) -> Obedient:
        return Obedient()

    def trigger_request(self, subscriber: Obedient, n: int) -> None:
        subscriber.request(n)

    def trigger_cancel(self, subscriber: Obedient) -> None:
        subscriber.cancel()


class TestSubscriberOfATask(SubscriberVerification):
    """A task of the factory subscribes to the publisher that it gets."""

    def subscriber(self, publisher: Any, nursery: Any) -> None:
        async def subscribe() -> None:
            publisher.subscribe(Taker())

        nursery.start_soon(subscribe)


class TestRelay(ProcessorVerification):
    subscribers = "one"
    buffer_size = 0

    def processor(self) -> Relay:
        return Relay()


class TestPrefetching(ProcessorVerification):
    subscribers = "one"
    buffer_size = Prefetching.size

    def processor(self) -> Prefetching:
        return Prefetching()


class TestFan(ProcessorVerification):
    buffer_size = 0
    coordinated = True
    multicast = True

    def processor(self) -> Fan:
        return Fan()
