"""Each operator beside a plain list: exact elements, in order, at most as many as requested."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.reactive_streams import (
    MAX_DEMAND,
    Broadcast,
    Relay,
    empty,
    from_iterable,
    just,
    pipe,
)
from rsocket_trio.reactive_streams import operators as ops
from tests.reactive_streams.operators.models import DEMANDS, NUMBERS, Counting, check_against
from tests.reactive_streams.recording import Failing, Recorder


def is_odd(number):
    return number % 2


def twice(number):
    return just(number, -number) if number % 3 else empty()


@given(NUMBERS, DEMANDS)
def test_map(numbers, demands):
    """One result for each element; the demand is that of the subscriber."""
    check_against(
        [n + 1 for n in numbers], pipe(Counting(numbers), ops.map(lambda n: n + 1)), demands
    )


@given(NUMBERS, DEMANDS)
def test_filter(numbers, demands):
    """The elements that are wanted; the source gives no element that nobody has requested."""
    source = Counting(numbers)
    recorder = Recorder()
    pipe(source, ops.filter(is_odd)).subscribe(recorder)
    for demand in demands:
        recorder.request(demand)
    dropped = source.taken - len(recorder.elements)
    bounded = [each for each in demands if each < MAX_DEMAND]
    if bounded == demands and not recorder.terminals:
        assert source.requested == sum(demands) + dropped
    check_against(
        [n for n in numbers if n % 2], pipe(Counting(numbers), ops.filter(is_odd)), demands
    )


@given(NUMBERS, DEMANDS, st.integers(0, 12))
def test_take(numbers, demands, count):
    """The first elements; the source is never asked for more, and cancelled after the last one."""
    source = Counting(numbers)
    check_against(numbers[:count], pipe(source, ops.take(count)), demands)
    assert source.requested <= count
    assert source.taken <= count
    assert source.cancelled == (count <= len(numbers))


@given(NUMBERS, DEMANDS)
def test_three_operators(numbers, demands):
    """Several operators count as one."""
    wanted = [2 * n for n in numbers if (n + 1) % 2][:5]
    operators = (
        ops.map(lambda n: n + 1),
        ops.filter(is_odd),
        ops.map(lambda n: 2 * (n - 1)),
        ops.take(5),
    )
    check_against(wanted, pipe(Counting(numbers), *operators), demands)


@given(NUMBERS, DEMANDS, st.integers(1, 6))
def test_buffer_that_waits(numbers, demands, capacity):
    """Nothing is lost, and at most the capacity is requested ahead."""
    source = Counting(numbers)
    recorder = Recorder()
    pipe(source, ops.buffer(capacity, ops.Overflow.WAIT)).subscribe(recorder)
    assert source.requested == capacity
    for demand in demands:
        recorder.request(demand)
        assert source.requested - len(recorder.elements) <= capacity
    check_against(
        numbers, pipe(Counting(numbers), ops.buffer(capacity, ops.Overflow.WAIT)), demands
    )


@given(NUMBERS, DEMANDS, st.integers(1, 6))
def test_batch(numbers, demands, size):
    """Lists of the size, and one that is shorter at the end."""
    source = Counting(numbers)
    wanted = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    recorder = Recorder()
    pipe(source, ops.batch(size)).subscribe(recorder)
    total = 0
    for demand in demands:
        total += demand
        recorder.request(demand)
        if total < MAX_DEMAND and not recorder.terminals:
            assert source.requested == total * size
        # The generator tells its end only when one more element is requested.
        assert recorder.elements == wanted[:total] or total * size == len(numbers)
    if not recorder.terminals:
        recorder.request(MAX_DEMAND)
    assert recorder.elements == wanted
    assert recorder.terminals == ["complete"]


@given(st.lists(NUMBERS, max_size=6), DEMANDS)
def test_concat(lists, demands):
    """All elements of each publisher, one publisher after the other."""
    wanted = list(chain(*lists))
    check_against(wanted, ops.concat(*(from_iterable(each) for each in lists)), demands)
    sources = [Counting(each) for each in lists]
    recorder = Recorder()
    ops.concat(*sources).subscribe(recorder)
    for demand in demands:
        recorder.request(demand)
    assert sum(each.taken for each in sources) == len(recorder.elements)


@given(st.lists(NUMBERS, max_size=6), DEMANDS, st.integers(1, 5))
def test_merge(lists, demands, prefetch):
    """All elements of each publisher, each publisher's in order, and at most so many ahead."""
    sources = [Counting([(which, n) for n in each]) for which, each in enumerate(lists)]
    recorder = Recorder()
    ops.merge(*sources, prefetch=prefetch).subscribe(recorder)
    for demand in demands:
        recorder.request(demand)
        for which, source in enumerate(sources):
            mine = [n for owner, n in recorder.elements if owner == which]
            assert mine == lists[which][: len(mine)]
            assert source.requested - len(mine) <= prefetch
    wanted = list(chain(*lists))
    publishers = [from_iterable(each) for each in lists]
    check_against(wanted, ops.merge(*publishers, prefetch=prefetch), demands, ordered=False)


