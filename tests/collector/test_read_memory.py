"""The memory for batches on the way to readers: bounded, given in order, and taken back."""

from __future__ import annotations

from functools import partial

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from rsocket_trio import CustomError
from rsocket_trio.collector import CollectorLimits
from rsocket_trio.collector.read_memory import ReadMemory, Share

LIMITS = CollectorLimits(
    max_read_memory=100,
    max_read_memory_per_connection=40,
    max_read_wait=10,
    stall_time=10,
    min_read_rate=1.0,
)


class Peer:
    """Stands in for a connection."""


def share_of(peer, evicted=None):
    made = Share(peer, lambda: None)
    made.evict = (lambda: None) if evicted is None else partial(evicted.append, made)
    return made


async def full(memory, *sizes):
    """Shares of as many connections, whose batches are in memory."""
    shares = [share_of(Peer()) for _ in sizes]
    for share, size in zip(shares, sizes, strict=True):
        await memory.take(share, size)
        memory.loaded(share)
    return shares


async def waiting(nursery, memory, share, size, done):
    """A range that waits in the line."""

    async def wait():
        await memory.take(share, size)
        done.append(share)

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()


async def test_there_is_room_up_to_the_limit(autojump_clock):
    """The next one waits until enough is given back."""
    memory = ReadMemory(LIMITS)
    one, two, three = await full(memory, 40, 40, 20)
    assert memory.used == 100
    done = []
    async with trio.open_nursery() as nursery:
        late = share_of(Peer())
        await waiting(nursery, memory, late, 30, done)
        memory.give_back(three)
        memory.give_back(three)
        await wait_all_tasks_blocked()
        assert not done
        memory.give_back(two)
        await wait_all_tasks_blocked()
        assert done == [late]
    assert memory.used == 70
    memory.give_back(one)
    memory.give_back(late)
    assert memory.used == 0


async def test_a_line(autojump_clock):
    """A large one is not overtaken for ever by small ones that come later."""
    memory = ReadMemory(LIMITS)
    one, two, _ = await full(memory, 40, 40, 20)
    large, small = share_of(Peer()), share_of(Peer())
    done = []
    async with trio.open_nursery() as nursery:
        await waiting(nursery, memory, large, 60, done)
        await waiting(nursery, memory, small, 1, done)
        memory.give_back(one)
        await wait_all_tasks_blocked()
        assert not done
        memory.give_back(two)
        await wait_all_tasks_blocked()
        assert {*done} == {large, small}  # Trio runs them in any order.


async def test_a_connection_that_has_its_part_holds_back_no_other(autojump_clock):
    """Those behind it in the line go on; its own ranges take turns."""
    memory = ReadMemory(LIMITS)
    peer = Peer()
    first, second, third = (share_of(peer) for _ in range(3))
    other = share_of(Peer())
    done = []
    async with trio.open_nursery() as nursery:
        for share in (first, second, third):
            await waiting(nursery, memory, share, 30, done)
        await waiting(nursery, memory, other, 30, done)
        assert done == [first, other]
        memory.give_back(first)
        await wait_all_tasks_blocked()
        assert done == [first, other, second]
        memory.give_back(second)


async def test_a_batch_larger_than_all_is_alone(autojump_clock):
    """It waits for all others, and all others wait for it."""
    memory = ReadMemory(LIMITS)
    (small,) = await full(memory, 1)
    huge, late = share_of(Peer()), share_of(Peer())
    done = []
    async with trio.open_nursery() as nursery:
        await waiting(nursery, memory, huge, 10_000, done)
        await waiting(nursery, memory, late, 1, done)
        assert not done
        memory.give_back(small)
        await wait_all_tasks_blocked()
        assert done == [huge]
        assert memory.used == 10_000
        memory.give_back(huge)
        await wait_all_tasks_blocked()
        assert done == [huge, late]


async def test_the_wait_ends(autojump_clock):
    """The text says which limit it is. Those that were held back by it go on."""
    limits = attrs.evolve(LIMITS, stall_time=99)
    memory = ReadMemory(limits)
    kept = await full(memory, 40, 40, 10)
    done = []
    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        nursery.start_soon(partial(trio.sleep, 5))

        async def fails():
            with pytest.raises(CustomError, match=r"90 bytes.*no room for 11.*max_read_memory is"):
                await memory.take(share_of(Peer()), 11)
            assert trio.current_time() - start == pytest.approx(10)

        nursery.start_soon(fails)
        await trio.sleep(1)
        await waiting(nursery, memory, share_of(Peer()), 10, done)
        assert not done
        with pytest.raises(CustomError, match=r"this reader.*max_read_memory_per_connection is 40"):
            await memory.take(share_of(kept[0].peer), 1)
        await trio.sleep(0)
        assert done


