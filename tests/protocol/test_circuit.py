"""When a target is left alone: `Circuit`, `Outlier`."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.protocol.circuit import Circuit, Outlier


def fail(outlier, now, times=1):
    return [outlier.failed(outlier.admit(now), now) for _ in range(times)]


def test_failures_in_a_row_put_it_out_and_a_success_between_does_not():
    """Only the fifth failure in a row counts."""
    outlier = Outlier(Circuit())
    assert fail(outlier, 0, 4) == [False] * 4
    outlier.succeeded(outlier.admit(0), 0)
    assert fail(outlier, 0, 5) == [False] * 4 + [True]
    assert not outlier.well
    assert outlier.admit(4.9) is None
    assert not outlier.may_admit(4.9)
    assert outlier.until == 5


def test_one_request_tests_it():
    """While that is on its way no other goes there; its success lets all in."""
    outlier = Outlier(Circuit())
    fail(outlier, 0, 5)
    test = outlier.admit(5)
    assert outlier.admit(6) is None
    outlier.succeeded(test, 6)
    assert outlier.well
    assert outlier.admit(6) is not None


def test_the_time_doubles_up_to_the_longest():
    """Each test that fails doubles it."""
    outlier = Outlier(Circuit())
    fail(outlier, 0, 5)
    times = []
    for _ in range(6):
        now = outlier.until
        assert fail(outlier, now) == [True]
        times.append(outlier.until - now)
    assert times == [10, 20, 40, 60, 60, 60]


@pytest.mark.parametrize(("well_for", "out_for"), [(59, 10), (60, 5)])
def test_a_target_that_flaps_is_left_alone_for_longer(well_for, out_for):
    """Only one that was well for the longest time begins anew."""
    outlier = Outlier(Circuit())
    fail(outlier, 0, 5)
    outlier.succeeded(outlier.admit(5), 5)
    now = 5 + well_for
    fail(outlier, now, 5)
    assert outlier.until - now == out_for


def test_what_began_before_says_nothing_afterwards():
    """A slow answer of before does not end the time, and a slow failure does not double it."""
    outlier = Outlier(Circuit())
    early = outlier.admit(0)
    fail(outlier, 0, 5)
    outlier.succeeded(early, 1)
    outlier.failed(early, 1)
    outlier.left(early, 1)
    assert outlier.until == 5


def test_a_test_without_an_end_is_followed_by_another():
    """At once if its caller has left, else after the shortest time; the first may still tell."""
    outlier = Outlier(Circuit())
    fail(outlier, 0, 5)
    outlier.left(outlier.admit(5), 5.5)
    slow = outlier.admit(5.5)
    assert outlier.admit(10.4) is None
    assert outlier.admit(10.5) is not None
    outlier.succeeded(slow, 11)
    assert outlier.well


@pytest.mark.parametrize(
    ("took", "heard", "well"),
    [(0.2, None, True), (0.3, None, False), (0.3, 0.1, True)],
)
def test_deadlines_say_something_about_a_silent_target_only(took, heard, well):
    """Neither a caller in haste nor a slow route puts it out; a test that is late is followed."""
    outlier = Outlier(Circuit())
    now = 10.0
    for _ in range(5):
        ticket = outlier.admit(now)
        if heard is not None:
            outlier.succeeded(outlier.admit(now), now + heard)
        now += took
        outlier.late(ticket, now - took, now)
    assert outlier.well == well
    if not well:
        now = outlier.until
        outlier.late(outlier.admit(now), now, now + 0.1)
        assert outlier.may_admit(now + 0.1)


@pytest.mark.parametrize(
    "wrong", [{"failures": 0}, {"shortest": 0}, {"shortest": 61}, {"longest": inf}]
)
def test_wrong_settings_are_refused(wrong):
    """A failure at least; times above 0, in order."""
    with pytest.raises(ValueError):
        Circuit(**wrong)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 20), st.sampled_from(["admit", "succeed", "fail", "leave"]), st.integers(0)
        ),
        max_size=100,
    )
)
def test_any_order_of_ends_leaves_a_way_back(steps):
    """At most one test in each shortest time; and, whatever happened, a success brings it back."""
    circuit = Circuit(failures=2)
    outlier = Outlier(circuit)
    now = 0.0
    tickets = []
    for passed, what, which in steps:
        now += passed
        may = outlier.may_admit(now)
        if what == "admit":
            well = outlier.well
            ticket = outlier.admit(now)
            assert may == (ticket is not None)
            if ticket is not None:
                tickets.append(ticket)
                assert well or outlier.admit(now) is None
        elif tickets:
            ticket = tickets.pop(which % len(tickets))
            if what == "succeed":
                outlier.succeeded(ticket, now)
            elif what == "fail":
                out = outlier.failed(ticket, now)
                assert not out or now + 5 <= outlier.until <= now + 60
            else:
                outlier.left(ticket, now)
        assert outlier.until <= now + circuit.longest
    now = max(now, outlier.until)
    outlier.succeeded(outlier.admit(now), now)
    assert outlier.well
