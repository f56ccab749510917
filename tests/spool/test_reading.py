"""Readers: ranges, limits of a query, following, and reading while batches are deleted."""

from __future__ import annotations

import sqlite3
import threading

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio.spool import (
    OffsetNotStored,
    OffsetTrimmed,
    SpoolConfig,
    SpoolFailed,
    WrongSpool,
    open_spool,
    read_range,
)
from rsocket_trio.spool import reader as reader_module
from rsocket_trio.spool.extent import read_extent
from rsocket_trio.spool.queries import fetch
from rsocket_trio.spool.schema import connect_reader
from rsocket_trio.testing import assert_no_leaks
from tests.spool.helpers import (
    FaultyConnection,
    collect,
    events,
    fault,
    faulty,
    lines,
    offline,
    sized,
    spans,
    until,
    writer_of,
)


@pytest.fixture
async def spool(directory):
    """Events 0 to 9 in batches of 3, 1, 4 and 2."""
    async with open_spool(directory) as spool:
        for count, name in zip((3, 1, 4, 2), "abcd", strict=True):
            await spool.append(lines(count, name))
        yield spool


EVENTS = [b"a 0", b"a 1", b"a 2", b"b 0", b"c 0", b"c 1", b"c 2", b"c 3", b"d 0", b"d 1"]


@pytest.mark.parametrize("limits", [SpoolConfig(), SpoolConfig(max_read_batches=1)])
async def test_every_range(directory, limits):
    """Each range has exactly its events, within trio and without."""
    async with open_spool(directory, config=limits) as spool:
        for count, name in zip((3, 1, 4, 2), "abcd", strict=True):
            await spool.append(lines(count, name))
        for start in range(11):
            for stop in range(start, 11):
                batches = await collect(spool.read(start, stop))
                assert batches == offline(directory, start, stop, config=limits)
                assert [each for batch in batches for each in events(batch)] == EVENTS[start:stop]
                assert sum(batch.wanted for batch in batches) == stop - start


async def test_a_range_within_a_batch(spool):
    """The whole batch comes, and says which events were asked for."""
    [batch] = await collect(spool.read(5, 7))
    assert (batch.first, batch.end, batch.start, batch.stop) == (4, 8, 5, 7)
    assert (batch.skip, batch.wanted) == (1, 2)
    assert len(batch.data.splitlines()) == 4


async def test_without_stop_it_ends_at_the_head_of_the_call(spool):
    """A writer that is faster than the reader does not keep it reading."""
    reader = spool.read(4)
    await spool.append(lines(5))
    assert spans(await collect(reader)) == [(4, 8), (8, 10)]
    assert await collect(spool.read(15)) == []


async def test_the_offset_of_a_reader(spool):
    """It is the offset of the next event, so a new reader can go on there."""
    reader = spool.read(1)
    seen = [reader.offset]
    async for batch in reader:
        seen.append(reader.offset)
        assert reader.offset == batch.stop
    assert seen == [1, 3, 4, 8, 10]
    with pytest.raises(StopAsyncIteration):
        await reader.__anext__()


@pytest.mark.parametrize(
    ("start", "stop", "error"),
    [
        (11, None, OffsetNotStored),
        (3, 11, OffsetNotStored),
        (-1, None, ValueError),
        (5, 4, ValueError),
        ("1", None, TypeError),
        (1, 2.0, TypeError),
    ],
)
async def test_no_ranges(spool, directory, start, stop, error):
    """What is not stored is an error before anything is read."""
    with pytest.raises(error):
        spool.read(start, stop)
    with pytest.raises(error):
        offline(directory, start, start if stop is None else stop)


async def test_following(spool):
    """A follower gets batches as they are stored, up to its end."""
    got = []

    async def follow(stop):
        async for batch in spool.read(3, stop, follow=True):
            got.append((batch.start, batch.stop))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, 13)
        await until(lambda: len(got) == 3)
        assert got == [(3, 4), (4, 8), (8, 10)]
        await spool.append(lines(2))
        await until(lambda: len(got) == 4)
        assert got[3:] == [(10, 12)]
        await spool.append(lines(3))
    assert got[4:] == [(12, 13)]
    with pytest.raises(OffsetNotStored):
        spool.read(16, follow=True)
    with pytest.raises(ValueError, match="16 to 15 is not a range"):
        spool.read(16, 15, follow=True)


