"""Chains of any length work; where the stack is used up all the same, a typed error says so."""

from __future__ import annotations

import sys

import pytest
import trio
import trio.testing

from rsocket_trio.reactive_streams import (
    MAX_DEMAND,
    Broadcast,
    Relay,
    StackExhausted,
    as_processor,
    collect,
    empty,
    from_async_iterable,
    from_iterable,
    just,
    open_iter,
    pipe,
)
from rsocket_trio.reactive_streams import operators as ops
from rsocket_trio.reactive_streams.operators import joints
from tests.reactive_streams.recording import ByHand, Recorder


def same(element):
    return element


OPERATORS = {
    "map": ops.map(same),
    "filter": ops.filter(lambda _: True),
    "take": ops.take(100),
    "buffer": ops.buffer(100),
    "buffer that waits": ops.buffer(4, ops.Overflow.WAIT),
    "flat_map": ops.flat_map(just),
    "merge": ops.merge_with(empty()),
    "concat": ops.concat,
    "concat_with": ops.concat_with(empty()),
    "retry": ops.retry(0),
    "relay": lambda source: through(Relay(), source),
    "broadcast": lambda source: through(Broadcast(), source),
    "as_processor": lambda source: through(as_processor(ops.map(same)), source),
}
ERRORS_PASS_ELEMENTS = {"buffer", "buffer that waits", "flat_map", "merge"}
LENGTHS = [60, 200, 2000]


def through(processor, source):
    source.subscribe(processor)
    return processor


class Numbers:
    """Five numbers and an end; it notes that it is closed."""

    def __init__(self, error=None):
        self.error = error
        self.closed = 0

    def __call__(self):
        try:
            yield from range(5)
            if self.error is not None:
                raise self.error
        finally:
            self.closed += 1


async def over(recorder):
    with trio.fail_after(30):
        while not recorder.terminals:
            await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", OPERATORS)
async def test_a_chain_of_any_length_completes(name, length):
    """All elements come, one signal at a time."""
    numbers, recorder = Numbers(), Recorder()
    pipe(from_iterable(numbers), *[OPERATORS[name]] * length).subscribe(recorder)
    assert recorder.signals == ["subscribe"]
    recorder.request(2)
    recorder.request(MAX_DEMAND)
    await over(recorder)
    assert recorder.signals == ["subscribe", 0, 1, 2, 3, 4, "complete"]
    assert recorder.deepest == 1
    assert numbers.closed == 1


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", OPERATORS)
async def test_an_error_passes_a_chain_of_any_length(name, length):
    """The elements before it come first, unless an operator of the chain drops what waits."""
    error, recorder = ValueError("it fails"), Recorder(MAX_DEMAND)
    pipe(from_iterable(Numbers(error)), *[OPERATORS[name]] * length).subscribe(recorder)
    await over(recorder)
    assert recorder.terminals == [error]
    if name not in ERRORS_PASS_ELEMENTS:
        assert recorder.elements == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", OPERATORS)
async def test_cancel_passes_a_chain_of_any_length(name, length):
    """The source is closed when cancel returns."""
    numbers, recorder = Numbers(), Recorder(2)
    pipe(from_iterable(numbers), *[OPERATORS[name]] * length).subscribe(recorder)
    await trio.testing.wait_all_tasks_blocked()
    recorder.cancel()
    assert numbers.closed == 1
    recorder.request(1)
    await trio.testing.wait_all_tasks_blocked()
    assert recorder.signals == ["subscribe", *recorder.elements]


