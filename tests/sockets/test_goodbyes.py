"""When connections are told that they end: at a stop, and when they are old; in virtual time."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from math import inf

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionAge, Peer, TransportInfo
from rsocket_trio.sockets.goodbyes import Goodbyes


class Told(list):
    """What connections were told, and when."""

    def peer(self) -> Peer:
        peer = Peer(TransportInfo(scheme="tcp"))

        def end(reason, deadline):
            self.append((trio.current_time(), peer, reason, deadline))

        peer._serves(end)
        return peer

    def times(self):
        return [when for when, *_ in self]


@pytest.fixture
async def stack():
    with ExitStack() as stack:
        yield stack


async def test_five_thousand_clients_come_back_over_the_whole_spread(
    autojump_clock, nursery, stack
):
    """No second has more than 1.5 times its part; each is told once."""
    told, goodbyes = Told(), Goodbyes()
    nursery.start_soon(goodbyes.run)
    peers = [told.peer() for _ in range(5000)]
    for peer in peers:
        stack.enter_context(goodbyes.entered(peer))
    goodbyes.stop(spread=5)
    await trio.sleep(5)
    await trio.testing.wait_all_tasks_blocked()
    assert Counter(peer for _, peer, *_ in told) == Counter(peers)
    assert {(reason, deadline) for _, _, reason, deadline in told} == {
        ("the server is being stopped", inf)
    }
    seconds = Counter(int(when) for when in told.times())
    assert set(seconds) == set(range(5))
    assert max(seconds.values()) <= 1500


async def test_without_a_spread_all_are_told_before_stop_returns(stack):
    """As `Server.stop` begins to stop without waiting."""
    told, goodbyes = Told(), Goodbyes()
    for _ in range(3):
        stack.enter_context(goodbyes.entered(told.peer()))
    goodbyes.stop()
    assert len(told) == 3
    stack.enter_context(goodbyes.entered(told.peer()))  # one that comes later, at once
    assert len(told) == 4


@pytest.mark.parametrize(("second", "last"), [(10, 5), (2, 4), (0, 2), (100, 5)])
async def test_a_second_stop_only_makes_it_quicker(autojump_clock, nursery, stack, second, last):
    """Those that are left keep their order, and are spread over what is left."""
    told, goodbyes = Told(), Goodbyes()
    nursery.start_soon(goodbyes.run)
    for _ in range(1000):
        stack.enter_context(goodbyes.entered(told.peer()))
    goodbyes.stop(spread=5)
    await trio.sleep(2)
    before = len(told)
    assert 300 < before < 500
    goodbyes.stop(spread=second)
    assert (len(told) == 1000) == (last == 2)
    await trio.sleep(100)
    assert len(told) == 1000
    assert max(told.times()) == pytest.approx(last, abs=0.1)
    assert len([when for when in told.times() if 2 < when < (2 + last) / 2]) in (
        range(200, 400) if last > 2 else [0]
    )


async def test_a_share_of_the_grace(autojump_clock, nursery, stack):
    """On a wire whose goodbye is the last word: the time until it, which a later stop shortens."""
    told, goodbyes = Told(), Goodbyes(share=0.5)
    nursery.start_soon(goodbyes.run)
    peer = told.peer()
    stack.enter_context(goodbyes.entered(peer))
    goodbyes.stop(spread=0, grace=10)
    goodbyes.stop(spread=0, grace=20)
    goodbyes.stop(spread=0, grace=0)
    assert [deadline for *_, deadline in told] == [5, 5, 0]


async def test_connections_that_are_over_are_not_told(autojump_clock, nursery):
    told, goodbyes = Told(), Goodbyes(ConnectionAge(10))
    nursery.start_soon(goodbyes.run)
    with goodbyes.entered(told.peer()):
        pass
    with goodbyes.entered(told.peer()):
        goodbyes.stop(spread=5)
    await trio.sleep(20)
    assert told == []


async def test_ages_differ(autojump_clock, nursery, stack):
    """By 10 % each way: what began in one moment does not end in one."""
    told, goodbyes = Told(), Goodbyes(ConnectionAge(100, grace=7))
    nursery.start_soon(goodbyes.run)
    for _ in range(1000):
        stack.enter_context(goodbyes.entered(told.peer()))
    await trio.sleep(1000)
    assert len(told) == 1000
    assert 90 <= min(told.times()) < 91
    assert 109 < max(told.times()) <= 110
    assert {round(deadline - when, 6) for when, _, _, deadline in told} == {7}
    assert {reason for _, _, reason, _ in told} == {
        "the connection has reached its age: connect again"
    }


async def test_some_may_keep_their_connection(autojump_clock, nursery, stack, caplog):
    """`exempt` is asked at the age; if it fails, the connection ends. A stop knows no exception."""

    def exempt(peer):
        if peer.principal == "crash":
            raise RuntimeError("no database")
        return peer.principal == "replica"

    told = Told()
    goodbyes = Goodbyes(ConnectionAge(100, exempt=exempt))
    nursery.start_soon(goodbyes.run)
    for principal in ("user", "replica", "crash"):
        peer = told.peer()
        stack.enter_context(goodbyes.entered(peer))
        peer.principal = principal
    await trio.sleep(1000)
    assert {peer.principal for _, peer, *_ in told} == {"user", "crash"}
    assert "exempt of a ConnectionAge failed" in caplog.text
    del told[:]
    goodbyes.stop()
    assert {peer.principal for _, peer, *_ in told} >= {"replica"}


async def test_the_times_of_old_connections_take_no_room(autojump_clock, nursery):
    """A million short connections with an age of a day leave nothing behind."""
    told, goodbyes = Told(), Goodbyes(ConnectionAge(86400))
    nursery.start_soon(goodbyes.run)
    peer = told.peer()
    for _ in range(10_000):
        with goodbyes.entered(peer):
            pass
    assert len(goodbyes._due) <= 64


@pytest.mark.parametrize(
    "wrong",
    [{"limit": 0}, {"limit": "1h"}, {"limit": 1, "grace": -1}, {"limit": 1, "exempt": "replica"}],
)
def test_an_age_is_checked(wrong):
    with pytest.raises((TypeError, ValueError), match=r"ConnectionAge\."):
        ConnectionAge(**wrong)
