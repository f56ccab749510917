"""An honest sender of one event beside many connections with bombs: who is served first.

Nothing here is timed: the tests count turns of the loop, and the work that is done meanwhile.
"""

from __future__ import annotations

import zlib
from collections import Counter
from contextlib import suppress

import pytest
import trio
import trio.testing

from rsocket_trio.lumberjack import BatchReader, LumberjackConfig
from rsocket_trio.lumberjack.server.fair_queue import Account, FairQueue
from rsocket_trio.lumberjack.server.turns import ShareOfTurns, Turns
from tests.lumberjack.receiving import full_window, served, shared
from tests.lumberjack.vectors import compressed, event, window

MIB = 2**20
ATTACKERS = 40
QUANTUM = 4 * MIB


# -- the order


def served_by(queue, accounts):
    """Take all of them out of the queue, each charged with its cost; return the items."""
    found = []
    while (place := queue.first()) is not None:
        queue.remove(place)
        queue.charge(accounts[place.item], place.cost)
        found.append(place.item)
    return found


def test_what_costs_little_passes_a_queue():
    queue = FairQueue()
    accounts = {name: Account() for name in "abcd"}
    for name, cost in (("a", 100), ("b", 100), ("c", 3), ("d", 2)):
        queue.put(accounts[name], cost, name)
    assert len(queue) == 4
    assert served_by(queue, accounts) == ["d", "c", "a", "b"]
    assert (len(queue), queue.first()) == (0, None)


def test_equal_shares():
    """One asks for large pieces, one for small ones: each gets the half."""
    queue = FairQueue()
    accounts = {"large": Account(), "small": Account()}
    cost = {"large": 90, "small": 10}
    used = Counter()
    for name in accounts:
        queue.put(accounts[name], cost[name], name)
    while used.total() < 10_000:
        place = queue.first()
        queue.remove(place)
        queue.charge(accounts[place.item], place.cost)
        used[place.item] += place.cost
        queue.put(accounts[place.item], place.cost, place.item)
    assert abs(used["large"] - used["small"]) <= 100


def test_nothing_is_saved_up():
    """Who was idle for long begins at the present, and has no claim on the past."""
    queue = FairQueue()
    busy, idle = Account(), Account()
    for _ in range(1000):
        queue.charge(busy, 10)
    accounts = {"busy": busy, "idle": idle}
    for name in ("idle", "busy") * 3:
        queue.put(accounts[name], 10, name)
        queue.charge(accounts[name], 10)
    assert sorted(served_by(queue, accounts)[:2]) == ["busy", "idle"]


def test_those_that_left_cost_nothing():
    """The queue forgets them, also behind one that waits for long: it has as many at most."""
    queue = FairQueue()
    queue.put(Account(), 1, "first")
    for _ in range(10_000):
        queue.remove(queue.put(Account(), 5, "gone"))
        assert len(queue) == 1
        assert len(queue._heap) <= 2
    assert queue.first().item == "first"


# -- turns of the loop


class Loop(trio.abc.Instrument):
    """Counts the turns of the loop, and the work in each."""

    def __init__(self):
        self.turn = 0
        self.work = Counter()

    def before_io_wait(self, timeout):
        self.turn += 1


@pytest.fixture
async def loop():
    made = Loop()
    trio.lowlevel.add_instrument(made)
    yield made
    trio.lowlevel.remove_instrument(made)


async def test_the_work_of_a_turn_is_bounded(loop):
    """However many connections can go on: each turn has its quantum, and one step more for each."""
    turns = Turns()

    async def connection():
        share = ShareOfTurns(turns)
        for _ in range(20):
            await share.wait()
            loop.work[loop.turn] += MIB
            share.spent(MIB)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for _ in range(ATTACKERS):
            nursery.start_soon(connection)
    assert loop.work.total() == 20 * ATTACKERS * MIB
    # At first they count as small ones, as nothing is known of them.
    first, *others = (loop.work[turn] for turn in sorted(loop.work))
    assert first <= QUANTUM + MIB
    assert sorted(others)[-2] <= 2 * QUANTUM
    assert turns.waiting == 0


async def test_a_turn_is_over_with_its_last_byte():
    """Not before: a connection that has work for exactly one turn does not wait in it."""
    share = ShareOfTurns(Turns())
    share.spent(QUANTUM - 1)
    assert not share.closed
    share.spent(1)
    assert share.closed
    await share.wait()
    assert not share.closed