async def test_trimmed_offsets(spool, directory):
    """The error has the oldest offset that can be read."""
    await spool.commit("me", 5)
    assert spool.oldest == 4
    for read in (
        lambda: spool.read(3),
        lambda: spool.read(0, 2),
        lambda: spool.read(0, follow=True),
    ):
        with pytest.raises(OffsetTrimmed) as refused:
            read()
        assert refused.value.oldest == 4
    with pytest.raises(OffsetTrimmed) as refused:
        offline(directory, 2, 9)
    assert (refused.value.offset, refused.value.oldest) == (2, 4)
    assert spans(await collect(spool.read(4))) == [(4, 8), (8, 10)]


async def test_trimming_while_reading(directory):
    """A reader gets everything in order, or the error; and never a gap."""
    config = SpoolConfig(max_read_batches=1)
    async with open_spool(directory, config=config) as spool:
        for _ in range(6):
            await spool.append(lines(2))
        reader = spool.read(0)
        slow = read_range(directory, 0, 12, config=config)
        assert (await reader.__anext__()).start == next(slow).start == 0
        await spool.commit("me", 6)
        with pytest.raises(OffsetTrimmed) as refused:
            await reader.__anext__()
        assert (refused.value.offset, refused.value.oldest) == (2, 6)
        with pytest.raises(OffsetTrimmed):
            next(slow)
        await spool.commit("me", 12)
        with pytest.raises(OffsetTrimmed):
            await reader.__anext__()


