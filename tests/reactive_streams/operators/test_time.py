"""Operators with a nursery: throttle, batch with seconds, retry with waits. The time is virtual.

Modules of rsocket_trio.reactive_streams.operators: timers, throttling, batching, retrying.
"""

from __future__ import annotations

from itertools import pairwise

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from rsocket_trio.protocol.budget import Budget
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.reactive_streams import (
    SourceClosed,
    from_async_iterable,
    from_channel,
    from_iterable,
    never,
    pipe,
)
from rsocket_trio.reactive_streams import operators as ops
from tests.reactive_streams.recording import ByHand, Recorder

WAITS = Retry(initial_delay=1, factor=2, jitter=0)


class Timed(Recorder):
    """Notes the time of each element."""

    def __init__(self, first=0, more=0):
        super().__init__(first, more)
        self.times = []

    def on_next(self, element):
        self.times.append(trio.current_time())
        super().on_next(element)


def operators(nursery):
    return {
        "throttle": ops.throttle(1, nursery),
        "batch": ops.batch(3, 1, nursery),
        "retry": ops.retry(backoff=WAITS, nursery=nursery),
    }


NAMES = ["throttle", "batch", "retry"]


async def test_a_budget_bounds_all_subscribers_of_retry(nursery, autojump_clock):
    """With a source that always fails, five subscribers share three attempts in a second."""
    budget = Budget(ratio=0, per_second=3)
    again = ops.retry(backoff=Retry(jitter=0), nursery=nursery, budget=budget)
    attempts = []

    async def failing():
        attempts.append(trio.current_time())
        raise ValueError
        yield

    recorders = [Recorder(1) for _ in range(5)]
    for recorder in recorders:
        pipe(from_async_iterable(failing, nursery), again).subscribe(recorder)
    await trio.sleep(60)
    assert len(attempts) == 8
    assert all(len(recorder.terminals) == 1 for recorder in recorders)


async def test_what_hands_on_elements_earns(nursery, autojump_clock):
    """A source that fails after each element is subscribed to again without an end."""
    again = ops.retry(
        backoff=Retry(jitter=0), nursery=nursery, budget=Budget(ratio=1, per_second=1)
    )

    async def failing():
        yield 1
        raise ValueError

    recorder = Recorder(50)
    pipe(from_async_iterable(failing, nursery), again).subscribe(recorder)
    await trio.sleep(60)
    assert len(recorder.elements) == 50


async def test_throttle_leaves_time_between_elements(nursery, autojump_clock):
    """The first element comes at once, each other one an interval later, and none is lost."""
    began = trio.current_time()
    recorder = Timed(100)
    pipe(from_iterable(range(5)), ops.throttle(2, nursery)).subscribe(recorder)
    await wait_all_tasks_blocked()
    assert recorder.elements == [0]
    await trio.sleep(60)
    assert recorder.elements == [0, 1, 2, 3, 4]
    assert [time - began for time in recorder.times] == pytest.approx([0, 2, 4, 6, 8])
    assert recorder.terminals == ["complete"]


async def test_throttle_requests_one_at_a_time(nursery, autojump_clock):
    """The source is asked for the next element in time; a slow source is not slowed down."""
    by_hand = ByHand()
    recorder = Recorder(10)
    pipe(by_hand, ops.throttle(2, nursery)).subscribe(recorder)
    assert by_hand.subscription.requested == [1]
    by_hand.subscriber.on_next("a")
    await trio.sleep(1.9)
    assert by_hand.subscription.requested == [1]
    await trio.sleep(5)
    assert by_hand.subscription.requested == [1, 1]
    by_hand.subscriber.on_next("b")
    by_hand.subscriber.on_next("c")  # Nobody has requested it (rule 1.1).
    assert recorder.elements == ["a", "b"]
    assert len(recorder.terminals) == 1
    assert by_hand.subscription.cancelled == 1


