"""Positions of consumers with several instances: the lowest one that counts."""

from __future__ import annotations

import math
import time
from functools import partial

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio import Rejected
from rsocket_trio.collector import CollectorLimits, reading_router
from rsocket_trio.collector.consumers import Consumers
from rsocket_trio.spool import ConsumerInstance, OffsetNotStored, OffsetTrimmed, open_spool
from rsocket_trio.spool.instances import lowest
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
        self.rows = {}
        self.writes = 0
        for consumer, offset in stored.items():
            self.set(consumer, "", offset)

    def set(self, consumer, name, offset, lease=None, absent=0.0):
        self.rows[consumer, name] = ConsumerInstance(
            consumer=consumer, name=name, offset=offset, seen_at=0, lease=lease, absent=absent
        )

    @property
    def stored(self):
        return lowest(self.rows.values())

    def instances(self):
        return list(self.rows.values())

    async def stored_at(self, offsets):
        await trio.lowlevel.checkpoint()
        return {each: time.time() + each for each in offsets}

    async def commit(self, consumer, offset, *, instance, lease, absent=0.0):
        if offset < 0:
            raise ValueError(offset)
        if offset < self.oldest:
            await trio.lowlevel.checkpoint()
            raise OffsetTrimmed(offset, self.oldest)
        if offset > self.head:
            raise OffsetNotStored(offset, self.head)
        self.set(consumer, instance, offset, lease, absent)
        self.writes += 1
        await self.trim()

    async def forget(self, consumer, *, instance):
        for key in list(self.rows):
            if key[0] == consumer and instance in (None, key[1]):
                del self.rows[key]
        await self.trim()

    async def trim(self):
        await trio.lowlevel.checkpoint()
        if self.rows:
            self.oldest = max(self.oldest, min(self.stored.values()))


def consumers(spool=None, **limits):
    spool = SpoolOfNumbers() if spool is None else spool
    return spool, Consumers(spool, CollectorLimits(**limits))


async def test_the_lowest_position_counts(autojump_clock):
    """Of the instances; and a position may go back to what is kept."""
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


async def test_an_instance_counts_for_its_lease(autojump_clock, caplog):
    """It runs while another one is connected, and anew after each word of its own."""
    spool, all_of_them = consumers(instance_timeout=10)
    gone, here = Peer(), Peer()
    await all_of_them.commit("q", "a", 10, gone)
    await all_of_them.commit("q", "b", 20, here)
    gone.closed = True
    await all_of_them.commit("q", "b", 21, here)
    await trio.sleep(9)
    await all_of_them.commit("q", "b", 22, here)
    assert spool.stored == {"q": 10}
    again = Peer()
    await all_of_them.commit("q", "a", 12, again)
    assert spool.stored == {"q": 12}
    again.closed = True
    await all_of_them.commit("q", "b", 22, here)
    await trio.sleep(9)
    await all_of_them.commit("q", "b", 22, here)
    assert spool.stored == {"q": 12}
    await trio.sleep(2)
    await all_of_them.commit("q", "b", 22, here)
    assert spool.stored == {"q": 22}
    assert "the instance a of the consumer q was away for its lease of 10 s" in caplog.text


async def test_an_instance_names_its_lease(autojump_clock):
    """It is stored, and counts more than the limit's."""
    spool, all_of_them = consumers(instance_timeout=10)
    gone, here = Peer(), Peer()
    await all_of_them.commit("q", "long", 10, gone, 100.0)
    await all_of_them.commit("q", "short", 11, gone, 1.0)
    await all_of_them.commit("q", "here", 50, here)
    assert [each.lease for each in spool.instances()] == [100.0, 1.0, 10.0]
    gone.closed = True
    await all_of_them.commit("q", "here", 50, here)
    await trio.sleep(50)
    await all_of_them.commit("q", "here", 51, here)
    assert set(spool.rows) == {("q", "long"), ("q", "here")}


async def test_a_connected_instance_counts_for_ever(autojump_clock):
    """A batch of a query may take hours."""
    spool, all_of_them = consumers()
    await all_of_them.commit("q", "slow", 10, Peer())
    await trio.sleep(10**9)
    await all_of_them.commit("q", "quick", 90, Peer())
    assert spool.stored == {"q": 10}


