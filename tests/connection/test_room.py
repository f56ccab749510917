"""Room in the outbox: a task that waits for it may leave the queue from any place."""

from __future__ import annotations

import trio
import trio.testing

from rsocket_trio.connection.room import Room


async def test_thousands_leave_the_queue_last_first():
    """Each leaves in constant time: a search for each of twenty thousand would take minutes."""
    room = Room(1)
    assert room.try_take(1)
    scopes = []

    async def wait():
        with trio.CancelScope() as scope:
            scopes.append(scope)
            await room.wait(1)

    async with trio.open_nursery() as nursery:
        for _ in range(20_000):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert len(room.waiting) == 20_000
        for scope in reversed(scopes[1:]):
            scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert len(room.waiting) == 1
        room.give_back(1)
    assert (room.used, len(room.waiting)) == (1, 0)


async def test_room_is_not_handed_to_a_cancelled_task():
    """A task cancelled while it waits takes no room; the next one gets it."""
    room = Room(10)
    assert room.try_take(10)
    got = []

    async def wait(name):
        await room.wait(10)
        got.append(name)

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as first:
                first.start_soon(wait, "first")
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(wait, "second")
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        room.give_back(10)
    assert got == ["second"]