async def test_large_work_is_followed_by_turns_for_small_work(loop):
    """While the handler's large batch is paid for, small work is done in the very next turn."""
    turns = Turns()
    large, other, small = (ShareOfTurns(turns) for _ in range(3))
    begun = {}

    async def take(name, share, cost):
        await share.take(cost)
        begun[name] = loop.turn

    async with trio.open_nursery() as nursery:
        await take("large", large, 40 * MIB)
        nursery.start_soon(take, "other", other, 40 * MIB)
        nursery.start_soon(take, "small", small, 1000)
    assert begun["small"] <= begun["large"] + 3
    assert begun["other"] >= begun["large"] + 40 * MIB // QUANTUM


async def test_who_comes_later_passes_nobody():
    """While anybody waits, every turn is over for those who come."""
    turns, seen = Turns(), []

    class Between(trio.abc.Instrument):
        def before_io_wait(self, timeout):
            seen.append((turns.waiting > 0, turns.closed))

    ShareOfTurns(turns).spent(QUANTUM)
    trio.lowlevel.add_instrument(instrument := Between())
    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(ShareOfTurns(turns).take, QUANTUM)
    trio.lowlevel.remove_instrument(instrument)
    assert seen.count((True, True)) >= 3
    assert (True, False) not in seen


async def test_a_cancelled_one_leaves_nothing():
    turns = Turns()
    one, two = ShareOfTurns(turns), ShareOfTurns(turns)
    one.spent(20 * MIB)
    with trio.CancelScope() as scope:
        scope.cancel()
        await two.take(MIB)
    assert scope.cancelled_caught
    assert turns.waiting == 0
    await two.take(MIB)


def test_work_of_many_turns_when_the_run_ends():
    """The next turn is asked for while trio ends, which is no error."""

    async def work():
        ShareOfTurns(Turns()).spent(100 * QUANTUM)

    trio.run(work)


async def test_nobody_waits_alone(loop):
    """A connection without others does not wait for turns that nobody else needs."""
    share = ShareOfTurns(Turns())
    began = loop.turn
    for _ in range(100):
        await share.wait()
        share.spent(10_000)
    assert loop.turn == began


# -- the whole server

BOMBS = {
    "one event": window(1) + compressed(event(1, b'"%s"' % (b"x" * (16 * MIB - 2))), level=9),
    "many events": window(60_000) + compressed(event(1, b"1") * 60_000, level=9),
    "windows": compressed((window(1) + event(1, b"1")) * 4000, level=9),
    "pairs": window(450, 1)
    + compressed((b"1D\0\0\0\1\0\0\4\0" + bytes(8 * 1024)) * 450, version=1, level=9),
    "a half": window(2) + compressed(event(1, b" " * (16 * MIB)), level=9),
}


@pytest.mark.parametrize("name", BOMBS)
async def test_an_honest_sender_beside_bombs(name, monkeypatch, loop):
    """Each honest event is acknowledged after a bounded amount of the attackers' work.

    At some nanoseconds for each byte, the bound is a fraction of a second.
    """
    work = Counter()
    real = BatchReader.feed

    def feed(self, *arguments):
        try:
            return real(self, *arguments)
        finally:
            work["decoded"] += self.work
            loop.work[loop.turn] += self.work

    async def handler(batch):
        work["handled"] += 4 * batch.size

    monkeypatch.setattr(BatchReader, "feed", feed)
    config = LumberjackConfig(max_incoming_size=64 * MIB, max_held_size=64 * MIB)
    of_all = shared(handler, config)
    waits = []
    async with trio.open_nursery() as nursery:

        async def attacker():
            async with served(of_all) as one:
                with suppress(trio.BrokenResourceError):
                    await one.sender.send(BOMBS[name])
                    while name != "a half":
                        await one.sender.send(BOMBS[name])
                await one.over.wait()

        for _ in range(ATTACKERS):
            nursery.start_soon(attacker)
        while work.total() < 60 * MIB:
            await trio.lowlevel.checkpoint()
        for n in range(1, 6):
            before = work.total()
            async with served(of_all) as honest:
                await honest.sender.send(full_window(1, n))
                while (ack := await honest.sender.ack()) == (2, 0):
                    pass
                assert ack == (2, n)
            waits.append(work.total() - before)
        assert of_all.intake.size < (64 + 64 + ATTACKERS / 4) * MIB
        nursery.cancel_scope.cancel()
    assert max(waits) < 256 * MIB
    assert sorted(loop.work.values())[-3] <= 4 * QUANTUM


def test_bombs_are_bombs():
    """The attack is what it says: a few KiB that are much work."""
    assert max(map(len, BOMBS.values())) < 200_000
    assert len(zlib.decompress(BOMBS["one event"][12:])) > 16 * MIB
