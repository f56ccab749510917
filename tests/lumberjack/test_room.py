"""The room for batches: its bounds, its queue, and what a cancelled waiter leaves."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing

from rsocket_trio.lumberjack import BatchReader
from rsocket_trio.lumberjack.server.room import Room, ShareOfRoom
from rsocket_trio.lumberjack.wire.batches import held_size
from tests.lumberjack.vectors import compressed, event, window


def test_held_size():
    """The events with what objects cost, the compressed payload, and the batch itself."""
    packed = compressed(event(1, b"x" * 100))
    plain = BatchReader().feed(window(1) + event(1, b"x" * 100))
    (batch,) = BatchReader().feed(window(1) + packed)
    assert held_size(plain[0]) == 164 + 512
    assert held_size(batch) == 164 + 512 + len(packed) - 6


async def test_bounds_and_order():
    """No more than fits is granted. Small ones pass a large one; equal ones keep their order."""
    room = Room(3, 100)
    share = ShareOfRoom(room)
    order = []

    async def take(name, size):
        await share.take(size)
        order.append(name)

    async with trio.open_nursery() as nursery:
        for name, size in [("a", 40), ("b", 40), ("large", 90), ("c", 1), ("d", 1)]:
            nursery.start_soon(take, name, size)
            await trio.testing.wait_all_tasks_blocked()
        assert (order, room.waiting) == (["a", "b", "c"], 2)
        share.give_back(40)
        await trio.testing.wait_all_tasks_blocked()
        assert (order, room.waiting) == (["a", "b", "c", "d"], 1)
        share.give_back(40)
        await trio.testing.wait_all_tasks_blocked()
        assert order[4:] == ["large"]
    assert (room.batches, room.size) == (3, 92) == (share.batches, share.size)
    share.close()
    share.close()
    assert (room.batches, room.size) == (0, 0)


async def test_a_large_batch_is_not_overtaken_without_end():
    """However many others come with a small one: it waits for about as many bytes as it has."""
    room = Room(1000, 1000)
    holder, large = ShareOfRoom(room), ShareOfRoom(room)
    await holder.take(1000)
    passed = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(large.take, 900)
        await trio.testing.wait_all_tasks_blocked()
        while not large.batches:
            small = ShareOfRoom(room)
            nursery.start_soon(small.take, 10)
            await trio.testing.wait_all_tasks_blocked()
            holder.close()
            if small.batches:
                passed += 1
                small.close()
            holder = large if large.batches else ShareOfRoom(room)
            if not large.batches:
                await holder.take(1)
            assert passed < 1000
    assert passed < 300


async def test_connections_come_in_the_order_of_asking():
    room = Room(1, 100)
    shares = {ShareOfRoom(room): n for n in range(10)}
    order = []

    async def take(share):
        await share.take(1)
        order.append(shares[share])
        share.give_back(1)

    holder = ShareOfRoom(room)
    await holder.take(1)
    async with trio.open_nursery() as nursery:
        for share in shares:
            nursery.start_soon(take, share)
            await trio.testing.wait_all_tasks_blocked()
        assert room.waiting == 10
        holder.close()
    assert order == list(range(10))


async def test_one_batch_always_fits():
    """A batch larger than the room is held alone."""
    room = Room(3, 100)
    first, second = ShareOfRoom(room), ShareOfRoom(room)
    await first.take(1000)
    with trio.move_on_after(0.01) as scope:
        await second.take(1)
    assert scope.cancelled_caught
    first.close()
    await second.take(1000)
    assert (room.batches, room.size, room.waiting) == (1, 1000, 0)


async def test_a_cancelled_waiter_lets_the_next_one_in():
    room = Room(9, 100)
    holder, first, second = (ShareOfRoom(room) for _ in range(3))
    await holder.take(60)
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def wait():
            with scope:
                await first.take(45)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await second.take(1)  # It passes, but then it has used more than the first one.
        second.give_back(1)
        nursery.start_soon(second.take, 40)
        await trio.testing.wait_all_tasks_blocked()
        assert room.waiting == 2
        scope.cancel()
    assert (first.batches, second.batches, room.size) == (0, 1, 100)


async def test_cancelled_just_when_there_is_room():
    """What a waiter got that had not run since goes to the next one."""
    room = Room(9, 100)
    holder, first, second = (ShareOfRoom(room) for _ in range(3))
    await holder.take(100)
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def wait():
            with scope:
                await first.take(100)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        holder.give_back(100)
        assert first.size == 100
    assert (room.batches, room.size) == (0, 0)
    await second.take(100)


@pytest.mark.parametrize("seed", range(20))
async def test_nothing_is_lost(seed):
    """Whatever is cancelled when: at the end the room is empty, and its bounds held."""
    rnd = random.Random(seed)
    room = Room(4, 100)

    async def one():
        share = ShareOfRoom(room)
        try:
            for _ in range(5):
                size = rnd.choice([1, 10, 60, 150])
                await share.take(size)
                assert room.batches == 1 or (room.batches <= 4 and room.size <= 100)
                for _ in range(rnd.randrange(3)):
                    await trio.lowlevel.checkpoint()
                share.give_back(size)
        finally:
            share.close()

    async with trio.open_nursery() as nursery:
        scopes = []
        for _ in range(20):

            async def run(scope):
                with scope:
                    await one()

            scopes.append(trio.CancelScope())
            nursery.start_soon(run, scopes[-1])
        for scope in rnd.sample(scopes, 10):
            for _ in range(rnd.randrange(4)):
                await trio.lowlevel.checkpoint()
            scope.cancel()
    assert (room.batches, room.size, room.waiting) == (0, 0, 0)