async def test_a_consumer_that_is_away_keeps_what_it_needs(autojump_clock):
    """Also if it is away for much longer than its leases, and one instance comes back first."""
    spool, all_of_them = consumers(instance_timeout=10)
    old = Peer()
    await all_of_them.commit("q", "a", 10, old)
    await all_of_them.commit("q", "b", 20, old)
    old.closed = True
    await trio.sleep(1000)
    await all_of_them.commit("other", "a", 90, Peer())
    new = Peer()
    await all_of_them.commit("q", "b", 21, new)
    await trio.sleep(9)
    await all_of_them.commit("q", "b", 22, new)
    assert spool.stored == {"q": 10, "other": 90}


async def test_after_a_restart(autojump_clock):
    """What is stored counts, and how long an instance was away goes on where it was."""
    spool, first = consumers(instance_timeout=100)
    gone, here = Peer(), Peer()
    await first.commit("q", "a", 10, gone)
    await first.commit("q", "b", 20, here)
    gone.closed = True
    await first.commit("q", "b", 21, here)
    await trio.sleep(60)
    await first.commit("q", "b", 22, here)
    assert spool.rows["q", "a"].absent == 60
    for again in range(2):
        await trio.sleep(1000)  # The time without the collector does not count.
        _, second = consumers(spool)
        here = Peer()
        await second.commit("q", "b", 23, here)
        await trio.sleep(30)
        await second.commit("q", "b", 24, here)
        assert spool.stored == {"q": [10, 24][again]}


async def test_a_position_of_a_consumer_without_instances(autojump_clock):
    """Such a row is of an older version, or of the program itself. It has a lease too."""
    spool, known = consumers(SpoolOfNumbers(q=10), instance_timeout=5)
    peer = Peer()
    await known.commit("q", "b", 20, peer)
    assert spool.stored == {"q": 10}
    await trio.sleep(6)
    await known.commit("q", "b", 20, peer)
    assert spool.stored == {"q": 20}


async def test_absences_are_stored_rarely(autojump_clock):
    """A query commits many times a second."""
    spool, known = consumers(instance_timeout=1000)
    gone, here = Peer(), Peer()
    await known.commit("q", "a", 10, gone)
    gone.closed = True
    await known.commit("q", "b", 20, here)
    before = spool.writes
    for _ in range(500):
        await trio.sleep(1)
        await known.commit("q", "b", 20, here)
    assert spool.writes - before - 500 <= 8


async def test_what_the_operator_sees(autojump_clock):
    """Lag, age, whether it is connected, and how much of its lease is left."""
    _, known = consumers(instance_timeout=100)
    gone, here = Peer(), Peer()
    await known.commit("q", "a", 10, gone)
    await known.commit("q", "b", 20, here)
    gone.closed = True
    await known.commit("q", "b", 20, here)
    await trio.sleep(30)
    await known.commit("q", "b", 20, here)
    away, connected = await known.instances()
    assert (away.consumer, away.instance, away.offset, away.lag) == ("q", "a", 10, 90)
    assert away.lag_seconds == 0, "the clock was set back since this event was stored"
    assert (away.connected, away.lease, away.lease_left) == (False, 100, 70)
    assert (connected.connected, connected.lease_left) == (True, 100)
    assert away.age > 10**9, "the fake spool stores no time"


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


async def test_an_instance_that_comes_back_while_its_lease_ends(autojump_clock):
    """Its position is stored behind the end of its lease, so it stays."""

    class Slow(SpoolOfNumbers):
        async def forget(self, consumer, *, instance):
            await super().forget(consumer, instance=instance)
            await trio.sleep(1)

    spool, known = consumers(Slow(), instance_timeout=10)
    gone, here = Peer(), Peer()
    await known.commit("q", "a", 10, gone)
    await known.commit("q", "b", 20, here)
    gone.closed = True
    await known.commit("q", "b", 20, here)
    await trio.sleep(11)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(known.commit, "q", "b", 21, here)
        await trio.sleep(0.5)
        await known.commit("q", "a", 30, Peer())
    await trio.sleep(11)
    await known.commit("q", "b", 40, here)
    assert spool.stored == {"q": 30}


