"""Sources that break rules 1.9 and 1.7: a signal before on_subscribe, or one behind the end."""

from __future__ import annotations

import pytest

from rsocket_trio.reactive_streams import Broadcast, Relay, TooManyElements, just
from rsocket_trio.reactive_streams import operators as ops
from tests.reactive_streams.recording import ByHand, Recorder, Requests

OPERATORS = {
    "buffer": ops.buffer(4),
    "batch": ops.batch(2),
    "flat_map": ops.flat_map(just, concurrency=2),
    "merge": ops.merge_with(just(1)),
    "concat": ops.concat_with(just(1)),
    "retry": ops.retry(2),
}


LATE = [("on_next", 9), ("on_error", KeyError("x")), ("on_complete",)]


class Rude:
    """Its first signal is another one."""

    def __init__(self, signal, *arguments):
        self.signal, self.arguments = signal, arguments

    def subscribe(self, subscriber):
        self.subscriber = subscriber
        getattr(subscriber, self.signal)(*self.arguments)


@pytest.mark.parametrize(
    "signal", [("on_next", 1), ("on_error", KeyError("x")), ("on_complete",)], ids=lambda s: s[0]
)
@pytest.mark.parametrize("name", OPERATORS)
def test_another_signal_first(name, signal):
    """The downstream gets on_subscribe first, one end at most, and nothing behind it."""
    source, recorder = Rude(*signal), Recorder(first=10)
    OPERATORS[name](source).subscribe(recorder)
    late = Requests()
    source.subscriber.on_subscribe(late)
    source.subscriber.on_next(2)
    signals = recorder.signals
    assert signals[:1] == ["subscribe"]
    assert signals.count("subscribe") == 1
    assert len(recorder.terminals) <= 1
    if recorder.terminals:
        assert signals[-1] is recorder.terminals[0]
        assert late.cancelled
        assert not late.requested
    if signal[0] == "on_next" and recorder.terminals:
        assert isinstance(recorder.terminals[0], TooManyElements)


@pytest.mark.parametrize("late", LATE, ids=lambda signal: signal[0])
@pytest.mark.parametrize(
    "overflow", [ops.Overflow.ERROR, ops.Overflow.WAIT], ids=["buffer", "buffer that waits"]
)
def test_a_signal_behind_the_end_drops_nothing(overflow, late):
    """What `buffer` has taken before the completion still comes, and then the completion."""
    by_hand, recorder = ByHand(), Recorder()
    ops.buffer(4, overflow)(by_hand).subscribe(recorder)
    for element in range(2):
        by_hand.subscriber.on_next(element)
    by_hand.subscriber.on_complete()
    getattr(by_hand.subscriber, late[0])(*late[1:])
    recorder.request(5)
    assert recorder.signals == ["subscribe", 0, 1, "complete"]


@pytest.mark.parametrize("late", LATE, ids=lambda signal: signal[0])
def test_a_signal_behind_the_end_of_a_batch(late):
    """The last list, which is shorter, waits for demand and is not lost."""
    by_hand, recorder = ByHand(), Recorder(first=1)
    ops.batch(2)(by_hand).subscribe(recorder)
    for element in range(2):
        by_hand.subscriber.on_next(element)
    recorder.request(1)
    by_hand.subscriber.on_next(2)
    by_hand.subscriber.on_complete()
    getattr(by_hand.subscriber, late[0])(*late[1:])
    assert recorder.signals == ["subscribe", [0, 1], [2], "complete"]


@pytest.mark.parametrize("late", LATE, ids=lambda signal: signal[0])
@pytest.mark.parametrize("of", ["source", "inner"])
def test_a_signal_behind_the_end_of_a_source_of_flat_map(of, late):
    """Elements of inner publishers that wait for demand are not dropped."""
    outer, inner, recorder = ByHand(), ByHand(), Recorder(first=1)
    ops.flat_map(lambda _: inner)(outer).subscribe(recorder)
    outer.subscriber.on_next("an inner publisher")
    for element in range(3):
        inner.subscriber.on_next(element)
    inner.subscriber.on_complete()
    outer.subscriber.on_complete()
    rude = outer if of == "source" else inner
    getattr(rude.subscriber, late[0])(*late[1:])
    recorder.request(5)
    assert recorder.signals == ["subscribe", 0, 1, 2, "complete"]


class Leaving(Recorder):
    """Cancels in on_subscribe."""

    def on_subscribe(self, subscription):
        super().on_subscribe(subscription)
        subscription.cancel()


def _taken_relay():
    relay = Relay()
    relay.subscribe(Recorder())
    return relay


def _ended_broadcast():
    broadcast = Broadcast()
    broadcast.on_complete()
    return broadcast


@pytest.mark.parametrize(
    "publisher",
    [
        *(
            pytest.param(operator(Rude("on_complete")), id=name)
            for name, operator in OPERATORS.items()
        ),
        pytest.param(ops.map(str)(Rude("on_complete")), id="map"),
        pytest.param(ops.take(0)(just(1)), id="take nothing"),
        pytest.param(ops.take(1)(Rude("on_error", KeyError("x"))), id="take"),
        pytest.param(_taken_relay(), id="the second subscriber of a relay"),
        pytest.param(_ended_broadcast(), id="a broadcast that has ended"),
    ],
)
def test_nothing_follows_a_cancel_in_on_subscribe(publisher):
    """Who has cancelled is done (rules 1.8 and 3.12): an end that was certain does not come."""
    recorder = Leaving()
    publisher.subscribe(recorder)
    assert recorder.signals == ["subscribe"]
