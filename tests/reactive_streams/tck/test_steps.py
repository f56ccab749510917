"""A call that never comes back fails its test, with the rule; the other tests are run."""

from __future__ import annotations

import signal
import threading

import pytest
import trio

from rsocket_trio.reactive_streams.tck import verify_publisher, verify_subscriber
from tests.reactive_streams.tck.reference import Cold
from tests.reactive_streams.tck.running import run

SECONDS = 0.02


class Counting:
    """A publisher that counts to the demand in a loop, and so never comes back."""

    def __init__(self, n, *, swallows=False):
        self.numbers = iter(range(n))
        self.swallows = swallows

    def subscribe(self, subscriber):
        if subscriber is None:
            raise TypeError("no subscriber")
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n):
        for _ in range(n):
            try:
                for number in self.numbers:
                    self.subscriber.on_next(number)
            except Exception:
                if not self.swallows:
                    raise

    def cancel(self):
        pass


class Looping(Cold):
    """A publisher of which one call is a loop without an end."""

    def subscribe(self, subscriber):
        for_ever()


def for_ever():
    while True:
        pass


@pytest.mark.parametrize("swallows", [False, True])
def test_a_publisher_that_counts_to_the_demand(swallows):
    """The failure names rule 3.17, the call, and where it was."""
    verification = verify_publisher(
        lambda n: Counting(n, swallows=swallows), completes=False, step_seconds=SECONDS
    )
    outcomes = run(verification, only="test_r3_17")
    assert outcomes.failed
    for text in outcomes.failed.values():
        assert "rule 3.17: request(" in text
        assert "does not come back" in text
        assert "Counting.request" in text
        assert "test_steps.py" in text


def test_a_subscribe_that_never_returns():
    """It breaks rule 1.9."""
    verification = verify_publisher(lambda n: Looping(lambda: range(n)), step_seconds=SECONDS)
    outcomes = run(verification, only="test_r1_01")
    assert all(
        "rule 1.9: subscribe(subscriber) does not" in each for each in outcomes.failed.values()
    )
    assert outcomes.failed


def test_a_task_that_lets_no_other_run():
    """It breaks rule 3.4, wherever it is."""

    class Starting(Cold):
        def subscribe(self, subscriber):
            self.nursery.start_soon(self.run)

        async def run(self):
            for_ever()

    def made(n, nursery):
        publisher = Starting(lambda: range(n))
        publisher.nursery = nursery
        return publisher

    outcomes = run(verify_publisher(made, step_seconds=SECONDS), only="test_r1_01")
    assert all("rule 3.4: a task does not come back" in each for each in outcomes.failed.values())
    assert outcomes.failed


def test_much_work_in_many_steps_is_no_violation():
    """Only a step without an end is: the whole test may take as long as it likes."""

    class Slow(Cold):
        def subscribe(self, subscriber):
            for _ in range(2000):
                pass
            super().subscribe(subscriber)

    async def busy(n):
        before = signal.getitimer(signal.ITIMER_VIRTUAL)[1]
        assert before == SECONDS
        for _ in range(300):
            sum(range(10_000))
            await trio.lowlevel.checkpoint()
        return Slow(lambda: range(n))

    outcomes = run(verify_publisher(busy, step_seconds=SECONDS), only="test_r1_01")
    assert outcomes.passed
    assert not outcomes.failed


def test_the_timer_is_put_back():
    """Whoever uses it, too, finds it as it was."""

    def ring(*_):
        raise AssertionError

    handler = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000, 500)
    try:
        run(verify_publisher(lambda n: Cold(lambda: range(n))), only="test_r1_01")
        assert signal.getsignal(signal.SIGVTALRM) is ring
        left, interval = signal.getitimer(signal.ITIMER_VIRTUAL)
        assert interval == pytest.approx(500)
        assert 900 < left <= 1001
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)


def test_another_thread_has_no_timer():
    """Signals belong to the main thread; elsewhere the kit works without a limit."""
    found = []
    thread = threading.Thread(
        target=lambda: found.append(
            run(verify_publisher(lambda n: Cold(lambda: range(n))), only="test_r1_01")
        )
    )
    thread.start()
    thread.join()
    assert found[0].passed
    assert not found[0].failed


class Stuck:
    """A subscriber whose on_next is a loop without an end."""

    def on_subscribe(self, subscription):
        subscription.request(1)

    def on_next(self, element):
        for_ever()


def test_a_subscriber_that_does_not_come_back_is_named():
    """It is no fault of a request."""
    verification = verify_subscriber(Stuck, step_seconds=SECONDS)
    (text,) = run(verification, only="test_setup").failed.values()
    assert "rule 2.2: on_next does not come back" in text