@pytest.mark.parametrize("length", LENGTHS)
async def test_timers_in_a_chain_of_any_length(length, autojump_clock):
    """Operators with tasks are no exception."""
    async with trio.open_nursery() as nursery:
        timed = [ops.throttle(0.1, nursery), ops.batch(1, 1, nursery), ops.map(sum)]
        chain = pipe(from_iterable([1, 2]), *timed * (length // 3))
        assert await collect(chain) == [1, 2]


def test_a_long_chain_outside_of_trio():
    """Without trio all signals come at once."""
    recorder = Recorder(MAX_DEMAND)
    pipe(from_iterable(range(1000)), *[ops.map(same)] * 2000).subscribe(recorder)
    assert recorder.signals == ["subscribe", *range(1000), "complete"]


def test_no_more_is_requested_than_is_demanded():
    """A joint asks for what its subscriber has requested, and for a window of it at a time."""
    by_hand, recorder = ByHand(), Recorder()
    pipe(by_hand, *[ops.map(same)] * 2 * joints.SPAN).subscribe(recorder)
    requested = by_hand.subscription.requested
    recorder.request(1)
    recorder.request(2)
    assert requested == [1, 2]
    recorder.request(MAX_DEMAND)
    assert sum(requested) == joints.WINDOW
    for number in range(sum(requested)):
        by_hand.subscriber.on_next(number)
    assert recorder.elements == [*range(joints.WINDOW)]
    assert joints.WINDOW < sum(requested) <= 2 * joints.WINDOW


def test_a_short_chain_has_no_joints():
    """So it costs nothing: the source gets the demand as it is."""
    by_hand, recorder = ByHand(), Recorder(MAX_DEMAND)
    pipe(by_hand, *[ops.map(same)] * (joints.SPAN - 1)).subscribe(recorder)
    assert by_hand.subscription.requested == [MAX_DEMAND]


@pytest.mark.parametrize("length", [12, 13, 40])
@pytest.mark.parametrize("requests", [[MAX_DEMAND], [2**62] * 3, [2**63 - 2, 1], [300] * 4])
async def test_a_long_chain_goes_on_in_later_turns(length, requests):
    """Many elements, in several turns of trio: they do not stop in a joint."""
    recorder = Recorder()
    chain = [ops.filter(lambda number: number % 2)] * length
    pipe(from_iterable(range(2000)), *chain).subscribe(recorder)
    for demand in requests:
        recorder.request(demand)
    await over(recorder)
    assert recorder.signals == ["subscribe", *range(1, 2000, 2), "complete"]


async def test_a_long_chain_starves_nobody():
    """An endless source before a long chain takes turns with other tasks."""
    recorder, turns = Recorder(MAX_DEMAND), 0
    pipe(from_iterable(iter(int, 1)), *[ops.map(same)] * 200).subscribe(recorder)
    for _ in range(5):
        before = len(recorder.elements)
        await trio.lowlevel.checkpoint()
        turns += len(recorder.elements) - before < 2000
    assert turns == 5
    assert recorder.elements
    recorder.cancel()


async def test_pages_that_append_the_next_one():
    """A chain that grows while it is read: each page is followed by a publisher of the next."""

    async def page(number):
        yield number
        await trio.lowlevel.checkpoint()

    class From:
        def __init__(self, number):
            self.number = number

        def subscribe(self, subscriber):
            first = from_async_iterable(page(self.number), nursery)
            rest = [] if self.number == 200 else [From(self.number + 1)]
            ops.concat(first, *rest).subscribe(subscriber)

    async with trio.open_nursery() as nursery:
        async with open_iter(From(0)) as numbers:
            assert [number async for number in numbers] == [*range(201)]


async def test_ctrl_c_in_a_long_chain_leaves_other_streams_alone():
    """A call that waits behind the one that raises is made, as it may be of another stream."""
    other = Recorder(MAX_DEMAND)

    def interrupted(_):
        pipe(just(1, 2), *[ops.map(same)] * 100).subscribe(other)
        raise KeyboardInterrupt

    chain = pipe(just(1), *[ops.map(same)] * 100, ops.map(interrupted), *[ops.map(same)] * 100)
    with pytest.raises(KeyboardInterrupt):
        chain.subscribe(Recorder(MAX_DEMAND))
    assert other.signals == ["subscribe", 1, 2, "complete"]


# -- where the stack is used up all the same ----------------------------------------------------


class Plain(Recorder):
    """A subscriber whose methods call nothing, so that they need one call of the stack."""

    def on_subscribe(self, subscription):
        self.signals.append("subscribe")
        self.subscription = subscription

    def on_next(self, element):
        self.signals.append(element)

    def on_error(self, error):
        self.signals.append(error)

    def on_complete(self):
        self.signals.append("complete")


CHAINS = {
    "no operator": [],
    **{
        name: [operator] * 5
        for name, operator in OPERATORS.items()
        if name not in {"relay", "broadcast", "as_processor"}
    },
    "take the elements that there are": [ops.take(5)] * 5,
    "many": [ops.map(same)] * 30,
}


def with_calls_left(room, function):
    """Call a function where Python allows so many more calls."""
    here, frame = 0, sys._getframe()
    while frame is not None:
        here, frame = here + 1, frame.f_back

    def deeper(left):
        return function() if left <= 0 else deeper(left - 1)

    return deeper(sys.getrecursionlimit() - here - room - 1)


async def settled():
    for _ in range(3):
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("name", CHAINS)
async def test_a_request_at_the_end_of_the_stack_is_not_answered_with_silence(name):
    """Whatever call it is that fails: an error comes, or is raised, and nobody is harmed."""
    exhausted = 0
    for room in range(1, 250):
        numbers, recorder = Numbers(), Plain()
        pipe(from_iterable(numbers), *CHAINS[name]).subscribe(recorder)
        try:
            with_calls_left(room, lambda recorder=recorder: recorder.subscription.request(100))
        except RecursionError:
            continue  # to the caller
        await settled()
        if len(recorder.terminals) != 1:  # The request was lost before it did anything.
            recorder.request(100)
            await settled()
        (end,) = recorder.terminals
        assert end == "complete" or isinstance(end, StackExhausted), room
        exhausted += end != "complete"
    assert exhausted or name in {"no operator", *ERRORS_PASS_ELEMENTS}
    assert recorder.signals == ["subscribe", 0, 1, 2, 3, 4, "complete"]


@pytest.mark.parametrize("name", CHAINS)
async def test_a_subscriber_at_the_end_of_the_stack_gets_an_error(name):
    """The same for subscribe."""
    exhausted = 0
    for room in range(1, 250):
        recorder = Plain()
        publisher = pipe(from_iterable(Numbers()), *CHAINS[name])
        try:
            with_calls_left(
                room, lambda publisher=publisher, recorder=recorder: publisher.subscribe(recorder)
            )
        except RecursionError:
            continue
        await settled()
        if recorder.subscription is not None:
            recorder.request(100)
            await settled()
        (end,) = recorder.terminals
        assert end == "complete" or isinstance(end, StackExhausted), room
        exhausted += end != "complete"
    assert exhausted or name == "no operator"
    assert recorder.signals == ["subscribe", 0, 1, 2, 3, 4, "complete"]


class Foreign:
    """An operator that is not of this package: each signal is a call of its subscriber's."""

    def __init__(self, source):
        self.source = source

    def subscribe(self, subscriber):
        self.source.subscribe(_Passing(subscriber))


class _Passing:
    def __init__(self, subscriber):
        self.subscriber = subscriber

    def on_subscribe(self, subscription):
        self.subscriber.on_subscribe(subscription)

    def on_next(self, element):
        self.subscriber.on_next(element)

    def on_error(self, error):
        self.subscriber.on_error(error)

    def on_complete(self):
        self.subscriber.on_complete()


async def test_a_chain_of_operators_of_others_gets_the_error():
    """Two hundred of them on a stack that is half used: the text says what to do."""
    numbers, recorder = Numbers(), Plain()
    pipe(from_iterable(numbers), *[Foreign] * 200).subscribe(recorder)
    with_calls_left(150, lambda: recorder.subscription.request(1))
    await settled()
    assert recorder.signals[:1] == ["subscribe"]
    (error,) = recorder.terminals
    assert isinstance(error, StackExhausted)
    assert "request from a shallower stack" in str(error)
    assert str(sys.getrecursionlimit()) in str(error)
    assert numbers.closed == 1


async def test_a_subscriber_of_its_own_deep_recursion():
    """It gets the error, and other subscribers do not notice."""

    class Deep(Plain):
        def on_next(self, element):
            self.on_next(element)

    deep, other, shared = Deep(), Recorder(MAX_DEMAND), Broadcast()
    shared.subscribe(deep)
    shared.subscribe(other)
    deep.request(MAX_DEMAND)
    from_iterable(range(3)).subscribe(shared)
    await settled()
    assert isinstance(deep.terminals[0], StackExhausted)
    assert other.signals == ["subscribe", 0, 1, 2, "complete"]