@given(NUMBERS, DEMANDS, st.integers(1, 4), st.integers(1, 4))
def test_flat_map(numbers, demands, concurrency, prefetch):
    """The elements of the publishers of all elements; one at a time keeps their order."""
    wanted = [m for n in numbers if n % 3 for m in (n, -n)]
    operator = ops.flat_map(twice, concurrency, prefetch=prefetch)
    source = Counting(numbers)
    check_against(wanted, pipe(source, operator), demands, ordered=concurrency == 1)
    assert source.requested <= len(numbers) + concurrency


@given(NUMBERS, DEMANDS, st.integers(0, 4))
def test_retry(numbers, demands, failures):
    """The elements of each attempt, until one is complete."""
    attempts = 0

    def source():
        nonlocal attempts
        attempts += 1
        yield from numbers
        if attempts <= failures:
            raise ValueError("it fails")

    wanted = numbers * (failures + 1)
    recorder = Recorder()
    pipe(from_iterable(source), ops.retry(failures)).subscribe(recorder)
    total = 0
    for demand in demands:
        total += demand
        recorder.request(demand)
        assert recorder.elements == wanted[:total]
    if not recorder.terminals:
        recorder.request(MAX_DEMAND)
    assert recorder.elements == wanted
    assert recorder.terminals == ["complete"]


@given(NUMBERS, DEMANDS, st.booleans())
def test_relay(numbers, demands, subscribed_first):
    """A relay is the identity, whichever side comes first."""

    class Through:
        def subscribe(self, subscriber):
            relay = Relay()
            if subscribed_first:
                relay.subscribe(subscriber)
            from_iterable(numbers).subscribe(relay)
            if not subscribed_first:
                relay.subscribe(subscriber)

    check_against(numbers, Through(), demands)


@given(
    st.lists(st.integers(0, 9), max_size=20),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6)), max_size=20),
    st.integers(1, 8),
)
def test_broadcast(numbers, requests, capacity):
    """All subscribers get the same; the slowest one decides how far the source is."""
    shared = Broadcast(capacity)
    recorders = [Recorder() for _ in range(3)]
    for recorder in recorders:
        shared.subscribe(recorder)
    source = Counting(numbers)
    source.subscribe(shared)
    totals = [0, 0, 0]
    for which, n in requests:
        totals[which] += n
        recorders[which].request(n)
        for recorder in recorders:
            assert recorder.elements == numbers[: min(totals)]
        if not recorders[0].terminals:
            assert source.requested == min(totals)
    for recorder in recorders:
        if not recorder.terminals:
            recorder.request(MAX_DEMAND)
    for recorder in recorders:
        assert recorder.signals == ["subscribe", *numbers, "complete"]


OPERATORS = {
    "map": ops.map(lambda n: n),
    "filter": ops.filter(lambda n: True),
    "take": ops.take(100),
    "buffer": ops.buffer(100),
    "buffer that waits": ops.buffer(3, ops.Overflow.WAIT),
    "batch": ops.batch(1),
    "concat": ops.concat,
    "merge": ops.merge,
    "flat_map": ops.flat_map(just),
    "retry": ops.retry(3, when=lambda error: False),
}


@pytest.mark.parametrize("name", OPERATORS)
@given(st.integers(0, 20), st.integers(0, 30))
def test_cancel_ends_everything(name, number, count):
    """After cancel nothing is signalled, and the source is cancelled or at its end."""
    source = Counting(range(count))
    recorder = Recorder()
    pipe(source, OPERATORS[name]).subscribe(recorder)
    if number:
        recorder.request(number)
    before = list(recorder.signals)
    recorder.cancel()
    recorder.cancel()
    recorder.request(5)
    recorder.request(0)
    assert recorder.signals == before
    assert source.cancelled == (recorder.terminals == [] and source.taken < count + 1) or (
        source.cancelled == 0 and source.taken == count
    )


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("demand", [0, 3])
def test_an_error_passes_at_once(name, demand):
    """The error of a source reaches the subscriber without demand."""
    error = ValueError("the source fails")
    recorder = Recorder(demand)
    pipe(_failed_after(error), OPERATORS[name]).subscribe(recorder)
    assert recorder.terminals == [error]
    assert recorder.signals[-1] is error


