"""The functions of users, and what buffers drop.

Modules of rsocket_trio.reactive_streams.operators: mapping, filtering, flattening, buffering.
"""

from __future__ import annotations

import pytest

from rsocket_trio.reactive_streams import TooManyElements, from_iterable, just, pipe
from rsocket_trio.reactive_streams import operators as ops
from tests.reactive_streams.operators.models import Counting
from tests.reactive_streams.recording import ByHand, Recorder


def divide(number):
    return 6 // number


@pytest.mark.parametrize(
    "operator",
    [
        ops.map(divide),
        ops.filter(divide),
        ops.flat_map(lambda number: just(divide(number))),
        ops.retry(3, when=divide),
    ],
)
def test_a_function_that_raises_ends_the_stream(operator):
    """The source is cancelled, and the subscriber gets the exception (rule 1.4)."""
    source = Counting([3, 0, 1, 2], ValueError("it fails"))
    recorder = Recorder(10)
    pipe(source, operator).subscribe(recorder)
    (error,) = recorder.terminals
    if operator is not None and recorder.elements != [3, 0, 1, 2]:
        assert isinstance(error, ZeroDivisionError)
        assert len(recorder.elements) == 1
        assert source.cancelled == 1
    else:
        assert isinstance(error, TypeError)  # of `divide`, which got the error


@pytest.mark.parametrize("operator", [ops.map(lambda n: None), ops.flat_map(lambda n: None)])
def test_a_result_of_none_is_a_type_error(operator):
    """None is no element, and no publisher."""
    source = Counting([1, 2])
    recorder = Recorder(10)
    pipe(source, operator).subscribe(recorder)
    (error,) = recorder.terminals
    assert isinstance(error, TypeError)
    assert source.cancelled == 1
    assert source.taken == 1


def test_a_function_may_cancel():
    """What the function returns then is dropped, and the function not called again."""
    recorder = Recorder()
    called = []

    def function(number):
        called.append(number)
        recorder.cancel()
        return number

    for operator in (ops.map(function), ops.filter(function), ops.flat_map(just)):
        called.clear()
        recorder.__init__()
        pipe(Counting([1, 2, 3]), operator, ops.map(function)).subscribe(recorder)
        recorder.request(3)
        assert recorder.signals == ["subscribe"]


def test_a_function_that_cancels_gives_no_publisher():
    """flat_map does not subscribe to it: nobody would cancel that subscription."""
    recorder = Recorder(3)
    inner = ByHand()

    def function(number):
        recorder.cancel()
        return inner

    pipe(from_iterable(iter([1, 2])), ops.take(2), ops.flat_map(function)).subscribe(recorder)
    assert inner.subscriber is None
    assert recorder.signals == ["subscribe"]


@pytest.mark.parametrize("make", [ops.map, ops.filter, ops.flat_map])
def test_only_plain_functions_are_taken(make):
    """An async function would return something that nobody awaits."""

    async def function(_element):
        return 1

    for wrong in (3, None, function):
        with pytest.raises(TypeError):
            make(wrong)


@pytest.mark.parametrize(
    ("overflow", "kept", "dropped"),
    [
        (ops.Overflow.DROP_OLDEST, [3, 4], [0, 1, 2]),
        (ops.Overflow.DROP_NEWEST, [0, 1], [2, 3, 4]),
        (ops.Overflow.LATEST, [4], [0, 1, 2, 3]),
    ],
)
def test_a_full_buffer_drops(overflow, kept, dropped):
    """Which elements go is told by the strategy, and to the function."""
    by_hand = ByHand()
    recorder = Recorder()
    lost = []
    pipe(by_hand, ops.buffer(2, overflow, on_drop=lost.append)).subscribe(recorder)
    for element in range(5):
        by_hand.subscriber.on_next(element)
    by_hand.subscriber.on_complete()
    assert recorder.terminals == []
    recorder.request(10)
    assert recorder.elements == kept
    assert sorted(lost) == dropped
    assert recorder.terminals == ["complete"]
    assert by_hand.subscription.requested == [2**63 - 1]