async def test_limits(autojump_clock):
    """Each limit refuses one more, with its name; what is known goes on."""
    spool, all_of_them = consumers(
        SpoolOfNumbers(old=0, gone=0),
        max_consumers=4,
        max_consumers_per_connection=2,
        max_instances=7,
        max_instances_per_connection=3,
        instance_timeout=10,
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
    await refused("a", "6", three, "max_instances")
    await all_of_them.commit("a", "4", 5, two)
    await trio.sleep(11)
    await all_of_them.commit("a", "4", 5, two)  # The leases of two of its instances end here.
    await all_of_them.commit("a", "6", 5, three)
    assert spool.stored["a"] == 5


async def test_instances_of_one_consumer(autojump_clock):
    """One that has a new name each time does not take the place of other consumers."""
    _, known = consumers(max_instances_per_consumer=3)
    for number in range(3):
        await known.commit("q", str(number), 1, Peer())
    with pytest.raises(Rejected, match="max_instances_per_consumer is 3"):
        await known.commit("q", "3", 1, Peer())
    await known.commit("q", "2", 2, Peer())
    await known.commit("other", "3", 1, Peer())


async def test_lower_limits_keep_nobody_out(autojump_clock):
    """Whose position is stored commits again, also if there are more than the limits now allow."""
    spool, known = consumers()
    for number in range(3):
        for consumer in "pqr":
            await known.commit(consumer, str(number), 1, Peer())
    _, known = consumers(
        spool, max_consumers=2, max_instances=4, max_instances_per_consumer=2
    )  # after a restart
    for number in range(3):
        for consumer in "pqr":
            await known.commit(consumer, str(number), 2, Peer())
    assert set(spool.stored.values()) == {2}
    for consumer, which in (("s", "max_consumers"), ("p", "max_consumers")):
        with pytest.raises(Rejected, match=f"{which} is 2"):
            await known.commit(consumer, "new", 1, Peer())


async def test_a_hostile_reader_names_many_instances(autojump_clock):
    """Beyond the limits nothing is stored, nothing is kept, and no spool is asked."""
    spool, known = consumers()
    refusals = 0
    for connection in range(40):
        peer = Peer()
        for number in range(250):
            try:
                await known.commit("q", f"{connection} {number}", 5, peer)
            except Rejected:
                refusals += 1
    limits = CollectorLimits()
    assert len(spool.rows) == spool.writes == limits.max_instances_per_consumer
    assert refusals == 10_000 - spool.writes
    assert sum(len(each.instances) for each in known._consumers.values()) == len(spool.rows)


async def test_refused_positions_leave_nothing(autojump_clock):
    """A name with an offset that is not kept costs no place, as an instance or as a consumer."""
    spool, known = consumers(max_instances=3, max_consumers=1)
    spool.oldest = 50
    peer = Peer()
    for number in range(20):
        with pytest.raises(OffsetTrimmed):
            await known.commit(f"q{number}", "a", 1, peer)
    await known.commit("q", "a", 60, peer)
    with pytest.raises(OffsetTrimmed):
        await known.commit("q", "a", 1, peer)
    assert spool.stored == {"q": 60}, "a position that is refused changes nothing"


async def test_forgetting(autojump_clock):
    """The spool keeps nothing for it, until an instance of it commits again."""
    spool, known = consumers()
    peer = Peer()
    await known.commit("q", "a", 3, peer)
    with pytest.raises(Rejected, match=r"'q' is in use: connected instances: 1"):
        await known.forget("q", instance=None, force=False)
    assert spool.stored == {"q": 3}
    await known.forget("q", instance=None, force=True)
    assert spool.stored == {}
    await known.commit("q", "a", 4, peer)
    assert spool.stored == {"q": 4}
    peer.closed = True
    await known.forget("q", instance=None, force=False)
    assert spool.stored == {}
    with pytest.raises(ValueError, match="no consumer 'other'"):
        await known.forget("other", instance=None, force=True)


async def test_forgetting_an_instance(autojump_clock):
    """The others of its consumer keep what they need."""
    spool, known = consumers()
    gone, here = Peer(), Peer()
    await known.commit("q", "a", 3, gone)
    await known.commit("q", "b", 7, here)
    gone.closed = True
    await known.forget("q", instance="a", force=False)
    assert spool.stored == {"q": 7}
    with pytest.raises(ValueError, match="no consumer 'q' with an instance 'a'"):
        await known.forget("q", instance="a", force=False)
    with pytest.raises(Rejected, match="in use"):
        await known.forget("q", instance="b", force=False)


async def test_a_consumer_of_an_earlier_run_is_forgotten(autojump_clock):
    """It has no instance in this one. The name may be used again at once."""
    spool, known = consumers(SpoolOfNumbers(q=2))
    await known.forget("q", instance=None, force=False)
    assert spool.stored == {}
    await known.commit("q", "a", 5, Peer())
    assert spool.stored == {"q": 5}


async def test_a_commit_that_waits_behind_a_forget(autojump_clock):
    """Its position is stored after it, as this instance is a new one."""

    class Slow(SpoolOfNumbers):
        async def forget(self, consumer, *, instance):
            await super().forget(consumer, instance=instance)
            await trio.sleep(1)

    spool, known = consumers(Slow(q=2))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(known.forget, "q", instance=None, force=False))
        await trio.sleep(0.5)
        await known.commit("q", "a", 5, Peer())
    assert spool.stored == {"q": 5}


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
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from("abc"), st.integers(0, 30)),
        st.tuples(st.just("commit"), st.sampled_from("abc"), st.integers(0, 30)),
        st.tuples(st.just("close"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("sleep"), st.just(""), st.integers(0, 30)),
        st.tuples(st.just("forget"), st.sampled_from("abc"), st.just(0)),
        st.tuples(st.just("restart"), st.just(""), st.integers(0, 30)),
    ),
    max_size=40,
)


