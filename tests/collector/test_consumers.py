"""Positions of consumers with several instances: the lowest one that counts."""

from __future__ import annotations

import math
from functools import partial

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import Rejected
from rsocket_trio.collector import CollectorLimits, reading_router
from rsocket_trio.collector.consumers import Consumers
from rsocket_trio.spool import OffsetNotStored, OffsetTrimmed, open_spool
from tests.collector.conftest import connected
from tests.spool.helpers import lines


class Peer:
    """A connection."""

    closed = False


class SpoolOfNumbers:
    """A spool as `Consumers` sees it; a trim keeps the events from the lowest position on."""

    def __init__(self, head=100, **stored):
        self.head = head
        self.oldest = 0
        self.stored = stored
        self.calls = []

    def positions(self):
        return dict(self.stored)

    async def commit(self, consumer, offset):
        await trio.lowlevel.checkpoint()
        if offset < self.oldest:
            raise OffsetTrimmed(offset, self.oldest)
        self.stored[consumer] = offset
        self.calls.append((consumer, offset))
        self.oldest = max(self.oldest, min(self.stored.values()))

    async def forget(self, consumer):
        await trio.lowlevel.checkpoint()
        del self.stored[consumer]


def consumers(spool=None, **limits):
    spool = SpoolOfNumbers() if spool is None else spool
    return spool, Consumers(spool, CollectorLimits(**limits))


async def test_the_lowest_position_counts(autojump_clock):
    """Of the instances that are alive; and a position may go back to what is kept."""
    spool, all_of_them = consumers()
    one, two = Peer(), Peer()
    await all_of_them.commit("q", "a", 10, one)
    await all_of_them.commit("q", "b", 30, two)
    assert spool.stored == {"q": 10}
    await all_of_them.commit("q", "a", 50, one)
    assert spool.stored == {"q": 30}
    await all_of_them.commit("other", "a", 90, one)
    assert spool.stored == {"q": 30, "other": 90}
    await all_of_them.commit("q", "a", 31, one)
    await all_of_them.commit("q", "b", 60, two)
    assert spool.stored["q"] == 31


async def test_an_instance_counts_for_a_while_after_its_connection(autojump_clock):
    """So a short loss of it does not let others go past it."""
    spool, all_of_them = consumers(instance_timeout=10)
    gone, here = Peer(), Peer()
    await all_of_them.commit("q", "a", 10, gone)
    await all_of_them.commit("q", "b", 20, here)
    gone.closed = True
    await all_of_them.commit("q", "b", 21, here)
    assert spool.stored == {"q": 10}
    await trio.sleep(9)
    await all_of_them.commit("q", "b", 22, here)
    assert spool.stored == {"q": 10}
    again = Peer()
    await all_of_them.commit("q", "a", 12, again)
    assert spool.stored == {"q": 12}
    again.closed = True
    await all_of_them.commit("q", "b", 22, here)
    await trio.sleep(11)
    await all_of_them.commit("q", "b", 22, here)
    assert spool.stored == {"q": 22}


async def test_a_connected_instance_counts_for_ever(autojump_clock):
    """A batch of a query may take hours."""
    spool, all_of_them = consumers()
    await all_of_them.commit("q", "slow", 10, Peer())
    await trio.sleep(100_000)
    await all_of_them.commit("q", "quick", 90, Peer())
    assert spool.stored == {"q": 10}


async def test_the_last_position_stays(autojump_clock):
    """When no instance is left, nothing moves."""
    spool, all_of_them = consumers()
    peer = Peer()
    await all_of_them.commit("q", "a", 10, peer)
    peer.closed = True
    await trio.sleep(1000)
    await all_of_them.commit("other", "a", 90, Peer())
    assert spool.stored == {"q": 10, "other": 90}


async def test_after_a_restart(autojump_clock):
    """The stored position counts for a while: other instances may come back as well."""
    spool, all_of_them = consumers(SpoolOfNumbers(q=10))
    peer = Peer()
    await all_of_them.commit("q", "b", 20, peer)
    assert spool.stored == {"q": 10}
    await trio.sleep(11)
    await all_of_them.commit("q", "b", 20, peer)
    assert spool.stored == {"q": 20}
    await all_of_them.commit("new", "a", 50, peer)
    assert spool.stored["new"] == 50