async def test_a_batch_leaves_when_its_first_element_has_waited(nursery, autojump_clock):
    """By count at once, by time otherwise."""
    by_hand = ByHand()
    recorder = Timed(10)
    began = trio.current_time()
    pipe(by_hand, ops.batch(3, 1, nursery)).subscribe(recorder)
    assert by_hand.subscription.requested == [30]
    for element in range(4):
        by_hand.subscriber.on_next(element)
    await trio.sleep(0.9)
    assert recorder.elements == [[0, 1, 2]]
    by_hand.subscriber.on_next(4)
    await trio.sleep(0.2)
    assert recorder.elements == [[0, 1, 2], [3, 4]]
    assert recorder.times[1] - began == pytest.approx(1)
    await trio.sleep(5)
    by_hand.subscriber.on_next(5)
    by_hand.subscriber.on_complete()
    assert recorder.elements == [[0, 1, 2], [3, 4], [5]]
    assert recorder.terminals == ["complete"]


async def test_a_batch_that_is_due_waits_for_demand_and_grows(nursery, autojump_clock):
    """At most one batch waits, and demand is made up for by exactly what is missing."""
    by_hand = ByHand()
    recorder = Recorder(1)
    pipe(by_hand, ops.batch(3, 1, nursery)).subscribe(recorder)
    by_hand.subscriber.on_next(0)
    await trio.sleep(2)
    assert recorder.elements == [[0]]
    by_hand.subscriber.on_next(1)
    await trio.sleep(2)
    assert recorder.elements == [[0]]
    by_hand.subscriber.on_next(2)
    recorder.request(1)
    assert recorder.elements == [[0], [1, 2]]
    assert by_hand.subscription.requested == [3]
    recorder.request(1)
    assert sum(by_hand.subscription.requested) == 3 + 3


async def test_retry_waits_longer_each_time(nursery, autojump_clock):
    """The waits are those of the policy; then the last error is handed on."""
    times = []

    def source():
        times.append(trio.current_time())
        raise ValueError(f"attempt {len(times)}")
        yield

    recorder = Recorder(100)
    operator = ops.retry(3, backoff=WAITS, nursery=nursery)
    pipe(from_iterable(source), operator).subscribe(recorder)
    await trio.sleep(60)
    assert [time - times[0] for time in times] == pytest.approx([0, 1, 3, 7])
    (error,) = recorder.terminals
    assert str(error) == "attempt 4"


async def test_an_element_ends_a_row_of_failures(nursery, autojump_clock):
    """Behind it the waits, and the attempts that may fail in a row, begin anew; `times` does not.

    Otherwise a stream that fails once an hour waits for minutes after a day, and ends after some.
    """
    times = []

    def source():
        times.append(trio.current_time())
        if len(times) % 3 == 0:
            yield len(times)
        raise ValueError(f"attempt {len(times)}")

    in_a_row = attrs.evolve(WAITS, max_attempts=3)
    recorder = Recorder(100)
    operator = ops.retry(8, backoff=in_a_row, nursery=nursery)
    pipe(from_iterable(source), operator).subscribe(recorder)
    await trio.sleep(60)
    waits = [after - before for before, after in pairwise(times)]
    assert waits == pytest.approx([1, 2, 1, 2, 4, 1, 2, 4])
    assert recorder.elements == [3, 6, 9]
    (error,) = recorder.terminals
    assert str(error) == "attempt 9"


async def test_a_cancelled_retry_does_not_try_again(nursery, autojump_clock):
    """Who leaves while it waits is not signalled, and the source is not subscribed to."""
    attempts = []

    def source():
        attempts.append(1)
        raise ValueError("it fails")

    recorder = Recorder(1)
    pipe(from_iterable(source), ops.retry(backoff=WAITS, nursery=nursery)).subscribe(recorder)
    await trio.sleep(0.5)
    recorder.cancel()
    await trio.sleep(60)
    assert attempts == [1]
    assert recorder.signals == ["subscribe"]


async def test_the_last_error_is_told_when_the_nursery_ends_the_wait(autojump_clock):
    """Who waits gets the error for which it waits."""
    error = ValueError("it fails")

    def source():
        raise error

    recorder = Recorder(1)
    async with trio.open_nursery() as nursery:
        pipe(from_iterable(source), ops.retry(backoff=WAITS, nursery=nursery)).subscribe(recorder)
        await trio.sleep(0.5)
        nursery.cancel_scope.cancel()
    assert recorder.signals == ["subscribe", error]


