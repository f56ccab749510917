"""Which host comes next, and when."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.lumberjack.addresses import lumberjack_uri
from rsocket_trio.lumberjack.client.hosts import Host, places_for
from rsocket_trio.lumberjack.client.window_size import WindowSize
from rsocket_trio.protocol.retry import Retry

RETRY = Retry(initial_delay=1, factor=2, max_delay=8, jitter=0, max_attempts=1)
HOSTS = [Host(lumberjack_uri(f"lumberjack://h{n}"), WindowSize(1, 1)) for n in range(3)]


def place_for(hosts=HOSTS):
    (place,) = places_for(hosts, RETRY, lambda: 0.0, load_balance=False)
    return place


def test_load_balance():
    """Each host has a place of its own, or all have one."""
    places = places_for(HOSTS, RETRY, lambda: 0.0, load_balance=True)
    assert [place.hosts for place in places] == [[host] for host in HOSTS]
    assert place_for().hosts == HOSTS


def test_failures_lead_to_the_next_host():
    """The first attempt is at once; the waits grow, also beyond `max_attempts`."""
    place = place_for()
    assert place.not_before < 0
    seen = []
    for _ in range(5):
        seen.append(HOSTS.index(place.host))
        place.failed(100)
        seen.append(place.not_before - 100)
    assert seen == [0, 1, 1, 2, 2, 4, 0, 8, 1, 8]
    assert place.failures == 5


def test_a_success_begins_anew():
    """It is one if it acknowledged events; or if it lasted, and nothing was on the way."""
    for lasted, useful, idle, host in (
        (60, False, True, HOSTS[2]),
        (0.01, True, False, HOSTS[0]),
        (0.01, True, True, HOSTS[2]),
    ):
        place = place_for()
        place.failed(0)
        place.failed(0)
        place.lost(100, lasted, useful=useful, idle=idle)
        assert (place.failures, place.not_before, place.host) == (0, 101, host)


def test_a_server_that_acknowledges_nothing():
    """It is a failure, however long it took."""
    place = place_for()
    place.lost(100, 60, useful=False, idle=False)
    place.lost(200, 60, useful=False, idle=False)
    assert (place.failures, place.not_before, place.host) == (2, 202, HOSTS[2])


def test_a_short_connection_is_no_success():
    place = place_for()
    place.failed(0)
    place.lost(100, 0.9, useful=False, idle=True)
    assert (place.failures, place.not_before, place.host) == (2, 102, HOSTS[2])


def test_the_server_closed_an_idle_connection():
    """It may be well: the same host is next."""
    place = place_for()
    place.lost(100, 60, useful=True, idle=True)
    assert (place.failures, place.not_before, place.host) == (0, 101, HOSTS[0])


def test_we_closed_it():
    """Then the next connection is made at once, to the same host."""
    place = place_for()
    place.failed(100)
    place.closed()
    assert (place.failures, place.not_before < 0, place.host) == (0, True, HOSTS[1])


@given(st.lists(st.sampled_from(["failed", "useful", "useless", "idle", "closed"])))
def test_every_host_gets_its_turn(events):
    """However it went, failures lead through all hosts, and no wait is longer than the longest."""
    place = place_for()
    for now, event in zip(itertools.count(100), events, strict=False):
        if event == "failed":
            place.failed(now)
        elif event == "closed":
            place.closed()
        else:
            place.lost(now, 0.1, useful=event != "useless", idle=event == "idle")
        assert place.not_before <= now + 8
    seen = set()
    for _ in HOSTS:
        seen.add(place.host.uri)
        place.failed(0)
    assert len(seen) == len(HOSTS)
