"""Demand is counted exactly: outgoing credit and the incoming window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rsocket_trio.errors import InternalError, LocalProtocolError
from rsocket_trio.protocol.credit import (
    MAX_CREDIT,
    MAX_REQUEST_N,
    Credit,
    Window,
    split_request_n,
)


def test_grants_add_up_and_are_never_taken_back():
    """3 and then 2 let exactly 5 items pass."""
    credit = Credit()
    credit.add(3)
    credit.add(2)
    assert [credit.take() for _ in range(7)] == [True] * 5 + [False] * 2
    assert credit.available == 0


@pytest.mark.parametrize("n", [0, -1, -(2**31)])
def test_a_grant_below_one_is_ignored(n):
    """A REQUEST_N of 0 neither grants nor revokes."""
    credit = Credit(2)
    credit.add(n)
    assert credit.available == 2


def test_the_largest_n_is_a_number():
    """2**31-1 is an ordinary value: one item later it is one less, and two of them add up."""
    credit = Credit(MAX_REQUEST_N)
    assert credit.take()
    assert credit.available == MAX_REQUEST_N - 1
    credit.add(MAX_REQUEST_N)
    assert credit.available == 2 * MAX_REQUEST_N - 1
    assert repr(credit) == f"<Credit {2 * MAX_REQUEST_N - 1}>"


def test_credit_has_an_upper_limit():
    """A peer that grants without end cannot make the number grow without end."""
    credit = Credit(MAX_CREDIT)
    credit.add(MAX_REQUEST_N)
    assert credit.available == MAX_CREDIT


@given(st.integers(-5, 5 * MAX_REQUEST_N))
def test_a_large_request_n_is_split(n):
    """The frames' values are legal, add up to n, and are as few as possible."""
    parts = split_request_n(n)
    assert sum(parts) == max(n, 0)
    assert all(1 <= part <= MAX_REQUEST_N for part in parts)
    assert len(parts) == -(-max(n, 0) // MAX_REQUEST_N)


@pytest.mark.parametrize(("prefetch", "batch"), [(1, 1), (2, 1), (4, 1), (5, 2), (8, 2), (256, 64)])
def test_credit_is_replenished_at_a_quarter(prefetch, batch):
    """No credit is granted until a quarter, rounded up, is consumed; then all of it."""
    window = Window(prefetch)
    assert window.initial_request_n == window.outstanding == prefetch
    for _ in range(batch):
        assert window.received()
    assert [window.consumed() for _ in range(batch)] == [0] * (batch - 1) + [batch]
    assert window.outstanding == prefetch
    assert window.peak == prefetch


def test_consuming_many_at_once_grants_them_all():
    """One call for a batch taken at once grants everything consumed so far."""
    window = Window(8)
    for _ in range(8):
        window.received()
    assert window.consumed(8) == 8


def test_an_overrun_is_reported_and_not_counted():
    """An item beyond the credit is refused, and the window does not change."""
    window = Window(2)
    assert [window.received() for _ in range(4)] == [True, True, False, False]
    assert (window.outstanding, window.unread, window.overruns) == (0, 2, 2)


def test_manual_mode_grants_only_when_asked():
    """With prefetch 0 consuming grants nothing; `grant` does."""
    window = Window(0, initial=2)
    assert window.manual
    assert window.initial_request_n == 2
    assert window.received()
    assert window.received()
    assert not window.received()
    assert window.consumed(2) == 0
    window.grant(3)
    assert (window.outstanding, window.peak) == (3, 3)
    assert [window.received() for _ in range(4)] == [True, True, True, False]
    window.grant(1)
    assert window.peak == 4


def test_manual_mode_opens_with_one_item_at_least():
    """The wire has no initial request n of 0."""
    assert Window(0).initial_request_n == 1
    assert not Window(1).manual


@pytest.mark.parametrize("n", [0, -1, MAX_REQUEST_N + 1])
def test_a_grant_fits_a_frame(n):
    """A grant that no frame can carry is refused before anything changes."""
    window = Window(0)
    with pytest.raises(LocalProtocolError):
        window.grant(n)
    assert window.outstanding == 1


def test_an_automatic_window_takes_no_grant():
    """The window alone grants credit unless it is manual."""
    with pytest.raises(LocalProtocolError, match="prefetch=0"):
        Window(4).grant(1)


@pytest.mark.parametrize("prefetch", [-1, MAX_REQUEST_N + 1])
def test_a_window_fits_a_frame(prefetch):
    """A window that no frame can open is refused."""
    with pytest.raises(LocalProtocolError):
        Window(prefetch)


@pytest.mark.parametrize("initial", [0, MAX_REQUEST_N + 1])
def test_the_initial_credit_fits_a_frame(initial):
    """A manual window is refused if no frame can carry its initial credit."""
    with pytest.raises(LocalProtocolError):
        Window(0, initial=initial)


def test_the_item_of_a_channel_request_costs_nothing():
    """The item inside REQUEST_CHANNEL is consumed first and is not granted again."""
    window = Window(1, uncredited=1)
    assert window.received()
    assert window.consumed() == 0
    assert window.outstanding == 0
    assert window.consumed() == 1


def test_a_batch_with_the_uncredited_item():
    """A batch that holds the item without credit grants one less."""
    window = Window(2, uncredited=1)
    window.received()
    window.received()
    assert window.consumed(3) == 2


def test_more_items_consumed_than_arrived():
    """A consumer that counts wrongly gets an error, instead of granting too much."""
    window = Window(4)
    window.received()
    with pytest.raises(InternalError):
        window.consumed(2)
    assert window.unread == 1


def test_the_repr_of_a_window():
    """It shows the window in a log."""
    assert repr(Window(4)) == "<Window automatic outstanding=4 unread=0>"
    assert repr(Window(0)) == "<Window manual outstanding=1 unread=0>"


class WindowMachine(RuleBasedStateMachine):
    """Any order of arrivals and consumption, in an automatic window."""

    @initialize(prefetch=st.integers(1, 20), uncredited=st.integers(0, 1))
    def open(self, prefetch, uncredited):
        self.prefetch = prefetch
        self.window = Window(prefetch, uncredited=uncredited)
        self.granted = self.window.initial_request_n
        self.arrived = 0
        self.unread = uncredited

    @rule()
    def arrive(self):
        legal = self.arrived < self.granted
        assert self.window.received() is legal
        self.arrived += legal
        self.unread += legal

    @precondition(lambda self: self.unread)
    @rule(data=st.data())
    def consume(self, data):
        k = data.draw(st.integers(1, self.unread))
        self.unread -= k
        self.granted += self.window.consumed(k)

    @invariant()
    def bounded_exact_and_never_starved(self):
        window = self.window
        assert window.outstanding == self.granted - self.arrived
        assert window.outstanding + window.unread <= self.prefetch == window.peak
        assert window.outstanding > 0 or self.unread > 0


TestWindow = WindowMachine.TestCase


def test_the_largest_numbers_that_fit_a_frame():
    """They can be granted: in a request frame, and in REQUEST_N."""
    assert Window(MAX_REQUEST_N).initial_request_n == MAX_REQUEST_N
    window = Window(0, initial=MAX_REQUEST_N)
    window.grant(MAX_REQUEST_N)
    assert window.outstanding == 2 * MAX_REQUEST_N
    window.grant(1)
    assert window.outstanding == 2 * MAX_REQUEST_N + 1
