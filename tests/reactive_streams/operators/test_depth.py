"""No operator nests signals without bound (rule 3.3), and none keeps what is over (rule 3.13)."""

from __future__ import annotations

import gc
import sys
import weakref

import pytest
import trio

from rsocket_trio.reactive_streams import (
    EMISSION_BUDGET,
    MAX_DEMAND,
    Broadcast,
    Relay,
    empty,
    failed,
    from_iterable,
    just,
    never,
    pipe,
)
from rsocket_trio.reactive_streams import operators as ops
from rsocket_trio.reactive_streams.operators.flattening import CONCURRENCY
from tests.reactive_streams.recording import ByHand, Recorder

MANY = 5 * sys.getrecursionlimit()


def error_when(fails):
    return failed(ValueError("it fails")) if fails else empty()


PIPES = {
    "three": (ops.map(lambda n: n), ops.filter(lambda n: n % 2), ops.map(lambda n: n)),
    "none left": (ops.filter(lambda n: False),),
    "buffer": (ops.buffer(1, ops.Overflow.WAIT), ops.map(lambda n: n)),
    "batch": (ops.batch(1), ops.flat_map(from_iterable, 1)),
    "flat_map": (ops.flat_map(just, 3, prefetch=1),),
    "flat_map to nothing": (ops.flat_map(lambda n: empty()),),
    "flat_map twice": (ops.flat_map(just, 1), ops.flat_map(lambda n: empty(), 1)),
    "retry": (ops.retry(1), ops.map(lambda n: n), ops.retry(1)),
    "concat": (ops.concat, ops.take(MANY)),
}


@pytest.mark.parametrize("name", PIPES)
@pytest.mark.parametrize("first", [1, MAX_DEMAND])
def test_requests_from_on_next_do_not_nest(name, first):
    """A subscriber that requests one element in each on_next sees one signal at a time."""
    recorder = Recorder(first, 1)
    pipe(from_iterable(range(MANY)), *PIPES[name]).subscribe(recorder)
    assert recorder.deepest == 1
    assert recorder.terminals == ["complete"]


@pytest.mark.parametrize("first", [0, 1, MAX_DEMAND])
def test_many_sources_that_end_at_once_do_not_nest(first):
    """Thousands of empty publishers, one after the other and all at once, and a last element."""
    for publisher in (
        ops.concat(*[empty()] * MANY, just("last")),
        ops.merge(*[empty()] * MANY, just("last")),
        ops.concat(*[just(1)] * MANY, just("last")),
    ):
        recorder = Recorder(first, 1)
        publisher.subscribe(recorder)
        recorder.request(1)
        assert recorder.elements[-1:] == ["last"]
        assert recorder.terminals == ["complete"]
        assert recorder.deepest == 1


def test_many_attempts_do_not_nest():
    """A source that fails at once is subscribed to as often as was said."""
    attempts = []

    def source():
        attempts.append(1)
        raise ValueError(f"attempt {len(attempts)}")

    recorder = Recorder(0)
    pipe(from_iterable(source), ops.retry(MANY)).subscribe(recorder)
    assert len(attempts) == MANY + 1
    (error,) = recorder.terminals
    assert str(error) == f"attempt {MANY + 1}"


@pytest.mark.parametrize("name", PIPES)
async def test_an_endless_source_starves_nobody(name):
    """Other tasks run after some hundreds of elements, and cancel ends it."""
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield taken

    recorder = Recorder(MAX_DEMAND)
    pipe(from_iterable(endless), *PIPES[name]).subscribe(recorder)
    for _ in range(5):
        before = taken
        await trio.lowlevel.checkpoint()
        assert taken - before <= 8 * EMISSION_BUDGET
    assert taken > EMISSION_BUDGET or recorder.terminals
    recorder.cancel()
    before = taken
    await trio.testing.wait_all_tasks_blocked()
    assert taken == before


def _many(function):
    return pipe(from_iterable(range(200)), ops.flat_map(function))


SOURCES = {
    "concat": lambda once: ops.concat(*[from_iterable(once)] * MANY),
    "retry": lambda once: pipe(from_iterable(lambda: map(divmod, once(), [0])), ops.retry(MANY)),
    "flat_map": lambda once: _many(lambda _: _many(lambda _: from_iterable(once))),
    "flat_map to nothing": lambda once: _many(
        lambda _: _many(lambda _: ops.take(0)(_Called(once)))
    ),
}


class _Called:
    def __init__(self, called):
        self.called = called

    def subscribe(self, subscriber):
        next(self.called())
        empty().subscribe(subscriber)


@pytest.mark.parametrize("name", SOURCES)
async def test_many_short_sources_starve_nobody(name):
    """The budget is not one for each source: other tasks run after some hundreds of them."""
    begun = 0

    def once():
        nonlocal begun
        begun += 1
        yield begun

    recorder = Recorder(MAX_DEMAND)
    SOURCES[name](once).subscribe(recorder)
    total = 0
    for _ in range(5):
        assert begun < 2 * EMISSION_BUDGET * CONCURRENCY
        total += begun
        begun = 0
        await trio.lowlevel.checkpoint()
    assert total >= EMISSION_BUDGET
    assert not recorder.terminals
    recorder.cancel()
    begun = 0
    await trio.testing.wait_all_tasks_blocked()
    assert begun == 0


OPERATORS = {
    **{name: lambda source, name=name: pipe(source, *PIPES[name]) for name in PIPES},
    "take": ops.take(5),
    "buffer that drops": ops.buffer(5, ops.Overflow.LATEST),
    "merge": ops.merge_with(never()),
    "concat with": ops.concat_with(never()),
    "relay": lambda source: _through(Relay(), source),
    "broadcast": lambda source: _through(Broadcast(), source),
}


def _through(processor, source):
    source.subscribe(processor)
    return processor


@pytest.mark.parametrize("end", ["cancel", "complete", "error"])
@pytest.mark.parametrize("name", OPERATORS)
def test_what_is_over_is_not_kept(name, end):
    """Neither the source's subscription nor the publisher refers to the subscriber."""
    by_hand = ByHand()
    publisher = OPERATORS[name](by_hand)
    recorder = Recorder(3)
    publisher.subscribe(recorder)
    subscription = recorder.subscription
    if sum(by_hand.subscription.requested):
        by_hand.subscriber.on_next(3)
    if end == "cancel" or name in {"merge", "concat with"}:
        subscription.cancel()
    elif end == "complete":
        by_hand.subscriber.on_complete()
    else:
        for _ in range(4):
            by_hand.subscriber.on_error(ValueError("it fails"))
    reference = weakref.ref(recorder)
    del recorder
    gc.collect()
    if end == "cancel" or name != "retry":
        assert reference() is None, gc.get_referrers(reference())
    subscription.request(1)
    subscription.request(0)
    subscription.cancel()
    assert publisher is not None