@given(STEPS)
def test_any_order(steps):
    """Nothing is deleted that an instance may still ask for, whatever happens in which order.

    The model counts the absence of each instance second by second, from the moment on when it was
    really gone. The collector may count less, as it notices ends late, and never more.
    """

    async def run():
        spool, known = consumers(instance_timeout=10)
        peers, needs, absent = {}, {}, {}
        for step, name, number in steps:
            match step:
                case "commit":
                    peers.setdefault(name, Peer())
                    try:
                        await known.commit("q", name, number, peers[name])
                    except OffsetTrimmed:
                        assert number < spool.oldest
                        assert name not in needs or number < needs[name]
                        if name not in needs:
                            peers.pop(name)
                    else:
                        needs[name], absent[name] = number, 0.0
                case "close":
                    if name in peers:
                        peers.pop(name).closed = True
                case "sleep":
                    await trio.sleep(number / 2)
                    for each in needs:
                        if each not in peers and any(other in needs for other in peers):
                            absent[each] += number / 2
                case "forget":
                    if name in needs and name not in peers and ("q", name) in spool.rows:
                        await known.forget("q", instance=name, force=False)
                        del needs[name]
                case "restart":
                    for each in peers.values():
                        each.closed = True
                    peers.clear()
                    await trio.sleep(number)
                    known = Consumers(spool, CollectorLimits(instance_timeout=10))
            for each in list(needs):
                if ("q", each) not in spool.rows:
                    assert absent[each] >= 10
                    del needs[each]
            assert {key[1]: row.offset for key, row in spool.rows.items()} == needs
            assert spool.oldest <= min(needs.values(), default=math.inf)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_over_rsocket(directory, autojump_clock):
    """The end of a connection ends its instances, after the time."""
    async with open_spool(directory) as spool:
        await spool.append(lines(100))
        router = reading_router(spool, limits=CollectorLimits(instance_timeout=10))
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
            await here.commit("q", 20, instance="b", spool_id=mine)
            info = await here.info(instances=True)
            assert info.positions == {"q": 20}
            [each] = info.instances
            assert (each.instance, each.lag, each.connected) == ("b", 80, True)
            assert each.age < 60