@pytest.mark.parametrize("moving", [False, True])
async def test_a_reader_that_takes_nothing(autojump_clock, moving):
    """All of it loses its memory after `stall_time`, once another one waits; it is told once."""
    memory = ReadMemory(LIMITS)
    evicted = []
    peer = Peer()
    shares = [share_of(peer, evicted) for _ in range(2)]
    for share in shares:
        await memory.take(share, 20)
        memory.loaded(share)
    others = await full(memory, 40, 20)
    await trio.sleep(9)
    if moving:
        memory.moved(shares[0])
    for other in others:
        memory.moved(other)
    done = []
    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        late = share_of(Peer())
        await waiting(nursery, memory, late, 30, done)
        assert not evicted
        await trio.sleep(3)
        assert evicted == ([] if moving else shares)
        if not moving:
            for share in evicted:
                memory.give_back(share)
            await wait_all_tasks_blocked()
            assert done == [late]
            assert trio.current_time() - start < 4
        nursery.cancel_scope.cancel()


async def test_a_reader_that_takes_a_byte_now_and_then(autojump_clock):
    """It loses its memory later, so it cannot keep others out."""
    memory = ReadMemory(LIMITS)
    evicted = []
    slow = share_of(Peer(), evicted)
    await memory.take(slow, 100)
    memory.loaded(slow)
    refusals = 0
    async with trio.open_nursery() as nursery:

        async def nibble():
            while True:
                await trio.sleep(1)
                memory.moved(slow)

        nursery.start_soon(nibble)
        start = trio.current_time()
        while not evicted:
            with pytest.raises(CustomError, match="max_read_memory"):
                await memory.take(share_of(Peer()), 1)
            refusals += 1
        # 10 s, and 100 bytes at one byte per second.
        assert 110 <= trio.current_time() - start <= 125
        nursery.cancel_scope.cancel()
    assert refusals >= 11


async def test_a_slow_disk_is_not_the_fault_of_the_reader(autojump_clock):
    memory = ReadMemory(LIMITS)
    evicted = []
    share = share_of(Peer(), evicted)
    await memory.take(share, 100)
    with pytest.raises(CustomError):
        await memory.take(share_of(Peer()), 1)
    with pytest.raises(CustomError):
        await memory.take(share_of(Peer()), 1)
    assert not evicted
    memory.loaded(share)
    with pytest.raises(CustomError):
        await memory.take(share_of(Peer()), 1)
    assert evicted == [share]  # The time has begun with `loaded`.


async def test_the_part_of_a_connection_is_taken_from_itself(autojump_clock):
    """The stalled ranges of others do not help it, so they stay."""
    memory = ReadMemory(LIMITS)
    evicted = []
    peer = Peer()
    mine, other = share_of(peer, evicted), share_of(Peer(), evicted)
    for share in (mine, other):
        await memory.take(share, 30)
        memory.loaded(share)
    with pytest.raises(CustomError, match="per_connection"):
        await memory.take(share_of(peer), 30)
    assert evicted == [mine]


SIZES = st.sampled_from([1, 10, 39, 40, 41, 90, 100, 101, 500])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 3), SIZES),
        st.tuples(st.sampled_from(["give back", "cancel", "load", "move"]), st.integers(0, 20)),
        st.tuples(st.just("sleep"), st.sampled_from([0.5, 3.0, 11.0])),
    ),
    max_size=40,
)


@given(STEPS)
def test_any_order(steps):
    """The memory is never beyond its limits, all that wait get on, and nothing is left."""
    trio.run(_any_order, steps, clock=MockClock(autojump_threshold=0))


async def _any_order(steps):
    memory = ReadMemory(LIMITS)
    peers = [Peer() for _ in range(4)]
    ranges = []

    class Range:
        def __init__(self, peer, size):
            self.share = Share(peer, self.evict)
            self.size = size
            self.scope = trio.CancelScope()
            self.state = "waits"

        def evict(self):
            assert self.share.size
            self.scope.cancel()

        async def run(self):
            try:
                with self.scope:
                    try:
                        await memory.take(self.share, self.size)
                    except CustomError:
                        self.state = "refused"
                        return
                    self.state = "has"
                    await trio.sleep_forever()
            finally:
                memory.give_back(self.share)
                if self.state != "refused":
                    self.state = "over"

    def check():
        holders = [each for each in ranges if each.share.size]
        assert memory.used == sum(each.share.size for each in holders)
        assert memory.used <= LIMITS.max_read_memory or len(holders) == 1
        for peer in peers:
            own = [each.share.size for each in holders if each.share.peer is peer]
            assert sum(own) <= LIMITS.max_read_memory_per_connection or len(own) == 1

    async with trio.open_nursery() as nursery:
        for step in steps:
            match step:
                case ("take", peer, size):
                    ranges.append(Range(peers[peer], size))
                    nursery.start_soon(ranges[-1].run)
                case ("sleep", time):
                    await trio.sleep(time)
                case (what, number) if ranges:
                    chosen = ranges[number % len(ranges)]
                    if what == "give back":
                        memory.give_back(chosen.share)
                    elif what == "cancel":
                        chosen.scope.cancel()
                    elif what == "load":
                        memory.loaded(chosen.share)
                    else:
                        memory.moved(chosen.share)
            check()
            await trio.testing.wait_all_tasks_blocked()
            check()
        # Readers take what they get: all that wait get on now, and nothing is left.
        for _ in range(len(ranges) + 1):
            for each in ranges:
                if each.state == "has":
                    each.scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            check()
        assert all(each.state in ("over", "refused") for each in ranges)
    assert memory.used == 0
    assert not memory._line
    assert not memory._connections
