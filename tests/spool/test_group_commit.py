"""The flusher: transactions, room, order, and a disk that is full or fails."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import ExitStack

import pytest
import trio
import trio.testing

from rsocket_trio.protocol.retry import Retry
from rsocket_trio.spool import SpoolClosed, SpoolConfig, SpoolFailed, open_spool
from rsocket_trio.spool.extent import Extent
from rsocket_trio.spool.requests import Append, Requests
from rsocket_trio.spool.writer import NewRow
from tests.spool.helpers import (
    collect,
    events,
    fault,
    faulty,
    lines,
    offline,
    sized,
    transactions,
    until,
    writer_of,
)

QUICK = SpoolConfig(retry=Retry(initial_delay=0.001, max_delay=0.01))


async def test_tasks_share_a_transaction(directory):
    """What waits when a transaction begins is stored with it."""
    async with open_spool(directory) as spool:
        before = transactions(spool)
        firsts = []

        async def append(number):
            firsts.append(await spool.append(lines(number)))

        async with trio.open_nursery() as nursery:
            for number in range(1, 51):
                nursery.start_soon(append, number)
        assert transactions(spool) - before <= 2
        assert len(set(firsts)) == 50
        batches = await collect(spool.read(0))
        assert sorted(batch.first for batch in batches) == sorted(firsts)
        assert sorted(batch.count for batch in batches) == list(range(1, 51))


async def test_steady_tasks_share_transactions(directory):
    """Eight tasks that append in a loop need about an eighth of the transactions."""
    async with open_spool(directory) as spool:

        async def append():
            for _ in range(25):
                await spool.append(lines(1))

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(append)
        assert spool.head == 200
        assert transactions(spool) < 80


async def test_limits_of_a_transaction(directory):
    """By number and by size."""
    for limits in ({"max_group_batches": 4}, {"max_group_size": 450}):
        async with open_spool(directory, config=SpoolConfig(**limits)) as spool:
            before = transactions(spool)
            async with trio.open_nursery() as nursery:
                for _ in range(12):
                    nursery.start_soon(spool.append, sized(100))
            assert 3 <= transactions(spool) - before <= 4


@pytest.mark.parametrize(
    ("size", "costs", "count"),
    [
        (0, [10] * 5, 3),
        (0, [100, 150, 1], 2),
        (0, [100, 151], 1),
        (0, [300, 1], 1),
        (900, [100, 1], 1),
        (900, [101], 0),
        (900, [60, 41], 1),
    ],
)
def test_the_batches_of_a_transaction(size, costs, count):
    """The limits are exact; one batch that is larger than them goes alone, if it has room."""
    config = SpoolConfig(max_group_batches=3, max_group_size=250)
    requests = Requests(1000, config)
    waiting = [Append(NewRow(sized(100), "{}", cost)) for cost in costs]
    requests.appends.update(dict.fromkeys(waiting))
    extent = Extent(oldest=0, head=9, size=size, batches=9, number=9, before=size)
    assert requests.take_appends(extent, one=False) == waiting[:count]
    assert list(requests.appends) == waiting[count:]


async def test_order_of_appends(directory):
    """They are stored in the order of the calls."""
    async with open_spool(directory) as spool:
        async with trio.open_nursery() as nursery:
            names = []

            async def append(name):
                for number in range(20):
                    names.append(f"{name}{number}")
                    await spool.append(lines(1, f"{name}{number}"))

            for name in "abc":
                nursery.start_soon(append, name)
        stored = [events(batch)[0].split()[0].decode() for batch in await collect(spool.read(0))]
    for name in "abc":
        assert [each for each in stored if each[0] == name] == [f"{name}{n}" for n in range(20)]
    assert stored == names


async def test_a_full_spool_waits_for_its_consumers(directory):
    """Appends wait in order, and go on when there is room for the first of them."""
    async with open_spool(directory, max_size=300) as spool:
        for _ in range(3):
            assert not spool.full
            await spool.append(sized(100))
        assert spool.full
        done = []

        async def append(size):
            await spool.append(sized(size))
            done.append(size)

        async def wait():
            await spool.wait_room()
            done.append("room")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            nursery.start_soon(append, 200)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(append, 100)  # It must not overtake.
            await trio.testing.wait_all_tasks_blocked()
            assert spool.statistics().waiting == 2
            await spool.commit("me", 1)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert (done, spool.full) == ([], True)
            await spool.commit("me", 2)
            await until(lambda: 200 in done and "room" in done)
            assert done == ["room", 200]
            await spool.commit("me", 4)
            await until(lambda: len(done) == 3)
        assert not spool.full
        assert spool.head == 5
        assert spool.statistics().size == 100


async def test_giving_up_in_a_full_spool(directory):
    """A cancelled append leaves the queue, and those behind it go on."""
    async with open_spool(directory, max_size=300) as spool:
        await spool.append(sized(200))
        async with trio.open_nursery() as nursery:
            scope = trio.CancelScope()
            nursery.start_soon(_append_in, scope, spool, sized(200))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(spool.append, sized(100))
            await trio.testing.wait_all_tasks_blocked()
            assert spool.full
            scope.cancel()
            await until(lambda: spool.head == 2)
        assert [len(batch.data) for batch in await collect(spool.read(0))] == [
            len(sized(200).data),
            len(sized(100).data),
        ]


async def _append_in(scope, spool, batch):
    with scope:
        await spool.append(batch)


async def test_room_after_the_only_append_gives_up(directory):
    async with open_spool(directory, max_size=300) as spool:
        await spool.append(sized(200))
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as inner:
                inner.start_soon(spool.append, sized(200))
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(spool.wait_room)
                await trio.testing.wait_all_tasks_blocked()
                assert spool.full
                inner.cancel_scope.cancel()
            assert not spool.full


async def test_a_full_disk(directory, caplog):
    """Appends wait, consumers do not, and everything goes on when there is room."""
    caplog.set_level(logging.INFO)
    async with open_spool(directory, config=QUICK) as spool:
        for _ in range(4):
            await spool.append(sized(100_000))
        connection = writer_of(spool)._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        done = []

        async def append():
            done.append(await spool.append(sized(150_000)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append)
            nursery.start_soon(append)
            await until(lambda: spool.statistics().trouble is not None)
            assert spool.statistics().trouble == "database or disk is full"
            assert done == []
            with trio.fail_after(30):
                await spool.commit("me", 0)
                await spool.commit("me", 2)
            await until(lambda: len(done) == 1)
            assert (done, spool.oldest) == ([4], 2)
            connection.execute(f"PRAGMA max_page_count = {10 * pages}")
        assert done == [4, 5]
        await until(lambda: spool.statistics().trouble is None)
        assert [batch.first for batch in await collect(spool.read(2))] == [2, 3, 4, 5]
    text = caplog.text
    assert "cannot be written now, batches wait: database or disk is full (SQLITE_FULL)" in text
    assert "can be written again" in text
    assert text.count("cannot be written now") <= 6, "within the limit of the log"
    async with open_spool(directory) as spool:
        assert [batch.first for batch in await collect(spool.read(2))] == [2, 3, 4, 5]


PASSING = [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_WRITE,
           sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY]  # fmt: skip


@pytest.mark.parametrize("code", PASSING)
@pytest.mark.parametrize(
    "where", ["BEGIN", "INSERT INTO batches", "COMMIT", "DELETE", "SELECT", "PRAGMA"]
)
async def test_faults_that_pass(directory, where, code):
    """Each statement may fail for a while: nothing is lost, doubled or reordered."""
    async with open_spool(directory, config=QUICK) as spool:
        await spool.append(lines(2, "first"))
        with faulty(spool) as connection:
            left = [3]

            def fail(statement):
                if statement.startswith(where) and left[0]:
                    left[0] -= 1
                    return fault(code)
                return None

            connection.fail = fail
            async with trio.open_nursery() as nursery:
                nursery.start_soon(spool.commit, "me", 2)
                for number in range(3):
                    nursery.start_soon(spool.append, lines(1, f"n{number}"))
                    await trio.testing.wait_all_tasks_blocked()
            assert left == [0] or where == "PRAGMA"
        batches = await collect(spool.read(spool.oldest))
        assert [batch.first for batch in batches] == [2, 3, 4]
        assert sorted(each for batch in batches for each in events(batch)) == [
            b"n0 0",
            b"n1 0",
            b"n2 0",
        ]
        assert spool.positions() == {"me": 2}
    assert len(offline(directory, 2, 5)) == 3


async def test_a_rollback_that_fails(directory):
    """It is tried again before the next transaction. What failed before it says what to do."""
    async with open_spool(directory, config=QUICK) as spool:
        with faulty(spool) as connection:
            bad = {"COMMIT": 2, "ROLLBACK": 1}

            def fail(statement):
                if not bad.get(statement):
                    return None
                bad[statement] -= 1
                is_full = statement == "COMMIT"
                return fault(sqlite3.SQLITE_FULL if is_full else sqlite3.SQLITE_ERROR)

            connection.fail = fail
            assert await spool.append(lines(2, "one")) == 0
            assert bad == {"COMMIT": 0, "ROLLBACK": 0}
            assert spool.statistics().trouble is None
        assert await spool.append(lines(2, "two")) == 2
        assert [events(batch)[0] for batch in await collect(spool.read(0))] == [b"one 0", b"two 0"]


@pytest.mark.parametrize("size", [100, 4_000_000], ids=["small batch", "large batch"])
@pytest.mark.parametrize("what", ["deleted", "replaced", "linked"])
@pytest.mark.parametrize(
    "name", ["spool.sqlite3", "spool.sqlite3-wal", "spool.sqlite3-shm", "spool.lock"]
)
async def test_a_file_that_is_moved_away(directory, name, what, size, caplog):
    """Batches that would go nowhere, or that a crash would lose, are not acknowledged."""
    async with open_spool(directory) as spool:
        await spool.append(lines(1))
        (directory / name).rename(directory / "old")
        if what == "replaced":
            (directory / name).touch()
        elif what == "linked":
            (directory / name).symlink_to(directory / "old")
        text = f"{name} was moved, replaced or deleted while it was open"
        with pytest.raises(SpoolFailed, match=text):
            await spool.append(sized(size))
        with pytest.raises(SpoolFailed, match=text):
            await spool.commit("me", 1)
    assert "cannot be written any more" in caplog.text


async def test_closing_while_the_disk_is_full(directory):
    """All calls that wait are told that the spool is closed."""
    closed = []

    async def wait(call, *args):
        with pytest.raises(SpoolClosed):
            await call(*args)
        closed.append(call)

    async with trio.open_nursery() as outer:
        with ExitStack() as faults:  # to the end: else they could go on while it closes
            async with open_spool(directory) as spool:
                await spool.append(lines(2))
                connection = faults.enter_context(faulty(spool))
                connection.fail = lambda statement: fault(sqlite3.SQLITE_FULL)
                outer.start_soon(wait, spool.append, lines(1))
                outer.start_soon(wait, spool.commit, "me", 1)
                outer.start_soon(wait, spool.forget, "you")
                await until(lambda: spool.statistics().trouble is not None)
    assert len(closed) == 3
    assert len(offline(directory, 0, 2)) == 1


async def test_giving_up_on_a_bad_disk(directory):
    """A batch whose task was cancelled is not tried again."""
    async with open_spool(directory, config=QUICK) as spool:
        with faulty(spool) as connection:
            connection.fail = lambda statement: (
                fault(sqlite3.SQLITE_FULL) if statement == "COMMIT" else None
            )
            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()
                nursery.start_soon(_append_in, scope, spool, lines(1, "given up"))
                await until(lambda: spool.statistics().trouble is not None)
                scope.cancel()
            await until(lambda: spool.statistics().trouble is None)
            connection.fail = lambda statement: None
        await spool.append(lines(1, "stored"))
        assert [events(batch) for batch in await collect(spool.read(0))] == [[b"stored 0"]]


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, 0x0408])
async def test_faults_that_do_not_pass(directory, code, caplog):
    """The tasks that wait are told, and those that come; what is stored can be read."""
    async with open_spool(directory) as spool:
        await spool.append(lines(2))
        with faulty(spool) as connection:
            connection.fail = lambda statement: fault(code)
            with pytest.raises((SpoolFailed, Exception), match="injected") as failed:
                await spool.append(lines(1))
            assert isinstance(failed.value.__cause__, sqlite3.Error)
        for call in (
            lambda: spool.append(lines(1)),
            lambda: spool.commit("me", 1),
            lambda: spool.forget("me"),
            spool.wait_room,
            spool.read(2, follow=True).__anext__,
        ):
            with pytest.raises(Exception, match="injected") as again:
                await call()
            assert again.value is not failed.value
            assert not isinstance(again.value, SpoolClosed)
        assert len(await collect(spool.read(0))) == 1
    assert "cannot be written any more" in caplog.text
    async with open_spool(directory) as spool:
        assert await spool.append(lines(1)) == 2


async def test_a_bug_in_the_thread(directory, caplog):
    """Any other exception ends the spool too, and is its cause."""
    async with open_spool(directory) as spool:
        with faulty(spool) as connection:
            connection.fail = lambda statement: ZeroDivisionError("a bug")
            with pytest.raises(SpoolFailed, match="a bug") as failed:
                await spool.append(lines(1))
            assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert "ZeroDivisionError" in caplog.text


async def test_a_commit_that_failed_after_it_was_stored(directory):
    """The state is read again, so that offsets stay right; the batch may be there twice."""
    async with open_spool(directory, config=QUICK) as spool:
        with faulty(spool) as connection:
            failed = []

            def fail(statement):
                if statement == "COMMIT" and not failed:
                    connection.inner.execute("COMMIT")
                    failed.append(True)
                    return fault(sqlite3.SQLITE_IOERR)
                return None

            connection.fail = fail
            assert await spool.append(lines(2)) == 2
        assert await spool.append(lines(2)) == 4
        assert [batch.first for batch in await collect(spool.read(0))] == [0, 2, 4]
