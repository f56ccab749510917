"""The loop of `rsocket_trio.reactive_streams.emission`: its budget, and its places of failure."""

from __future__ import annotations

import gc
import weakref
from itertools import count

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.reactive_streams import (
    EMISSION_BUDGET,
    MAX_DEMAND,
    SourceClosed,
    collect,
    from_iterable,
)
from rsocket_trio.reactive_streams import operators as ops
from rsocket_trio.reactive_streams.queued_emission import QueueEmission
from tests.reactive_streams.recording import Failing, Recorder


async def turns(recorder, n=3):
    """How many elements had come after each turn of the loop."""
    seen = []
    for _ in range(n):
        seen.append(len(recorder.elements))
        await trio.lowlevel.checkpoint()
    return seen


async def test_other_tasks_run_while_an_endless_source_sends():
    recorder = Recorder(MAX_DEMAND)
    from_iterable(count(1)).subscribe(recorder)
    assert len(recorder.elements) == EMISSION_BUDGET
    while len(recorder.elements) < 5 * EMISSION_BUDGET:
        await trio.lowlevel.checkpoint()
    assert len(recorder.elements) % EMISSION_BUDGET == 0
    recorder.cancel()
    n = len(recorder.elements)
    await trio.testing.wait_all_tasks_blocked()
    assert recorder.elements == list(range(1, n + 1))
    assert recorder.terminals == []


async def test_requests_while_it_waits_for_its_turn_are_added():
    recorder = Recorder(EMISSION_BUDGET + 1)
    from_iterable(count(1)).subscribe(recorder)
    for _ in range(5):
        recorder.request(2)
    assert len(recorder.elements) == EMISSION_BUDGET
    await trio.testing.wait_all_tasks_blocked()
    assert len(recorder.elements) == EMISSION_BUDGET + 11
    recorder.cancel()


async def test_a_wrong_demand_while_it_waits_for_its_turn():
    recorder = Recorder(MAX_DEMAND)
    from_iterable(count(1)).subscribe(recorder)
    recorder.request(0)
    assert isinstance(recorder.signals[-1], ValueError)
    await trio.testing.wait_all_tasks_blocked()
    assert len(recorder.elements) == EMISSION_BUDGET


async def test_a_cancel_while_it_waits_for_its_turn_drops_the_references():
    recorder = Recorder(MAX_DEMAND)
    from_iterable(count(1)).subscribe(recorder)
    recorder.cancel()
    gone = weakref.ref(recorder)
    del recorder
    gc.collect()
    assert gone() is None


async def test_a_hostile_subscriber_in_a_later_turn_harms_only_itself(caplog):
    class Later(Failing):
        def on_next(self, element):
            Recorder.on_next(self, element)
            if element == EMISSION_BUDGET + 5:
                raise SystemExit("hostile")

    hostile, other = Later(), Recorder(EMISSION_BUDGET + 9)
    for each in (hostile, other):
        from_iterable(count(1)).subscribe(each)
    await trio.testing.wait_all_tasks_blocked()
    assert len(hostile.elements) == EMISSION_BUDGET + 5
    assert len(other.elements) == EMISSION_BUDGET + 9
    assert "hostile" in caplog.text
    other.cancel()


def test_an_endless_source_ends_with_the_run():
    """Otherwise it would never end, as no other task is there any more."""
    recorder = Recorder(MAX_DEMAND)

    async def main():
        from_iterable(count(1)).subscribe(recorder)

    trio.run(main)
    (error,) = recorder.terminals
    assert isinstance(error, SourceClosed)


def test_without_trio_nobody_waits():
    recorder = Recorder(MAX_DEMAND)
    from_iterable(range(1000)).subscribe(recorder)
    assert recorder.terminals == ["complete"]


async def test_the_continuation_has_the_variables_of_the_subscriber():
    from contextvars import ContextVar

    variable = ContextVar("variable", default="none")
    seen = set()

    class Reading(Recorder):
        def on_next(self, element):
            seen.add(variable.get())

    variable.set("set")
    from_iterable(range(1000)).subscribe(reader := Reading(MAX_DEMAND))
    await trio.testing.wait_all_tasks_blocked()
    assert reader.terminals == ["complete"]
    assert seen == {"set"}


