"""The keepalive clock, with time as a plain argument."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.protocol.keepalive_clock import KeepaliveClock


def test_a_client_sends_periodically():
    """KEEPALIVEs are due one interval apart, also beside other frames."""
    clock = KeepaliveClock(2.0, 100.0, 10.0)
    assert not clock.due(11.9)
    assert clock.due(12.0)
    clock.sent(12.0)
    clock.received(13.0)
    assert not clock.due(13.9)
    assert clock.due(14.0)


def test_a_late_keepalive_does_not_shift_the_period():
    """A KEEPALIVE sent a little late leaves the time of the next one."""
    clock = KeepaliveClock(2.0, 100.0, 0.0)
    clock.sent(2.5)
    assert clock.next_send == 4.0


def test_missed_keepalives_are_not_sent_later():
    """After a long pause one KEEPALIVE is due, not one for each missed interval."""
    clock = KeepaliveClock(2.0, 100.0, 0.0)
    clock.sent(9.0)
    assert clock.next_send == 11.0


def test_silence_for_the_lifetime_is_death():
    """A peer is dead when no frame came for the whole lifetime, and not a moment earlier."""
    clock = KeepaliveClock(50.0, 5.0, 0.0)
    assert not clock.dead(4.999)
    assert clock.dead(5.0)


def test_any_frame_is_a_sign_of_life():
    """Each frame that arrives puts death off by a whole lifetime."""
    clock = KeepaliveClock(50.0, 5.0, 0.0)
    clock.received(4.0)
    assert not clock.dead(8.999)
    assert clock.dead(9.0)


def test_a_server_only_watches():
    """Without an interval no KEEPALIVE is due, and only death is a deadline."""
    clock = KeepaliveClock(None, 5.0, 1.0)
    assert clock.next_send == inf
    assert not clock.due(1e9)
    clock.sent(2.0)
    assert clock.next_send == inf
    assert clock.next_deadline() == 6.0
    assert repr(clock) == "<KeepaliveClock next_send=inf dead_at=6.0>"


@given(
    st.none() | st.floats(0.001, 1e6),
    st.floats(0.001, 1e6),
    st.floats(0, 1e9),
    st.lists(st.tuples(st.booleans(), st.floats(0, 1e6)), max_size=20),
)
def test_the_deadline_is_exact(interval, lifetime, start, steps):
    """A task that sleeps until the deadline has work to do there, and none before it."""
    clock = KeepaliveClock(interval, lifetime, start)
    now = start
    for receive, pause in steps:
        now += pause
        if receive:
            clock.received(now)
        if clock.due(now):
            clock.sent(now)
            assert not clock.due(now)
        deadline = clock.next_deadline()
        assert clock.due(deadline) or clock.dead(deadline)
        if now < deadline:
            assert not clock.due(now)
            assert not clock.dead(now)


def test_a_keepalive_that_is_late_by_a_whole_interval():
    """The one that is due at the same moment is not sent too."""
    clock = KeepaliveClock(5.0, 90.0, 0.0)
    clock.sent(9.9)
    assert clock.next_send == 10.0
    clock.sent(15.0)
    assert clock.next_send == 20.0
    assert not clock.due(15.0)