@pytest.mark.parametrize("name", NAMES)
async def test_another_thread_is_an_error(name, nursery):
    """There the nursery cannot start the task of the operator."""
    recorder = Recorder(1)
    publisher = pipe(from_iterable([1]), operators(nursery)[name])
    await trio.to_thread.run_sync(publisher.subscribe, recorder)
    subscribed, error = recorder.signals
    assert subscribed == "subscribe"
    assert isinstance(error, SourceClosed)


@pytest.mark.parametrize("name", NAMES)
async def test_a_closed_nursery_is_an_error(name):
    """The subscriber gets on_subscribe and SourceClosed, and the source is cancelled (rule 1.9)."""
    async with trio.open_nursery() as nursery:
        pass
    by_hand = ByHand()
    recorder = Recorder(1)
    pipe(by_hand, operators(nursery)[name]).subscribe(recorder)
    subscribed, error = recorder.signals
    assert subscribed == "subscribe"
    assert isinstance(error, SourceClosed)
    assert by_hand.subscriber is None or by_hand.subscription.cancelled == 1


@pytest.mark.parametrize("name", NAMES)
async def test_a_cancelled_nursery_ends_the_subscription(name):
    """The subscriber gets SourceClosed, and the source is cancelled (rule 1.4)."""
    by_hand = ByHand()
    recorder = Recorder(1)
    async with trio.open_nursery() as nursery:
        pipe(by_hand, operators(nursery)[name]).subscribe(recorder)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    (error,) = recorder.terminals
    assert isinstance(error, SourceClosed)
    assert by_hand.subscription.cancelled == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["cancel", "complete", "error"])
async def test_the_task_ends_with_the_subscription(name, end):
    """The nursery does not wait for a subscription that is over."""
    by_hand = ByHand()
    recorder = Recorder(1)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            operator = operators(nursery)[name]
            if name == "retry":
                operator = ops.retry(backoff=WAITS, nursery=nursery, when=lambda error: False)
            pipe(by_hand, operator).subscribe(recorder)
            if end == "cancel":
                recorder.cancel()
            elif end == "complete":
                by_hand.subscriber.on_complete()
            else:
                by_hand.subscriber.on_error(ValueError("it fails"))
    assert len(recorder.terminals) == (end != "cancel")


async def test_the_arguments_are_checked(nursery):
    """Times are positive, and come with a nursery."""
    for seconds in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError):
            ops.throttle(seconds, nursery)
        with pytest.raises(ValueError):
            ops.batch(3, seconds, nursery)
    for wrong in (
        lambda: ops.batch(0),
        lambda: ops.batch(2, 1),
        lambda: ops.batch(2, nursery=nursery),
        lambda: ops.retry(),
        lambda: ops.retry(-1),
        lambda: ops.retry(1, backoff=WAITS),
        lambda: ops.retry(1, nursery=nursery),
    ):
        with pytest.raises(ValueError):
            wrong()
    for wrong, text in (
        (
            lambda: ops.throttle("a", nursery),
            r"the interval of throttle\(\) must be a number, not str",
        ),
        (lambda: ops.batch(2, "a", nursery), r"the seconds of batch\(\) must be a number, not str"),
        (lambda: ops.throttle(1, None), r"the nursery of throttle\(\) must be a trio.Nursery"),
        (lambda: ops.batch(2, 1, "n"), r"the nursery of batch\(\) must be a trio.Nursery, not str"),
        (lambda: ops.retry(backoff=WAITS, nursery=3), r"the nursery of retry\(\) must be"),
        (
            lambda: ops.retry(backoff=3, nursery=nursery),
            r"the backoff of retry\(\) must be a Retry",
        ),
        (lambda: from_async_iterable(never, "n"), r"the nursery of from_async_iterable\(\) must"),
        (lambda: from_channel(never, "n"), r"the nursery of from_channel\(\) must be"),
    ):
        with pytest.raises(TypeError, match=text):
            wrong()
    pipe(never(), ops.throttle(1, nursery))  # Without a subscriber there is no task.