def queued(recorder, **hooks):
    emission = QueueEmission(recorder, **hooks)
    emission.start()
    return emission


def test_a_queue_sends_as_requested():
    recorder = Recorder()
    emission = queued(recorder)
    for each in (1, 2, 3):
        emission.push(each)
    recorder.request(2)
    assert recorder.elements == [1, 2]
    emission.close()
    emission.push(4)
    assert recorder.terminals == []
    recorder.request(1)
    assert recorder.signals == ["subscribe", 1, 2, 3, "complete"]


def test_a_queue_that_is_empty_closes_without_demand():
    recorder = Recorder()
    error = OSError()
    queued(recorder).close(error)
    assert recorder.signals == ["subscribe", error]


def test_an_end_drops_the_queue():
    recorder = Recorder()
    emission = queued(recorder)
    emission.push(1)
    emission.end()
    emission.close(OSError())
    assert recorder.signals == ["subscribe", "complete"]
    assert not emission.queue


def test_the_hooks_are_called():
    recorder = Recorder(2)
    calls = []
    queued(recorder, on_request=calls.append, on_end=lambda: calls.append("end"))
    recorder.request(3)
    recorder.cancel()
    recorder.cancel()
    assert calls == [2, 3, "end"]


def test_a_request_hook_may_push():
    recorder = Recorder(more=1)
    numbers = iter(range(500))

    def fill(n):
        for _, number in zip(range(n), numbers, strict=False):
            emission.push(number)

    emission = QueueEmission(recorder, on_request=fill)
    emission.start()
    recorder.request(1)
    assert recorder.elements == list(range(500))
    assert recorder.deepest == 1


def test_a_hook_that_raises_is_the_failure_of_the_source():
    """Rule 3.16."""

    def hook(n):
        raise OSError("source")

    recorder = Recorder()
    queued(recorder, on_request=hook)
    recorder.request(1)
    assert isinstance(recorder.terminals[0], OSError)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("push"), st.integers(1, 5)),
        st.tuples(st.just("request"), st.integers(1, 5)),
        st.sampled_from([("close", 0), ("end", 0), ("cancel", 0), ("request", 0)]),
    ),
    max_size=30,
)


@given(steps=STEPS, more=st.integers(0, 2))
def test_any_order_of_calls(steps, more):
    """Counts, order and end are those of a simple model."""
    recorder = Recorder(more=more)
    ends = []
    emission = queued(recorder, on_end=lambda: ends.append(1))
    pushed = sent = demand = 0
    closing = over = False
    signals = ["subscribe"]
    for step, n in steps:
        terminal = None
        if step == "push":
            for _ in range(n):
                emission.push(pushed)
                if not closing and not over:
                    pushed += 1
        elif step == "request":
            recorder.request(n)
            demand += n
            terminal = None if n or over else "error"
        elif step == "cancel":
            recorder.cancel()
            over = True
        elif step == "close":
            emission.close()
            closing = True
        else:
            emission.end()
            terminal = None if over else "complete"
        while not over and terminal is None and demand and sent < pushed:
            signals.append(sent)
            sent += 1
            demand += more - 1
        if not over and terminal is None and closing and sent == pushed:
            terminal = "complete"
        if terminal is not None:
            signals.append(terminal)
            over = True
        seen = ["error" if isinstance(each, Exception) else each for each in recorder.signals]
        assert seen == signals
        assert len(ends) == over
        assert emission.active == (not over)


@pytest.mark.parametrize("raised", [GeneratorExit, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize(
    "function", [lambda source: source, ops.map(lambda number: number)], ids=["source", "map"]
)
async def test_what_a_source_raises_in_a_later_turn_is_not_silence(raised, function, caplog):
    """No caller can get it, so the reader gets an error, and does not wait for ever."""

    def numbers():
        yield from range(2 * EMISSION_BUDGET)
        raise raised

    with trio.fail_after(10), pytest.raises(SourceClosed, match=raised.__name__):
        await collect(function(from_iterable(numbers)), prefetch=MAX_DEMAND)
    assert raised.__name__ in caplog.text
