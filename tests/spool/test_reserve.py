"""The reserve of disk space, on a disk that is not full: its size, its file, and faults of it."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rsocket_trio import os_support
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.spool import ConsumerInstance, SpoolConfig, SpoolFailed, SpoolLocked, open_spool
from rsocket_trio.spool import reserve as reserve_module
from rsocket_trio.spool import writer as writer_module
from rsocket_trio.spool.directory import database_of
from rsocket_trio.spool.reserve import Reserve
from rsocket_trio.spool.room import _pages, empty_log
from rsocket_trio.spool.schema import PAGE_SIZE
from rsocket_trio.spool.writer import Group, NewRow, Writer
from tests.spool.helpers import FaultyConnection, fault, faulty, lines, sized, until, writer_of

MIB = 2**20
FULL = "the disk is full, apart from the reserve for positions"
QUICK = SpoolConfig(retry=Retry(initial_delay=0.001, max_delay=0.01))


@pytest.fixture
def path(directory):
    directory.mkdir()
    return directory / "spool.reserve"


def held(path):
    """The bytes of the disk that a file has."""
    return path.stat().st_blocks * 512


@pytest.fixture(params=["allocated", "refused", "written"])
def way(request, monkeypatch):
    """How the space is got: the system may not allocate, or the file system."""
    if request.param == "written":
        monkeypatch.setattr(os_support, "ALLOCATION", False)
    elif request.param == "refused":

        def refuse(*_args):
            raise OSError(errno.EOPNOTSUPP, "not supported")

        monkeypatch.setattr(os, "posix_fallocate", refuse)


@pytest.mark.usefixtures("way")
def test_the_file_has_real_space(path):
    """It grows and shrinks, and another start finds it."""
    reserve = Reserve(path.parent)
    assert reserve.size == 0
    assert reserve.take(MIB)
    assert reserve.take(3 * MIB + 5)
    assert reserve.take(MIB), "it has more"
    assert (reserve.size, path.stat().st_size) == (3 * MIB + 5, 3 * MIB + 5)
    assert held(path) >= 3 * MIB + 5
    assert Reserve(path.parent).size == 3 * MIB + 5
    reserve.cut(MIB)
    assert (reserve.size, path.stat().st_size) == (MIB, MIB)
    assert MIB <= held(path) < 2 * MIB
    reserve.cut(2 * MIB)
    assert reserve.size == MIB
    reserve.cut(0)
    assert held(path) == 0


@pytest.mark.usefixtures("way")
def test_a_copy_with_holes(path):
    """Programs that copy may leave out what seems to be empty: the space is taken again."""
    path.touch()
    os.truncate(path, 2 * MIB)
    assert held(path) == 0
    reserve = Reserve(path.parent)
    assert reserve.size == 0
    assert reserve.take(2 * MIB)
    assert held(path) >= 2 * MIB


def test_a_copy_with_one_hole(path):
    """One block less than the size is a hole, too: space that is promised must be there."""
    reserve = Reserve(path.parent)
    assert reserve.take(4 * MIB)
    block = os.stat(path).st_blksize
    with path.open("r+b") as file:
        file.truncate(4 * MIB - block)
        file.truncate(4 * MIB)
    assert held(path) < 4 * MIB
    assert Reserve(path.parent).size == 0


def test_a_size_of_whole_blocks(path):
    """A file that has exactly the space of its size has no hole."""
    assert Reserve(path.parent).take(MIB)
    assert held(path) == MIB
    assert Reserve(path.parent).size == MIB


def test_a_failed_transaction_holds_no_lock(directory):
    """Until its next attempt the spool leaves the database to others, as a shell of SQLite."""
    writer = Writer(directory, SpoolConfig())
    connection = FaultyConnection(writer._connection)
    writer._connection = connection
    connection.fail = lambda statement: (
        fault(sqlite3.SQLITE_BUSY) if statement == "COMMIT" else None
    )
    batch = lines(1)
    row = NewRow(batch=batch, facts="{}", cost=100)
    with pytest.raises(sqlite3.OperationalError, match="injected"):
        writer.apply(Group(rows=[row], changes={}, trim=None))
    assert connection.seen.count("COMMIT") == 1, "no room is made for it: that is not the cause"
    with closing(sqlite3.connect(database_of(directory), timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    connection.fail = lambda statement: None
    for first in range(2):
        connection.seen.clear()
        assert writer.apply(Group(rows=[row], changes={}, trim=None)).firsts == [first]
    assert connection.seen[0] == "BEGIN IMMEDIATE", "only the first looks again at what there is"
    writer.close()


@pytest.mark.parametrize(
    ("failures", "code", "tries", "text"),
    [
        (1, sqlite3.SQLITE_FULL, 2, None),
        (2, sqlite3.SQLITE_IOERR, 2, "make some megabytes of room on it"),
        (1, sqlite3.SQLITE_CORRUPT, 1, "^broken$"),
    ],
)
def test_a_spool_that_opens_on_a_full_disk(directory, monkeypatch, failures, code, tries, text):
    """It gives its reserve up for that; the error says what to do if that is not enough."""
    real, tried = writer_module.connect_writer, []

    def connect_writer(*args, **settings):
        tried.append((directory / "spool.reserve").stat().st_size)
        if len(tried) <= failures:
            raise SpoolFailed("broken") from fault(code)
        return real(*args, **settings)

    config = SpoolConfig(reserve_size=2 * MIB, checkpoint_size=MIB)
    Writer(directory, config).close()
    monkeypatch.setattr(writer_module, "connect_writer", connect_writer)
    if text is None:
        Writer(directory, config).close()
    else:
        with pytest.raises(SpoolFailed, match=text) as failed:
            Writer(directory, config)
        assert failed.value.__cause__.sqlite_errorcode == code
    assert tried == [2 * MIB, 0][:tries]


def test_a_reserve_that_cannot_be_measured(directory):
    """What is stored is not tried again. The reserve is taken by the next transaction."""
    writer = Writer(directory, SpoolConfig(reserve_size=2 * MIB))
    writer._connection = FaultyConnection(writer._connection)
    writer._room.give_up()
    need = ConsumerInstance(consumer="me", name="", offset=0, seen_at=0.0, lease=None, absent=0.0)
    for broken in (True, False):
        failing = "PRAGMA page_count" if broken else None
        writer._connection.fail = lambda each, failing=failing: (
            fault(sqlite3.SQLITE_IOERR) if each == failing else None
        )
        writer.apply(Group(rows=[], changes={("me", ""): need}, trim=None))
        assert writer.short is broken
    assert writer.transactions == 2
    writer.close()


def test_a_reserve_after_everything_has_failed(directory):
    """It is taken again before the first error goes on, though not even the extent can be read."""
    writer = Writer(directory, SpoolConfig(reserve_size=2 * MIB))
    writer._connection = connection = FaultyConnection(writer._connection)

    def fail(statement):
        if statement == "COMMIT":
            return fault(sqlite3.SQLITE_FULL)
        read_again = statement.startswith("SELECT") and connection.seen.count("COMMIT") == 2
        return fault(sqlite3.SQLITE_IOERR) if read_again else None

    connection.fail = fail
    with pytest.raises(sqlite3.OperationalError) as raised:
        writer.apply(Group(rows=[], changes={("me", ""): None}, trim=None))
    assert raised.value.sqlite_errorcode == sqlite3.SQLITE_FULL
    assert not writer.short
    assert held(directory / "spool.reserve") >= 2 * MIB
    connection.fail = lambda statement: None
    writer.close()


def test_a_log_that_cannot_be_emptied(directory):
    """What is stored is durable in any case. Later queries wait for others as long as before."""
    writer = Writer(directory, SpoolConfig())
    connection = FaultyConnection(writer._connection)
    failing = "PRAGMA wal_checkpoint(TRUNCATE)"
    connection.fail = lambda each: fault(sqlite3.SQLITE_IOERR) if each == failing else None
    before = connection.execute("PRAGMA busy_timeout").fetchone()
    empty_log(connection)
    assert failing in connection.seen
    assert connection.execute("PRAGMA busy_timeout").fetchone() == before
    writer.close()


@pytest.mark.parametrize(
    ("blocks", "size"), [(0, 2 * MIB), (15, 2**20 * 15 // 8), (16, 2 * MIB), (17, 2 * MIB)]
)
def test_a_small_disk(directory, monkeypatch, blocks, size, caplog):
    """At most an eighth of it is reserved; a system that does not tell its size has enough."""
    told = SimpleNamespace(f_blocks=blocks, f_bfree=100, f_frsize=MIB)
    monkeypatch.setattr(os, "statvfs", lambda _: told)
    writer = Writer(directory, SpoolConfig(reserve_size=2 * MIB, checkpoint_size=MIB))
    writer.close()
    assert (directory / "spool.reserve").stat().st_size == size
    assert ("has only" in caplog.text) is (size < 2 * MIB)


@pytest.mark.parametrize("code", ["ENOSPC", "EDQUOT", "EFBIG"])
def test_a_disk_that_is_full(path, monkeypatch, code):
    """A part that was allocated is given back at once; what was held before is kept."""
    reserve = Reserve(path.parent)
    reserve.take(MIB)

    def allocate(descriptor, offset, size):
        os.ftruncate(descriptor, size // 2)
        raise OSError(getattr(errno, code), "full")

    monkeypatch.setattr(os, "posix_fallocate", allocate, raising=False)
    monkeypatch.setattr(os_support, "ALLOCATION", True)
    assert not reserve.take(8 * MIB)
    assert not reserve.holds(8 * MIB)
    assert (reserve.size, path.stat().st_size) == (MIB, MIB)
    monkeypatch.undo()
    assert reserve.take(2 * MIB)


async def test_a_file_that_cannot_be_written(directory, monkeypatch, caplog):
    """One warning, and the spool works without a reserve, also when a transaction fails."""

    def refuse(*_args):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(reserve_module, "open_private", refuse)
    async with open_spool(directory, config=QUICK) as spool:
        with faulty(spool) as connection:
            left = [3]

            def fail(statement):
                left[0] -= statement == "COMMIT"
                full = statement == "COMMIT" and left[0] >= 0
                return fault(sqlite3.SQLITE_FULL) if full else None

            connection.fail = fail
            assert await spool.append(lines(2)) == 0
            await spool.commit("me", 2)
    assert caplog.text.count("goes on without a reserve of disk space") == 1
    assert "Input/output error" in caplog.text


def test_a_file_that_cannot_be_cut(tmp_path, monkeypatch, caplog):
    """It may hold space that nobody counts: this is told, and the reserve is given up for now."""
    reserve = Reserve(tmp_path)
    assert reserve.take(2**20)

    def refuse(*_args):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(reserve_module.os, "ftruncate", refuse)
    reserve.cut(2**19)
    assert reserve.size == 0
    assert reserve.holds(2**20), "it is not tried again at once"
    assert caplog.text.count("goes on without a reserve of disk space") == 1


async def test_a_moment_without_descriptors(directory, monkeypatch, caplog):
    """The reserve is given up for this time only, and each change is told once."""
    caplog.set_level("INFO")
    clock = [1000.0]
    monkeypatch.setattr(reserve_module, "monotonic", lambda: clock[0])
    async with open_spool(directory, config=QUICK) as spool:
        size = (directory / "spool.reserve").stat().st_size

        def refuse(*_args):
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(reserve_module, "open_private", refuse)
            writer_of(spool)._room.give_up()
            for _ in range(3):
                await spool.append(sized(1000))
                clock[0] += 11
            assert writer_of(spool)._room._reserve.size == 0
            assert not writer_of(spool).short
        await spool.append(sized(1000))
        assert writer_of(spool)._room._reserve.size >= size
        assert (directory / "spool.reserve").stat().st_size >= size
        await spool.append(sized(1000))
    assert caplog.text.count("goes on without a reserve of disk space") == 1
    assert caplog.text.count("has a reserve of disk space again") == 1


async def test_its_size(directory):
    """It is as large as the setting says, grows with the log, and is small again at the end."""
    path = directory / "spool.reserve"
    config = SpoolConfig(reserve_size=2 * MIB, checkpoint_size=MIB)
    async with open_spool(directory, config=config) as spool:
        assert path.stat().st_size == 2 * MIB
        largest = 0
        for _ in range(100):
            await spool.append(sized(100_000))
            largest = max(largest, path.stat().st_size)
        assert 3 * MIB <= largest <= 6 * MIB
        await spool.append(sized(30 * MIB))
        await spool.append(sized(100))
        assert path.stat().st_size <= 6 * MIB, "what a large batch needed is given back"
        assert not writer_of(spool).short
    assert path.stat().st_size == held(path) == 2 * MIB
    async with open_spool(directory):
        assert path.stat().st_size == 8 * MIB


async def test_small_batches_ask_nothing(directory):
    """What is reserved beyond the need is known, so that most batches need no look at the disk."""
    async with open_spool(directory) as spool:
        await spool.append(lines(1))
        with faulty(spool) as connection:
            for _ in range(10):
                await spool.append(lines(1))
        assert not [each for each in connection.seen if each.startswith("PRAGMA")]


def behind(spool):
    """The bytes that a checkpoint adds to the database."""
    connection = writer_of(spool)._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    return max(pages * PAGE_SIZE - (spool.directory / "spool.sqlite3").stat().st_size, 0)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(100, 200_000), min_size=1, max_size=8)),
        st.tuples(st.just("commit"), st.integers(0, 10)),
    ),
    max_size=25,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=steps)
def test_the_log_fits_into_the_database(directory, steps):
    """At each moment the reserve has room for what a checkpoint adds, and is whole besides."""
    config = SpoolConfig(reserve_size=256 * 1024, checkpoint_size=512 * 1024)
    shutil.rmtree(directory, ignore_errors=True)

    async def run():
        async with open_spool(directory, config=config) as spool:
            for what, arguments in steps:
                if what == "commit":
                    await spool.commit("me", max(spool.head - arguments, spool.oldest))
                else:
                    async with trio.open_nursery() as nursery:
                        for size in arguments:
                            nursery.start_soon(spool.append, sized(size))
                reserve = (directory / "spool.reserve").stat().st_size
                assert reserve >= 256 * 1024 + behind(spool)
                assert reserve >= spool._flusher._writer._room._reserve.size

    trio.run(run)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sizes=st.lists(
        st.one_of(st.integers(100, 400), st.integers(4000, 40_000), st.integers(10**5, 10**6)),
        min_size=1,
        max_size=60,
    )
)
@example([100, 100, 4000, 4000, 4000, 4185])
@example([15_000] * 20)
@example([8000] * 20)
def test_how_many_pages_batches_need(directory, sizes):
    """The database does not grow by more than is reckoned, nor is twice as much reckoned."""
    shutil.rmtree(directory, ignore_errors=True)

    async def run():
        async with open_spool(directory) as spool:
            before = writer_of(spool)._connection.execute("PRAGMA page_count").fetchone()[0]
            async with trio.open_nursery() as nursery:
                for size in sizes:
                    nursery.start_soon(spool.append, sized(size))
            grown = writer_of(spool)._connection.execute("PRAGMA page_count").fetchone()[0] - before
            # 7: the first rows are on a page that is there already, and are reckoned as 3 pages.
            assert grown <= _pages(sizes) <= 2 * grown + 7

    trio.run(run)


class NoSpace:
    """While the disk is full, the reserve cannot be larger than so many bytes."""

    def __init__(self, monkeypatch, most=0):
        self.full = True
        self._most = most
        self._allocate = reserve_module._allocate
        monkeypatch.setattr(reserve_module, "_allocate", self)

    def __call__(self, path, size):
        if self.full and size > self._most:
            raise OSError(errno.ENOSPC, "no space")
        self._allocate(path, size)


async def test_without_a_reserve_no_event_is_stored(directory, monkeypatch, caplog):
    """Positions are; and the reserve is taken by itself when there is room."""
    async with open_spool(directory) as spool:
        await spool.append(lines(2))
    (directory / "spool.reserve").unlink()
    space = NoSpace(monkeypatch)
    async with open_spool(directory, config=QUICK) as spool, trio.open_nursery() as nursery:
        assert writer_of(spool).short
        nursery.start_soon(spool.append, lines(1))
        await until(lambda: spool.statistics().trouble is not None)
        assert spool.statistics().trouble == FULL
        for position in (0, 1, 2):
            await spool.commit("me", position)
        await trio.sleep(0.05)
        assert (spool.head, spool.oldest) == (2, 2)
        space.full = False
        await until(lambda: spool.head == 3)
        assert held(directory / "spool.reserve") >= 8 * MIB
        assert spool.statistics().trouble is None
    assert caplog.text.count(f"cannot be written now, batches wait: {FULL}") == 1


async def test_a_reserve_that_was_given_up_is_no_room(directory, monkeypatch):
    """Not even for a small batch, which the reserve had room for before."""
    space = NoSpace(monkeypatch)
    space.full = False
    async with open_spool(directory, config=QUICK) as spool, trio.open_nursery() as nursery:
        await spool.append(lines(2))
        space.full = True
        with faulty(spool) as connection:
            failures = [fault(sqlite3.SQLITE_FULL)]
            connection.fail = lambda statement: (
                failures.pop() if failures and statement == "COMMIT" else None
            )
            await spool.commit("me", 1)
        assert writer_of(spool).short
        nursery.start_soon(spool.append, lines(1))
        await until(lambda: spool.statistics().trouble == FULL)
        assert spool.head == 2
        space.full = False
        await until(lambda: spool.head == 3)


async def test_the_reserve_is_taken_again_without_a_call(directory, monkeypatch):
    """The spool looks from time to time, also when no batch waits."""
    space = NoSpace(monkeypatch)
    async with open_spool(directory, config=QUICK) as spool:
        await trio.sleep(0.02)
        assert writer_of(spool).short
        space.full = False
        await until(lambda: not writer_of(spool).short)
        before = spool._flusher._writer.transactions
        await trio.sleep(0.05)
        assert spool._flusher._writer.transactions == before, "then it rests"


async def test_in_place_of_deleted_batches(directory, monkeypatch, caplog):
    """A part of the reserve is enough for them; the trouble is over when the reserve is whole."""
    caplog.set_level("INFO")
    async with open_spool(directory) as spool:
        await spool.commit("me", 0)
        for _ in range(4):
            await spool.append(sized(100_000))
    (directory / "spool.reserve").unlink()
    space = NoSpace(monkeypatch, 3 * MIB)
    async with open_spool(directory, config=QUICK) as spool, trio.open_nursery() as nursery:
        assert (directory / "spool.reserve").stat().st_size == 2 * MIB
        nursery.start_soon(spool.append, sized(100_000))
        await until(lambda: spool.statistics().trouble == FULL)
        await trio.sleep(0.02)
        assert spool.head == 4
        await spool.commit("me", 2)
        await until(lambda: spool.head == 5)
        await trio.sleep(0.02)
        assert spool.statistics().trouble == FULL
        assert "can be written again" not in caplog.text
        space.full = False
        await until(lambda: spool.statistics().trouble is None)
    assert caplog.text.count("can be written again") == 1


async def test_after_an_attempt_in_vain(directory):
    """The reserve is taken again, also if the changes could not be stored."""
    async with open_spool(directory, config=QUICK) as spool, trio.open_nursery() as nursery:
        await spool.append(lines(2))
        with faulty(spool) as connection:
            connection.fail = lambda statement: (
                fault(sqlite3.SQLITE_FULL) if statement == "COMMIT" else None
            )
            nursery.start_soon(spool.commit, "me", 2)
            await until(lambda: connection.seen.count("COMMIT") > 3)
            await until(lambda: (directory / "spool.reserve").stat().st_size >= 8 * MIB)
            connection.fail = lambda statement: None
            await until(lambda: spool.positions() == {"me": 2})


@pytest.mark.parametrize(
    "also",
    ["VACUUM", "PRAGMA freelist_count", "PRAGMA page_count", "PRAGMA wal_checkpoint", "SELECT"],
)
async def test_each_step_to_make_room_may_fail(directory, also, caplog):
    """On a disk that has none: the next attempt shows whether there is room all the same."""
    async with open_spool(directory, config=QUICK) as spool:
        await spool.append(sized(100_000))
        await spool.commit("me", 1)
        with faulty(spool) as connection:
            left = {"COMMIT": 1, also: 1}

            def fail(statement):
                for beginning, code in (
                    ("COMMIT", sqlite3.SQLITE_FULL),
                    (also, sqlite3.SQLITE_IOERR),
                ):
                    if statement.startswith(beginning) and left[beginning]:
                        left[beginning] -= 1
                        return fault(code)
                return None

            connection.fail = fail
            await spool.forget("me")
            assert left == {"COMMIT": 0, also: 0}
        assert ("cannot be written now" in caplog.text) is (also == "SELECT")
        assert spool.positions() == {}
        assert await spool.append(lines(1)) == 1


async def test_deleting_on_a_full_disk(directory):
    """A transaction deletes so few batches that a quarter of the reserve is enough for it."""
    config = SpoolConfig(reserve_size=MIB, retry=QUICK.retry)
    async with open_spool(directory, config=config) as spool:
        for _ in range(30):
            await spool.append(lines(1))
        with faulty(spool) as connection:
            failed = []

            def fail(statement):
                if statement != "COMMIT" or failed:
                    return None
                failed.append(statement)
                return fault(sqlite3.SQLITE_FULL)

            connection.fail = fail
            await spool.commit("me", 30)
            assert spool.oldest == MIB // 4 // PAGE_SIZE - 8 == 8
            await until(lambda: spool.oldest == 30)


async def test_batches_that_fail_together(directory, caplog):
    """The first of them is tried alone before anything is said: it may have room."""
    async with open_spool(directory, config=QUICK) as spool:
        with faulty(spool) as connection:
            inserted = []

            def fail(statement):
                if statement == "BEGIN IMMEDIATE":
                    inserted.clear()
                inserted.extend([statement] * statement.startswith("INSERT INTO batches"))
                full = statement == "COMMIT" and len(inserted) > 1
                return fault(sqlite3.SQLITE_FULL) if full else None

            connection.fail = fail
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(spool.append, lines(1))
        assert spool.head == 5
    assert "cannot be written now" not in caplog.text


async def test_the_reserve_alone_in_a_directory(directory):
    """The database was deleted: a new spool begins."""
    async with open_spool(directory) as spool:
        await spool.append(lines(1))
    (directory / "spool.sqlite3").unlink()
    async with open_spool(directory) as spool:
        assert spool.head == 0


async def test_the_lock_on_a_full_disk(directory, monkeypatch):
    """It needs no room: only an error text has the number of the process."""

    def refuse(*_args):
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuse)
        entering = open_spool(directory)
        spool = await entering.__aenter__()
    try:
        await spool.append(lines(1))
        with pytest.raises(SpoolLocked, match="in process unknown"):
            async with open_spool(directory):
                raise AssertionError("it was opened")
    finally:
        await entering.__aexit__(None, None, None)
