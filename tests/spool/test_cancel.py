"""Every call, cancelled at every step: nothing is left behind, and the next call works."""

from __future__ import annotations

import threading
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.spool import SpoolClosed, open_spool
from rsocket_trio.testing import assert_no_leaks, cancel_everywhere
from tests.spool.helpers import collect, events, lines, offline, sized, transactions


@pytest.fixture
def left_threads():
    """Find the threads that this test has left: no idle ones of trio, which keeps them a while."""
    before = set(threading.enumerate())
    return lambda: [
        each.name
        for each in threading.enumerate()
        if each not in before and not each.name.startswith("Trio thread")
    ]


async def test_calls_that_are_cancelled_already(directory):
    """They change nothing."""
    async with open_spool(directory) as spool:
        await spool.append(lines(3))
        await spool.commit("me", 1)
        calls = [
            partial(spool.append, lines(3)),
            partial(spool.commit, "me", 2),
            partial(spool.commit, "you", 2),
            partial(spool.forget, "me"),
        ]
        for call in calls * 10:  # The order in which tasks run is random.
            with trio.CancelScope() as scope:
                scope.cancel()
                await call()
            assert scope.cancelled_caught
        await spool.commit("they", 3)
        assert (spool.head, spool.positions()) == (3, {"me": 1, "they": 3})


@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
async def test_append(directory, every_task):
    """The batch is stored as a whole or not at all; those that returned are stored."""
    stored = []
    async with open_spool(directory) as spool:

        async def append():
            batch = lines(3, f"n{len(stored)}")
            before = spool.head
            try:
                first = await spool.append(batch)
            except BaseException:
                stored.append((before, None, batch))
                raise
            stored.append((before, first, batch))

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            assert spool.statistics().waiting == 0
            assert spool.head % 3 == 0

        assert await cancel_everywhere(append, check, every_task=every_task) >= 2
        batches = {batch.first: batch for batch in await collect(spool.read(0))}
    for _, first, batch in stored:
        if first is not None:
            assert batches[first].data == batch.data
    assert set(batches) == set(range(0, spool.head, 3))


async def test_append_to_a_full_spool(directory):
    """A cancelled append leaves the queue, and its batch is not stored later."""
    async with open_spool(directory, max_size=200) as spool:
        await spool.append(sized(200))

        async def append():
            with trio.move_on_after(0.005):
                await spool.append(sized(100))

        async def check():
            assert spool.statistics().waiting == 0
            assert spool.head == 1

        await cancel_everywhere(append, check, every_task=True)
        await spool.commit("me", 1)
        assert (spool.head, spool.statistics().batches) == (1, 0)


@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
async def test_read(directory, every_task):
    """No batch of a reader is lost: it goes on where it was."""
    async with open_spool(directory) as spool:
        for name in "abcd":
            await spool.append(lines(2, name))
        got = []
        readers = []

        async def read():
            readers.append(spool.read(len(got) // 2 % 4 * 2, 8))
            async for batch in readers[-1]:
                got.append(events(batch))

        async def check():
            got.extend([events(batch) async for batch in readers[-1]])
            assert len(got) == 4
            assert [each[0][:1] for each in got] == [b"a", b"b", b"c", b"d"]
            got.clear()

        assert await cancel_everywhere(read, check, every_task=every_task) >= 4


async def test_follow(directory):
    """As above, where the reader waits for events."""
    async with open_spool(directory) as spool:
        reader = spool.read(0, follow=True)
        got = []

        async def read():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(spool.append, lines(1))
                got.append((await reader.__anext__()).first)

        async def check():
            with trio.move_on_after(20):
                while len(got) < spool.head:
                    got.append((await reader.__anext__()).first)
            assert got == list(range(spool.head))

        await cancel_everywhere(read, check)


@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
async def test_commit_and_forget(directory, every_task):
    """The position is the old one or the new one."""
    async with open_spool(directory) as spool:
        await spool.append(lines(1000))
        committed = [0]

        async def move():
            committed[0] += 1
            await spool.commit("me", committed[0])
            await spool.forget("me")
            await spool.forget("me")

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            assert spool.positions().get("me") in {None, committed[0], committed[0] - 1}
            await spool.commit("me", committed[0])
            assert spool.positions() == {"me": committed[0]}

        await cancel_everywhere(move, check, every_task=every_task)


async def test_calls_of_a_task_that_is_cancelled_already(directory):
    """They change nothing, not even for a moment, and write nothing."""
    async with open_spool(directory) as spool:
        await spool.append(lines(10))
        await spool.commit("me", 5)
        before = (transactions(spool), spool.head, spool.instances())
        calls = (
            partial(spool.append, lines(1)),
            partial(spool.commit, "me", 7),
            partial(spool.commit, "other", 5),
            partial(spool.forget, "me"),
        )
        for call in calls * 10:  # The writer may run before the caller or behind it, by chance.
            with trio.CancelScope() as scope:
                scope.cancel()
                await call()
            assert scope.cancelled_caught
            await trio.testing.wait_all_tasks_blocked()
        assert (transactions(spool), spool.head, spool.instances()) == before


@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
async def test_the_block(directory, left_threads, every_task):
    """The lock, the files and the tasks are released, wherever the cancellation comes."""
    kept = []

    async def use():
        async with open_spool(directory) as spool:
            kept.append(await spool.append(lines(1, f"{len(kept)}")))
            assert [batch.first async for batch in spool.read(kept[-1])][-1] >= kept[-1]
            await spool.commit("me", 0)

    async def check():
        await trio.testing.wait_all_tasks_blocked()
        async with open_spool(directory) as spool:
            assert spool.head >= len(kept)

    async with assert_no_leaks():
        await cancel_everywhere(use, check, every_task=every_task)
    assert left_threads() == []
    first = [batch.first for batch in offline(directory, 0, kept[-1] + 1)]
    assert set(kept) <= set(first)


async def test_nothing_is_left_after_use(directory, left_threads):
    """No task, descriptor or thread, with readers that were left early and appends that wait."""

    async def use():
        async with trio.open_nursery() as outer:
            async with open_spool(directory, max_size=1000) as spool:
                await spool.append(sized(900))
                left = spool.read(0)
                await left.__anext__()
                outer.start_soon(closed, partial(spool.append, sized(900)))
                outer.start_soon(closed, spool.read(1, follow=True).__anext__)
                async with trio.open_nursery() as nursery:
                    for _ in range(8):
                        nursery.start_soon(collect, spool.read(0))

    async def closed(call):
        with pytest.raises(SpoolClosed):
            await call()

    async with assert_no_leaks():
        await use()
    assert left_threads() == []