async def test_readers_and_writer_at_once(directory):
    """Many readers follow while batches come and go; each sees every event once."""
    config = SpoolConfig(max_read_batches=3, checkpoint_size=2**16)
    total, readers, behind = 200, 6, []
    async with open_spool(directory, max_size=20_000, config=config) as spool:
        for number in range(readers):
            await spool.commit(f"reader {number}", 0)

        async def write():
            for number in range(total):
                await spool.append(lines(3, f"batch {number:03}" + "." * 300))

        async def read(number):
            at = 0
            async for batch in spool.read(0, 3 * total, follow=True):
                assert batch.start == at
                assert events(batch)[0].startswith(b"batch %03d." % (at // 3))
                at = batch.stop
                if at % 15 == 0:
                    await spool.commit(f"reader {number}", at)
            behind.append(at)

        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(write)
                for number in range(readers):
                    nursery.start_soon(read, number)
        assert behind == [3 * total] * readers
        assert spool.oldest == spool.head == 3 * total
        # The log of the database was emptied in between.
        assert (directory / "spool.sqlite3-wal").stat().st_size < 2**20


async def test_limits_of_a_query(directory):
    """A query returns some batches, by number and by size, and at least one."""
    async with open_spool(directory) as spool:
        for _ in range(10):
            await spool.append(lines(1, "x" * 1000))
        connection = writer_of(spool)._connection

        def first(**limits):
            return len(fetch(connection, 0, 10, SpoolConfig(**limits)))

        assert first() == 10
        assert first(max_read_batches=4) == 4
        assert first(max_read_size=1) == 1
        assert first(max_read_size=3000) == 2
        assert first(max_read_size=3300) == 3


async def test_a_large_batch_behind_a_small_one(directory):
    """A reader has it in memory alone, although the small one had room for more behind it."""
    config = SpoolConfig(max_read_size=2000)
    async with open_spool(directory, config=config) as spool:
        for size in (100, 9000, 100, 1900, 100):
            await spool.append(sized(size, count=2))
        reader = spool.read(1, 9)
        seen = []
        while (ahead := await reader.look_ahead()) is not None:
            assert await reader.look_ahead() is ahead
            seen.append((ahead.head.start, ahead.stop, ahead.count, ahead.cost))
            for n in range(ahead.count):
                batch = await anext(reader)
                if n == 0:
                    assert attrs.evolve(batch, data=b"") == ahead.head
                    assert len(batch.data) == ahead.size
                assert (await reader.look_ahead() is None) == (
                    n < ahead.count - 1 or batch.stop == 9
                )
            assert batch.stop == ahead.stop
        assert seen == [(1, 2, 1, 100), (2, 4, 1, 9000), (4, 8, 2, 2000), (8, 9, 1, 100)]
        assert await collect(reader) == []


async def test_batches_that_are_deleted_after_a_look(directory):
    """The reader is told, as without the look."""
    async with open_spool(directory) as spool:
        for _ in range(3):
            await spool.append(lines(2))
        await spool.commit("q", 0)
        reader = spool.read(0)
        assert (await reader.look_ahead()).stop == 6
        await spool.commit("q", 4)
        with pytest.raises(OffsetTrimmed):
            await anext(reader)
        with pytest.raises(OffsetTrimmed):
            await reader.look_ahead()


async def test_one_task_at_a_time(spool):
    """Two tasks at one reader are told."""
    reader = spool.read(10, follow=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.__anext__)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await reader.__anext__()
        await spool.append(lines(1))


async def test_the_right_spool(spool, directory):
    """A reader may insist on the identity."""
    assert len(offline(directory, 0, 10, spool_id=spool.spool_id)) == 4
    with pytest.raises(WrongSpool, match=f"has the spool {spool.spool_id}, not another"):
        offline(directory, 0, 10, spool_id="another")


async def test_a_query_that_fails(spool, monkeypatch):
    """The reader is told, and may try again: its connection is replaced."""
    await collect(spool.read(0))
    reader = spool.read(0)

    def fail(*_args):
        raise fault(sqlite3.SQLITE_IOERR_READ)

    with monkeypatch.context() as patch:
        patch.setattr(reader_module, "fetch", fail)
        with pytest.raises(SpoolFailed, match="injected"):
            await reader.__anext__()
    assert spans(await collect(reader)) == [(0, 3), (3, 4), (4, 8), (8, 10)]


async def test_closing_while_a_query_runs(directory, monkeypatch):
    """The thread of the query closes its connection."""
    began, go = threading.Event(), threading.Event()
    got = []

    def slow(*args):
        began.set()
        go.wait(10)
        return fetch(*args)

    async def read(reader):
        got.append(await reader.__anext__())

    monkeypatch.setattr(reader_module, "fetch", slow)
    async with assert_no_leaks(), trio.open_nursery() as outer:
        async with open_spool(directory) as spool:
            await spool.append(lines(1))
            outer.start_soon(read, spool.read(0))
            await until(began.is_set)
        go.set()
    assert len(got) == 1


async def test_a_reader_that_hangs(directory):
    """The log of the database grows while a reader keeps its state, and is emptied afterwards."""
    config = SpoolConfig(checkpoint_size=2**16)
    log = directory / "spool.sqlite3-wal"
    async with open_spool(directory, config=config) as spool:
        await spool.append(lines(1))
        hanging = connect_reader(directory)
        hanging.execute("BEGIN")
        hanging.execute("SELECT * FROM batches").fetchall()
        with faulty(spool) as connection:
            for _ in range(20):
                await spool.append(sized(40_000))
            waits = [each for each in connection.seen if "TRUNCATE" in each]
            assert log.stat().st_size > 20 * 40_000
            assert 1 <= len(waits) <= 6, "it is waited for now and then"
            hanging.close()
            for _ in range(10):
                await spool.append(sized(40_000))
            assert log.stat().st_size < 10 * 40_000
        assert len(await collect(spool.read(0))) == 31


async def test_the_extent_is_read_in_one_transaction(spool, directory):
    """Batches that are deleted meanwhile do not make it contradict itself."""
    reader = FaultyConnection(connect_reader(directory))
    writer = writer_of(spool)._connection

    def trim(statement):
        if statement.startswith("SELECT first"):
            writer.execute("DELETE FROM batches WHERE first < 4")
            writer.execute("UPDATE spool SET oldest = 4")

    reader.fail = trim
    assert (read_extent(reader).oldest, read_extent(reader).oldest) == (0, 4)
    reader.close()


async def test_missing_batches(spool, directory):
    """A gap is never read over."""
    writer_of(spool)._connection.execute("DELETE FROM batches WHERE first = 4")
    got = []
    with pytest.raises(SpoolFailed, match="from offset 4 on are missing"):
        async for batch in spool.read(0):
            got.append(batch.start)
    assert got == [0, 3]
    with pytest.raises(SpoolFailed, match="missing"):
        offline(directory, 0, 10)
    writer_of(spool)._connection.execute("DELETE FROM batches WHERE first = 0")
    with pytest.raises(SpoolFailed, match="from offset 0 on are missing"):
        await collect(spool.read(0))