def _failed_after(error):
    class Failed:
        def subscribe(self, subscriber):
            class Nothing:
                def request(self, n):
                    pass

                def cancel(self):
                    raise AssertionError("it has ended")

            subscriber.on_subscribe(Nothing())
            subscriber.on_error(error)

    return Failed()


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("wrong", [0, -1, -(2**80), 1.5, None, "3"])
@pytest.mark.parametrize("when", ["on_subscribe", "on_next", "later"])
def test_a_wrong_request_ends_it(name, wrong, when):
    """The subscriber gets a ValueError or TypeError behind the running signal (rule 3.9)."""

    class Wrong(Recorder):
        def on_subscribe(self, subscription):
            super().on_subscribe(subscription)
            if when == "on_subscribe":
                subscription.request(wrong)
                assert self.signals == ["subscribe"]

        def on_next(self, element):
            super().on_next(element)
            if when == "on_next":
                self.subscription.request(wrong)
                assert self.terminals == []

    source = Counting(range(10))
    recorder = Wrong()
    pipe(source, OPERATORS[name]).subscribe(recorder)
    if when == "on_next":
        recorder.request(3)
        assert len(recorder.elements) == 1
    elif when == "later":
        recorder.request(wrong)
    (error,) = recorder.terminals
    assert isinstance(error, ValueError if isinstance(wrong, int) else TypeError)
    assert "3.9" in str(error)
    before = source.taken
    recorder.request(5)
    assert source.taken == before
    assert recorder.deepest == 1


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("signal", ["on_subscribe", "on_next", "on_error", "on_complete"])
def test_a_subscriber_that_raises_harms_only_itself(name, signal, caplog):
    """Nothing is raised, the source is cancelled, and the error is in the log (rule 2.13)."""
    source = Counting(range(5), ValueError("it fails") if signal == "on_error" else None)
    failing = Failing(signal)
    publisher = pipe(source, OPERATORS[name])
    publisher.subscribe(failing)
    assert [record.exc_info[1].args for record in caplog.records] == [(f"hostile {signal}",)]
    if signal in {"on_subscribe", "on_next"}:
        assert len(failing.signals) == 1 + (signal == "on_next")
        assert source.cancelled or source.taken == 5 or not source.subscribed
    other = Recorder(MAX_DEMAND)
    publisher.subscribe(other)
    assert len(other.elements) == 5


@pytest.mark.parametrize("name", OPERATORS)
def test_a_second_subscription_is_cancelled(name):
    """The first one goes on (rule 2.5)."""
    from tests.reactive_streams.recording import ByHand, Requests

    by_hand = ByHand()
    recorder = Recorder(1)
    pipe(by_hand, OPERATORS[name]).subscribe(recorder)
    second = Requests()
    by_hand.subscriber.on_subscribe(second)
    assert second.cancelled == 1
    assert second.requested == []
    assert by_hand.subscription.cancelled == 0
    by_hand.subscriber.on_complete()
    third = Requests()
    by_hand.subscriber.on_subscribe(third)
    assert third.cancelled == 1


@pytest.mark.parametrize("name", OPERATORS)
def test_none_is_a_type_error(name):
    """It is raised to the caller (rules 1.9, 2.13)."""
    from tests.reactive_streams.recording import ByHand

    publisher = pipe(by_hand := ByHand(), OPERATORS[name])
    with pytest.raises(TypeError):
        publisher.subscribe(None)
    publisher.subscribe(Recorder(1))
    for signal in ("on_subscribe", "on_next", "on_error"):
        with pytest.raises(TypeError):
            getattr(by_hand.subscriber, signal)(None)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_source_that_raises_from_subscribe_has_failed(name):
    """The subscriber gets on_subscribe and on_error (rule 1.9)."""

    class Raises:
        def subscribe(self, subscriber):
            raise LookupError("no such source")

    recorder = Recorder(1)
    pipe(Raises(), OPERATORS[name]).subscribe(recorder)
    assert recorder.signals[0] == "subscribe"
    assert isinstance(recorder.signals[1], LookupError)
    assert len(recorder.signals) == 2


@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_no_publisher_is_refused(name):
    """The mistake is found where the publisher is made."""
    with pytest.raises(TypeError):
        OPERATORS[name](3)


def test_a_function_of_elements_is_no_operator():
    """The text says where such a function belongs."""
    with pytest.raises(TypeError, match=r"'str'> is no operator: .*go into map\(\) or filter\(\)$"):
        pipe(from_iterable([1]), str)
