"""The credit of a stream is bounded by what Spark has taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rsocket_trio.spark.demand import Window


class Windows(RuleBasedStateMachine):
    """A responder that sends what it may, and a consumer, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.items = 8
        self.limit = 50
        self.window = Window(self.items, 1000, self.limit)
        self.granted = self.window.grant()
        self.sent = self.taken = 0
        self.held: list[int] = []

    @precondition(lambda self: self.sent < self.granted)
    @rule(data=st.data())
    def arrive(self, data):
        most = self.granted - self.sent
        sizes = data.draw(st.lists(st.integers(0, 3000), min_size=1, max_size=most))
        self.window.arrived(sizes)
        self.sent += len(sizes)
        self.held += sizes

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def consume(self, data):
        count = data.draw(st.integers(1, len(self.held)))
        self.window.consumed(count, sum(self.held[:count]))
        del self.held[:count]
        self.taken += count
        self.granted += self.window.grant()

    @invariant()
    def bounds(self):
        assert self.granted - self.taken <= self.items
        assert self.granted <= self.limit
        assert self.window.outstanding == self.granted - self.sent
        assert self.window.is_over == (self.sent == self.limit)

    @invariant()
    def goes_on(self):
        """Never does everything wait for the responder while it has no credit."""
        waits = self.sent == self.granted and not self.held
        assert not waits or self.sent == self.limit


TestWindows = Windows.TestCase


@given(st.integers(1, 1000))
def test_the_first_grant_is_the_window(items):
    """Nothing is known about sizes yet."""
    assert Window(items, 1).grant() == items


def test_large_elements_are_granted_one_by_one():
    """The window in bytes has room for two and a half of them."""
    window = Window(100, 2500)
    assert window.grant() == 100
    window.arrived([1000] * 100)
    assert window.grant() == 0
    window.consumed(98, 98_000)
    assert window.grant() == 0, "two are held"
    window.consumed(1, 1000)
    assert window.grant() == 1
    window.arrived([1000])
    window.consumed(2, 2000)
    assert window.grant() == 2


def test_an_element_that_is_larger_than_the_window_passes():
    """Else the stream would stand still."""
    window = Window(4, 10)
    assert window.grant() == 4
    window.arrived([50] * 4)
    window.consumed(4, 200)
    assert window.grant() == 1


def test_small_elements_widen_the_window_again():
    """One large element does not slow down a million small ones."""
    window = Window(64, 6400)
    window.grant()
    window.arrived([6400] * 64)
    window.consumed(64, 64 * 6400)
    for _ in range(12):
        count = window.grant()
        window.arrived([10] * count)
        window.consumed(count, 10 * count)
    assert window.grant() == 64
