"""The ledgers of leases, checked with a model that keeps every request separately."""

from __future__ import annotations

from collections import deque
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.protocol.lease_ledger import ON_THE_WAY, GrantedLease, HeldLease

BOTH = pytest.mark.parametrize("ledger", [HeldLease, GrantedLease])


@BOTH
def test_there_is_no_lease_at_first(ledger):
    """Before the first lease no request is allowed, at any time."""
    lease = ledger()
    assert lease.left(0) == lease.left(-1e9) == 0
    assert not lease.take(0)


@BOTH
def test_a_lease_has_a_number_of_requests(ledger):
    """A lease of n allows n requests."""
    lease = ledger()
    lease.replace(3, 10, now=100)
    assert [lease.take(101) for _ in range(5)] == [True, True, True, False, False]
    assert lease.left(101) == 0


@BOTH
def test_a_lease_has_a_time(ledger):
    """The rest of a lease is void when its time is over, and stays void."""
    lease = ledger()
    lease.replace(3, 10, now=100)
    assert lease.take(109.999)
    assert lease.left(109.999) == 2
    assert lease.left(110) == 0
    assert not lease.take(110)
    assert lease.expires == 110


@BOTH
@pytest.mark.parametrize(("requests", "time_to_live"), [(0, 10), (10, 0), (0, 0)])
def test_zero_stops_requests(ledger, requests, time_to_live):
    """Zero requests or zero time allow no request, and replace the lease before."""
    lease = ledger()
    lease.replace(3, 10, now=0)
    lease.replace(requests, time_to_live, now=1)
    assert lease.left(1) == 0
    assert not lease.take(1)


@BOTH
def test_the_newest_lease_replaces_the_one_before(ledger):
    """Leases do not add up: for the requester at once, for the responder after a moment."""
    lease = ledger()
    lease.replace(5, 100, now=0)
    lease.replace(1, 100, now=1)
    assert lease.left(1) == 1
    later = 1 + ON_THE_WAY
    assert [lease.take(later), lease.take(later)] == [True, False]


@BOTH
def test_a_cleared_lease_leaves_nothing(ledger):
    """A cleared lease allows no request."""
    lease = ledger()
    lease.replace(5, 100, now=0)
    lease.replace(5, 100, now=0)
    lease.clear()
    assert lease.left(1) == 0
    assert not lease.take(0.5)
    assert lease.expires == -inf
    assert type(lease).__name__ in repr(lease)


def granted(*leases):
    lease = GrantedLease()
    for requests, time_to_live, now in leases:
        lease.replace(requests, time_to_live, now)
    return lease


def passing(lease, now):
    """Return the number of requests that pass at that time."""
    count = 0
    while lease.take(now):
        count += 1
    return count


def test_requests_on_the_way_may_pass():
    """For a moment, as many more requests pass as the old lease had left."""
    lease = granted((5, 100, 0), (2, 100, 10))
    assert passing(lease, 10.5) == 7
    lease = granted((5, 100, 0))
    assert [lease.take(1), lease.take(1)] == [True, True]
    lease.replace(2, 100, 10)
    assert passing(lease, 10.5) == 3 + 2


def test_late_requests_do_not_use_the_new_lease():
    """A late request leaves the new lease whole."""
    lease = granted((5, 100, 0), (2, 100, 10))
    assert lease.take(10.1)
    assert lease.left(10.1) == 2
    assert passing(lease, 10 + ON_THE_WAY) == 2


def test_requests_on_the_way_at_the_expiry_pass():
    """The peer's time runs from the reception: it may still send at the moment of expiry."""
    assert passing(granted((5, 10, 0), (2, 10, 10)), 10.5) == 7
    assert passing(granted((5, 10, 0), (2, 10, 10 + ON_THE_WAY)), 11.5) == 2


def test_requests_on_the_way_at_a_stop_are_rejected():
    """A lease that stops requests also stops those on the way; they do not pass later."""
    assert passing(granted((5, 100, 0), (0, 100, 10)), 10) == 0
    assert passing(granted((5, 100, 0), (5, 0, 10)), 10) == 0
    assert passing(granted((5, 100, 0), (0, 0, 10), (1, 100, 10)), 10) == 1


def test_requests_of_the_last_moment_only_may_pass():
    """Of many leases in a row, only those of the last moment count."""
    lease = granted(*((5, 100, number * ON_THE_WAY / 4) for number in range(50)))
    assert passing(lease, 49 * ON_THE_WAY / 4) == 5 * 5
    lease = granted((5, 100, 0), (3, 100, 5), (1, 100, 5.5))
    assert passing(lease, 5.7) == 5 + 3 + 1
    lease = granted((5, 100, 0), (3, 100, 5), (1, 100, 5.5))
    assert passing(lease, 5 + ON_THE_WAY) == 3 + 1


def test_rejected_requests_are_counted():
    """Each request that was not allowed counts, and no other."""
    lease = granted((2, 10, 0))
    for _ in range(5):
        lease.take(1)
    assert lease.rejected == 3


def test_the_current_lease_is_remembered():
    """The ledger knows how large the lease was, which one it is, and whether it can end."""
    lease = GrantedLease()
    assert (lease.version, lease.requests, lease.stopped) == (0, 0, True)
    lease.replace(2, 10, 0)
    lease.take(1)
    assert (lease.version, lease.requests, lease.stopped) == (1, 2, False)
    lease.replace(2, 0, 0)
    assert (lease.version, lease.stopped) == (2, True)
    lease.replace(0, 10, 0)
    assert (lease.version, lease.stopped) == (3, False)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("lease"), st.integers(0, 4), st.sampled_from([0, 0.5, 1, 3])),
        st.tuples(st.just("request")),
        st.tuples(st.just("time"), st.sampled_from([0.1, 0.5, 1.0, 2.5])),
    ),
    max_size=60,
)


@settings(max_examples=200)
@given(steps)
def test_a_requester_never_exceeds_its_leases(steps):
    """For any sequence of leases, requests and times: a list of permissions gives the same."""
    ledger, now, permissions = HeldLease(), 0.0, []
    for step in steps:
        if step[0] == "lease":
            _, requests, time_to_live = step
            ledger.replace(requests, time_to_live, now)
            permissions = [now + time_to_live] * requests
        elif step[0] == "time":
            now += step[1]
        permissions = [until for until in permissions if now < until]
        assert ledger.left(now) == len(permissions)
        if step[0] == "request":
            assert ledger.take(now) is bool(permissions)
            permissions = permissions[1:]


timelines = st.lists(
    st.tuples(st.floats(0, 0.6), st.one_of(st.integers(1, 4), st.just("request"))), max_size=60
)


@settings(max_examples=300)
@given(timelines, st.floats(0, ON_THE_WAY / 2 - 0.01))
def test_an_honest_peer_is_never_rejected(timeline, latency):
    """With a latency between the two ledgers, the one accepts all that the other sends."""
    held, granted = HeldLease(), GrantedLease()
    leases, requests = deque(), deque()
    now = 0.0
    for delay, step in [*timeline, (ON_THE_WAY, "request")]:
        now += delay
        while requests and requests[0] <= now:
            assert granted.take(requests.popleft())
        while leases and leases[0][0] <= now:
            arrival, number = leases.popleft()
            held.replace(number, 1000, arrival)
        if step != "request":
            granted.replace(step, 1000, now)
            leases.append((now + latency, step))
        elif held.take(now):
            requests.append(now + latency)