def test_a_full_buffer_fails():
    """By default an element too many is an error, and the source is cancelled."""
    by_hand = ByHand()
    recorder = Recorder()
    pipe(by_hand, ops.buffer(2)).subscribe(recorder)
    for element in range(5):
        by_hand.subscriber.on_next(element)
    (error,) = recorder.terminals
    assert isinstance(error, ops.BufferOverflow)
    assert by_hand.subscription.cancelled == 1


def test_a_function_that_raises_over_a_dropped_element_ends_the_stream():
    """Its error is that of the stream."""
    by_hand = ByHand()
    recorder = Recorder()
    operator = ops.buffer(1, ops.Overflow.LATEST, on_drop=lambda element: 1 // 0)
    pipe(by_hand, operator).subscribe(recorder)
    by_hand.subscriber.on_next(1)
    by_hand.subscriber.on_next(2)
    assert isinstance(recorder.terminals[0], ZeroDivisionError)
    assert by_hand.subscription.cancelled == 1


@pytest.mark.parametrize(
    "operator",
    [ops.buffer(2, ops.Overflow.WAIT), ops.batch(2), ops.concat, ops.merge, ops.flat_map(just, 2)],
)
def test_more_than_was_requested_fills_no_memory(operator):
    """The source is cancelled, and the subscriber gets TooManyElements (rule 1.1)."""
    if operator is ops.merge:
        operator = lambda source: ops.merge(source, prefetch=2)  # noqa: E731 - one line is enough
    by_hand = ByHand()
    recorder = Recorder()
    pipe(by_hand, operator).subscribe(recorder)
    for element in range(100):
        by_hand.subscriber.on_next(element)
    if recorder.terminals:
        assert isinstance(recorder.terminals[0], TooManyElements)
        assert by_hand.subscription.cancelled == 1
    else:  # flat_map: each of the two publishers has room
        assert sum(by_hand.subscription.requested) >= 100


def test_an_error_of_one_publisher_cancels_the_others():
    """In a merge all others are cancelled, and what waits is dropped."""
    hands = [ByHand() for _ in range(3)]
    recorder = Recorder(first=1)
    ops.merge(*hands).subscribe(recorder)
    hands[0].subscriber.on_next("sent")
    hands[0].subscriber.on_next("dropped")
    error = ValueError("it fails")
    hands[1].subscriber.on_error(error)
    assert recorder.signals == ["subscribe", "sent", error]
    assert [each.subscription.cancelled for each in hands] == [1, 0, 1]
    hands[2].subscriber.on_next("late")
    assert recorder.signals == ["subscribe", "sent", error]


def test_nothing_is_requested_before_the_first_demand():
    """`merge` subscribes to all at once, and no source makes an element that nobody wants."""
    hands = [ByHand() for _ in range(2)]
    outer, merged, flattened = ByHand(), Recorder(), Recorder()
    ops.merge(*hands, prefetch=8).subscribe(merged)
    ops.flat_map(just, 4)(outer).subscribe(flattened)
    assert [hand.subscription.requested for hand in (*hands, outer)] == [[], [], []]
    merged.request(1)
    flattened.request(1)
    assert [hand.subscription.requested for hand in (*hands, outer)] == [[8], [8], [4]]


def test_publishers_take_turns():
    """An inner publisher with many elements does not starve the others."""
    recorder = Recorder(6)
    ops.merge(*(from_iterable([which] * 100) for which in "abc")).subscribe(recorder)
    recorder.elements.clear()
    recorder.request(6)
    assert sorted(recorder.elements) == list("aabbcc")


def test_flat_map_has_at_most_so_many_publishers():
    """The next one is made when one has ended."""
    hands = []

    def make(_element):
        hands.append(ByHand())
        return hands[-1]

    source = Counting(range(10))
    recorder = Recorder(100)
    pipe(source, ops.flat_map(make, 3, prefetch=8)).subscribe(recorder)
    assert (len(hands), source.requested) == (3, 3)
    assert [each.subscription.requested for each in hands] == [[8]] * 3
    hands[1].subscriber.on_next("x")
    hands[1].subscriber.on_next("y")
    assert hands[1].subscription.requested == [8, 2]
    hands[1].subscriber.on_complete()
    assert (len(hands), source.requested) == (4, 4)
    assert recorder.elements == ["x", "y"]