async def test_a_position_below_the_oldest(autojump_clock):
    """It is refused, and the instance does not hold the others back."""
    spool, all_of_them = consumers()
    late, here = Peer(), Peer()
    await all_of_them.commit("q", "a", 10, here)
    for offset, error in ((9, OffsetTrimmed), (101, OffsetNotStored), (-1, ValueError)):
        with pytest.raises(error):
            await all_of_them.commit("q", "b", offset, late)
    await all_of_them.commit("q", "a", 20, here)
    assert spool.stored == {"q": 20}


async def test_a_position_that_is_trimmed_while_it_waits(autojump_clock):
    """It is refused. Another instance's position, committed before, has won."""
    spool, all_of_them = consumers()
    one, two = Peer(), Peer()
    await all_of_them.commit("q", "a", 10, one)
    refused = []

    async def late():
        with pytest.raises(OffsetTrimmed) as error:
            await all_of_them.commit("q", "b", 15, two)
        refused.append(error.value)

    commit, gate = spool.commit, trio.Event()

    async def slow(consumer, offset):
        await gate.wait()
        await commit(consumer, offset)

    spool.commit = slow
    async with trio.open_nursery() as nursery:
        nursery.start_soon(all_of_them.commit, "q", "a", 40, one)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(late)
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
    assert [(each.offset, each.oldest) for each in refused] == [(15, 40)]
    await all_of_them.commit("q", "a", 50, one)
    assert spool.stored == {"q": 50}


async def test_an_instance_that_goes_back_too_late(autojump_clock):
    """Its last position is refused. The one before, which waited as well, is no error."""
    spool, all_of_them = consumers()
    one = Peer()
    commit, gate = spool.commit, trio.Event()

    async def slow(consumer, offset):
        await gate.wait()
        await commit(consumer, offset)

    async def back():
        with pytest.raises(OffsetTrimmed):
            await all_of_them.commit("q", "a", 5, one)

    spool.commit = slow
    async with trio.open_nursery() as nursery:
        nursery.start_soon(all_of_them.commit, "q", "a", 20, one)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(all_of_them.commit, "q", "a", 25, one)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(back)
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
    assert spool.stored == {"q": 20}


async def test_limits(autojump_clock):
    """Each limit refuses one more, with its name; what is known goes on."""
    spool, all_of_them = consumers(
        SpoolOfNumbers(old=0, gone=0),
        max_consumers=4,
        max_consumers_per_connection=2,
        max_instances=5,
        max_instances_per_connection=3,
    )

    async def refused(consumer, instance, peer, name):
        with pytest.raises(Rejected, match=f"{name} is"):
            await all_of_them.commit(consumer, instance, 5, peer)

    one, two, three = Peer(), Peer(), Peer()
    await all_of_them.commit("a", "1", 5, one)
    await all_of_them.commit("b", "1", 5, one)
    await refused("old", "1", one, "max_consumers_per_connection")
    await refused("c", "1", two, "max_consumers")
    await all_of_them.commit("a", "2", 5, one)
    await refused("a", "3", one, "max_instances_per_connection")
    await all_of_them.commit("a", "1", 6, one)
    await all_of_them.commit("a", "4", 5, two)
    await all_of_them.commit("a", "5", 5, two)
    await refused("a", "6", three, "max_instances")
    one.closed = True
    with pytest.raises(Rejected):
        await all_of_them.commit("a", "6", 5, three)
    await trio.sleep(11)
    await all_of_them.commit("a", "6", 5, three)
    assert spool.stored["a"] == 5


async def test_forgetting(autojump_clock):
    """The spool keeps nothing for it, until an instance of it commits again."""
    spool, known = consumers()
    peer = Peer()
    await known.commit("q", "a", 3, peer)
    with pytest.raises(Rejected, match=r"'q' is in use: 1 of its instances"):
        await known.forget("q", force=False)
    assert spool.positions() == {"q": 3}
    await known.forget("q", force=True)
    assert spool.positions() == {}
    await known.commit("q", "a", 4, peer)
    assert spool.positions() == {"q": 4}
    peer.closed = True
    await known.forget("q", force=False)
    assert spool.positions() == {}
    with pytest.raises(ValueError, match="no consumer 'other'"):
        await known.forget("other", force=True)


