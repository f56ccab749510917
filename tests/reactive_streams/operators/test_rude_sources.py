"""Sources that break rule 1.9: their first signal is not on_subscribe."""

from __future__ import annotations

import pytest

from rsocket_trio.reactive_streams import TooManyElements, just
from rsocket_trio.reactive_streams import operators as ops
from tests.reactive_streams.recording import Recorder, Requests

OPERATORS = {
    "buffer": ops.buffer(4),
    "batch": ops.batch(2),
    "flat_map": ops.flat_map(just, concurrency=2),
    "merge": ops.merge_with(just(1)),
    "concat": ops.concat_with(just(1)),
    "retry": ops.retry(2),
}


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
