"""Random demand on an operator: the elements are those of a plain list, at most the demand."""

from __future__ import annotations

from hypothesis import strategies as st

from rsocket_trio.reactive_streams import MAX_DEMAND, from_iterable
from tests.reactive_streams.recording import Recorder

NUMBERS = st.lists(st.integers(0, 9), max_size=30)
DEMANDS = st.lists(st.integers(1, 7) | st.just(MAX_DEMAND), max_size=12)
"""What a subscriber requests, one after the other."""


class Counting:
    """A publisher of a list that notes the demand and the cancellation."""

    def __init__(self, elements, error=None):
        self.elements = elements
        self.error = error
        self.requested = 0
        self.cancelled = 0
        self.taken = 0
        self.subscribed = 0

    def _numbers(self):
        for element in self.elements:
            self.taken += 1
            yield element
        if self.error is not None:
            raise self.error

    def subscribe(self, subscriber):
        self.subscribed += 1
        from_iterable(self._numbers).subscribe(_Between(self, subscriber))


class _Between:
    """Passes signals on, and notes what is requested."""

    def __init__(self, owner, subscriber):
        self.owner = owner
        self.on_next = subscriber.on_next
        self.on_error = subscriber.on_error
        self.on_complete = subscriber.on_complete
        self.subscriber = subscriber

    def on_subscribe(self, subscription):
        self.subscription = subscription
        self.subscriber.on_subscribe(self)

    def request(self, n):
        self.owner.requested += n if isinstance(n, int) else 0
        self.subscription.request(n)

    def cancel(self):
        self.owner.cancelled += 1
        self.subscription.cancel()


def check_against(wanted, publisher, demands, *, ordered=True):
    """After each request there are as many elements as requested, and never more; then the end."""
    recorder = Recorder()
    publisher.subscribe(recorder)
    total = 0
    for demand in demands:
        total += demand
        recorder.request(demand)
        assert len(recorder.elements) == min(total, len(wanted))
    if not recorder.terminals:
        recorder.request(MAX_DEMAND)
    if ordered:
        assert recorder.elements == wanted
    else:
        assert sorted(recorder.elements) == sorted(wanted)
    assert recorder.signals == ["subscribe", *recorder.elements, "complete"]
    assert recorder.deepest == 1
    recorder.request(1)
    recorder.cancel()
    assert recorder.signals[-1] == "complete"