async def test_a_consumer_of_an_earlier_run_is_forgotten(autojump_clock):
    """It has no instance in this one. The name may be used again at once."""
    spool, known = consumers(SpoolOfNumbers(q=2))
    await known.forget("q", force=False)
    assert spool.positions() == {}
    await known.commit("q", "a", 5, Peer())
    assert spool.positions() == {"q": 5}


async def test_a_commit_that_waits_behind_a_forget(autojump_clock):
    """Its position is stored after it, as this instance is a new one."""

    class Slow(SpoolOfNumbers):
        async def forget(self, consumer):
            await trio.sleep(1)
            await super().forget(consumer)

    spool, known = consumers(Slow(q=2))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(known.forget, "q", force=False))
        await trio.sleep(0.5)
        await known.commit("q", "a", 5, Peer())
        assert trio.current_time() >= 1
    assert spool.positions() == {"q": 5}


async def test_an_instance_that_moves_to_another_connection(autojump_clock):
    """It counts for the new one."""
    _, all_of_them = consumers(max_instances_per_connection=1, max_instances=2)
    one, two = Peer(), Peer()
    await all_of_them.commit("a", "1", 5, one)
    await all_of_them.commit("a", "2", 5, two)
    with pytest.raises(Rejected, match="max_instances_per_connection"):
        await all_of_them.commit("a", "1", 6, two)
    two.closed = True
    three = Peer()
    await all_of_them.commit("a", "2", 6, three)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "close", "sleep"]),
        st.sampled_from("abc"),
        st.integers(0, 30),
    ),
    max_size=40,
)


@given(STEPS)
def test_any_order(steps):
    """The position is the lowest one that counts, whatever happens in which order."""

    async def run():
        spool, all_of_them = consumers(instance_timeout=10)
        peers, offsets, gone = {}, {}, {}
        position = None
        for step, name, number in steps:
            now = trio.current_time()
            match step:
                case "commit":
                    if peers.get(name) is None:
                        peers[name] = Peer()
                    # Those that are gone are noticed at the next commit of this consumer.
                    if number >= spool.oldest:
                        gone = {each: now if at is None else at for each, at in gone.items()}
                    try:
                        await all_of_them.commit("q", name, number, peers[name])
                    except OffsetTrimmed:
                        assert number < spool.oldest
                        continue
                    gone.pop(name, None)
                    offsets[name] = number
                    offsets = {
                        each: offset
                        for each, offset in offsets.items()
                        if gone.get(each, math.inf) > now - 10 and offset >= spool.oldest
                    }
                    gone = {each: at for each, at in gone.items() if each in offsets}
                    position = min(offsets.values())
                    assert spool.stored == {"q": position}
                case "close":
                    if peers.get(name) is not None:
                        peers[name].closed = True
                        peers[name] = None
                        if name in offsets:
                            gone[name] = None
                case "sleep":
                    await trio.sleep(number / 2)
        assert spool.stored == ({} if position is None else {"q": position})

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_over_rsocket(directory, autojump_clock):
    """The end of a connection ends its instances, after the time."""
    async with open_spool(directory) as spool:
        await spool.append(lines(100))
        router = reading_router(spool)
        mine = spool.spool_id
        async with connected(router) as here:
            async with connected(router) as there:
                await there.commit("q", 10, instance="a", spool_id=mine)
                info = await here.commit("q", 20, instance="b", spool_id=mine)
                assert info.positions == {"q": 10}
                await trio.sleep(1000)
                assert (await here.commit("q", 20, instance="b", spool_id=mine)).positions == {
                    "q": 10
                }
            assert (await here.commit("q", 20, instance="b", spool_id=mine)).positions == {"q": 10}
            await trio.sleep(11)
            assert (await here.commit("q", 20, instance="b", spool_id=mine)).positions == {"q": 20}
