"""The directory: its lock, and what may be found in it."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from functools import partial

import pytest
import trio

from rsocket_trio import os_support, process_lock
from rsocket_trio.spool import (
    NotASpool,
    SpoolError,
    SpoolFailed,
    SpoolLocked,
    SpoolTooNew,
    describe_spool,
    find_reach,
    open_spool,
)
from rsocket_trio.spool import directory as directory_module
from rsocket_trio.spool import schema as schema_module
from rsocket_trio.testing import assert_no_leaks
from tests.programs import environment
from tests.spool.helpers import collect, lines, offline, writer_of

DATABASE = "spool.sqlite3"


async def enter(directory):
    async with open_spool(directory) as spool:
        return spool.statistics()


async def test_directories_are_made(directory):
    """With those above it."""
    async with open_spool(str(directory / "a" / "b")) as spool:
        await spool.append(lines(1))
    assert sorted(os.listdir(directory / "a" / "b")) == [
        "spool.lock",
        "spool.reserve",
        DATABASE,
    ]


async def test_the_names_of_the_files_are_durable(directory, monkeypatch):
    """The directory is synced before events come, or a power failure may lose all of them."""
    synced, fsync = [], os.fsync

    def note(descriptor):
        synced.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(directory_module.os, "fsync", note)
    async with open_spool(directory):
        assert directory.stat().st_ino in synced


async def test_a_second_writer_in_this_process(directory):
    """It is refused with a text that says what to do, and the first one goes on."""
    directory.mkdir()
    (directory / "spool.lock").write_text("of a process with a long number: 9999999999\n")
    async with open_spool(directory) as spool:
        with pytest.raises(SpoolLocked) as refused:
            await enter(directory)
        text = str(refused.value)
        assert str(directory) in text
        assert f"process {os.getpid()}, and" in text
        assert "stop that process, or use another directory" in text
        await spool.append(lines(1))
    assert (await enter(directory)).head == 1


HOLD = """
import sys, trio
from rsocket_trio.spool import open_spool

async def main():
    async with open_spool(sys.argv[1]):
        print("open", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_second_writer_in_another_process(directory):
    """The lock ends with the process that holds it, also when it is killed."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdout=subprocess.PIPE, env=environment()
    )
    try:
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(SpoolLocked, match=f"is open for writing in process {holder.pid}"):
            await enter(directory)
        assert offline(directory, 0, 0) == [], "reading needs no lock"
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    await enter(directory)


FORK = """
import os, sys, time
from pathlib import Path
from rsocket_trio.spool.directory import WriterLock
from rsocket_trio.spool import SpoolLocked

where = Path(sys.argv[1])
lock = WriterLock(where)
began, begin = os.pipe()
if os.fork() == 0:
    os.write(begin, b"!")
    time.sleep(20)
    os._exit(0)
os.read(began, 1)
try:
    WriterLock(where)
except SpoolLocked:
    lock.release()
    WriterLock(where)
    print("free")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_a_forked_child_does_not_hold_the_lock(tmp_path):
    """A descriptor that a child inherits would hold it until the child ends."""
    done = subprocess.Popen(
        [sys.executable, "-c", FORK, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
    )
    try:
        assert done.stdout.readline() == b"free\n"
    finally:
        os.killpg(done.pid, 9)
        done.wait()
        done.stdout.close()


def test_a_child_closes_only_locks(tmp_path):
    """The number of a lock that was released may belong to another file by now."""
    lock = directory_module.WriterLock(tmp_path)
    held = set(process_lock._held)
    lock.release()
    assert len(held - process_lock._held) == 1


async def test_a_system_without_locks(directory, monkeypatch):
    monkeypatch.setattr(os_support, "FILE_LOCKS", False)
    with pytest.raises(SpoolError, match="this system has no file locks"):
        await enter(directory)


async def test_directories_that_are_something_else(directory):
    """They are left as they are."""
    directory.mkdir()
    (directory / "letter.txt").write_text("Dear")
    with pytest.raises(NotASpool, match=r"it has other files \(letter.txt"):
        await enter(directory)
    assert os.listdir(directory) == ["letter.txt"]
    with pytest.raises(NotASpool, match="a spool needs a directory"):
        await enter(directory / "letter.txt")
    with pytest.raises(NotADirectoryError):
        await enter(directory / "letter.txt" / "below")
    with pytest.raises(NotASpool, match="it has no file"):
        offline(directory, 0, 0)


async def test_a_log_without_its_database(directory):
    """SQLite would delete it; it may be all that is left of a spool."""
    directory.mkdir()
    (directory / "spool.sqlite3-wal").write_bytes(b"log")
    with pytest.raises(NotASpool, match="it has other files"):
        await enter(directory)
    assert (directory / "spool.sqlite3-wal").read_bytes() == b"log"


async def test_a_relative_path(directory, monkeypatch):
    """The program may change its working directory afterwards."""
    directory.mkdir()
    monkeypatch.chdir(directory)
    async with open_spool("here") as spool:
        monkeypatch.chdir("/")
        await spool.append(lines(2))
        assert len(await collect(spool.read(0))) == 1
        assert spool.directory == directory / "here"


async def test_an_empty_directory(directory):
    """That a crash has left, or that is a file system."""
    directory.mkdir()
    (directory / "lost+found").mkdir()
    (directory / "spool.lock").touch()
    (directory / f"{DATABASE}-journal").write_bytes(b"left by a power failure")
    assert (await enter(directory)).head == 0
    for path in directory.glob("spool.*"):
        path.unlink()
    (directory / DATABASE).touch()
    with pytest.raises(NotASpool, match="not a spool yet"):
        offline(directory, 0, 0)
    assert (await enter(directory)).head == 0


async def test_databases_of_others(directory):
    """Another database, and a file that is none."""
    directory.mkdir()
    with sqlite3.connect(directory / DATABASE) as other:
        other.execute("CREATE TABLE letters (text)")
    other.close()
    for call in (
        lambda: enter(directory),
        lambda: trio.to_thread.run_sync(offline, directory, 0, 0),
    ):
        with pytest.raises(NotASpool, match="of another program"):
            await call()
    (directory / DATABASE).write_bytes(b"no database" * 1000)
    for call in (
        lambda: enter(directory),
        lambda: trio.to_thread.run_sync(offline, directory, 0, 0),
    ):
        with pytest.raises(NotASpool, match="is not a database"):
            await call()


def change(directory, *statements):
    connection = sqlite3.connect(directory / DATABASE, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


async def test_a_newer_version(directory):
    """It is refused by writers and readers, and says what to do."""
    await enter(directory)
    change(directory, "PRAGMA user_version = 4")
    with pytest.raises(SpoolTooNew, match=r"has version 4 .* up to 3: update rsocket_trio"):
        await enter(directory)
    with pytest.raises(SpoolTooNew):
        offline(directory, 0, 0)


VERSION_1 = (
    "DROP TABLE instances",
    "DROP TABLE epochs",
    "DROP TABLE runs",
    """CREATE TABLE positions (consumer TEXT PRIMARY KEY, "offset" INTEGER NOT NULL,
    committed_at REAL NOT NULL) STRICT, WITHOUT ROWID""",
    "INSERT INTO positions VALUES ('q', 2, 1700000000.5)",
    "PRAGMA user_version = 1",
)


@pytest.mark.parametrize("count", [0, 3])
async def test_version_1(directory, count):
    """Readers read it as it is, and a writer makes it new. Nothing that it kept is lost."""
    async with open_spool(directory) as spool:
        if count:
            await spool.append(lines(count))
    change(directory, *VERSION_1)
    found = describe_spool(directory)
    assert (found.positions, found.head, found.epoch) == ({"q": 2}, count, None)
    assert sum(each.wanted for each in offline(directory, 0, count)) == count
    async with open_spool(directory) as spool:
        assert (spool.positions(), spool.head) == ({"q": 2}, count)
        [need] = spool.instances()
        assert (need.name, need.seen_at, need.lease) == ("", 1700000000.5, 3600)
        before = spool.epoch
        assert (before is None) == (count == 0)
        await spool.append(lines(4))
        assert spool.epoch != before
        assert re.fullmatch("[0-9a-f]{16}", spool.epoch)
        assert count == 0 or spool.epoch_end(before) == count
        assert describe_spool(directory).instances == (need,)


async def test_an_older_version_is_brought_up_to_date(directory, monkeypatch):
    """Each step is taken, in one transaction; after a failure nothing has changed."""
    async with open_spool(directory) as spool:
        await spool.append(lines(3))
    steps = {
        3: lambda connection: connection.execute("ALTER TABLE spool ADD COLUMN more TEXT"),
        4: lambda connection: connection.execute("UPDATE spool SET more = 'yes'"),
    }
    monkeypatch.setattr(schema_module, "VERSION", 5)
    monkeypatch.setattr(schema_module, "MIGRATIONS", {3: steps[3], 4: lambda _: 1 / 0})
    with pytest.raises(ZeroDivisionError):
        await enter(directory)
    monkeypatch.setattr(schema_module, "MIGRATIONS", steps)
    assert (await enter(directory)).head == 3
    connection = sqlite3.connect(directory / DATABASE)
    assert connection.execute("SELECT more FROM spool").fetchall() == [("yes",)]
    assert connection.execute("PRAGMA user_version").fetchall() == [(5,)]
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE batches",
        "DELETE FROM spool",
        "DELETE FROM batches WHERE first = 0",
        "UPDATE batches SET first = 9 WHERE first = 4",
        "UPDATE batches SET facts = '{' WHERE first = 4",
        "UPDATE batches SET facts = '[1]' WHERE first = 4",
        "UPDATE batches SET facts = '{\"peer\": 1}' WHERE first = 4",
        f"UPDATE batches SET facts = '{'[' * 50_000}' WHERE first = 4",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'N', x'ff')",
    ],
    ids=range(9),
)
async def test_damaged_tables(directory, damage):
    """They are an error when the spool is opened, or when the damage is read."""
    async with open_spool(directory) as spool:
        for _ in range(4):
            await spool.append(lines(2))
    change(directory, *damage.split("; "))
    async with assert_no_leaks():
        with pytest.raises(SpoolFailed):
            async with open_spool(directory) as spool:
                await collect(spool.read(0))
        with pytest.raises(SpoolFailed):
            offline(directory, 0, 8)


@pytest.mark.parametrize("first", [2**63 - 3, 2**63 - 2])
async def test_the_last_offset(directory, first):
    """The head is an offset too: it can be the largest number of SQLite, and no larger one."""
    async with open_spool(directory) as spool:
        await spool.append(lines(2))
    tables = (("batches", "first"), ("spool", "oldest"), ("epochs", "first"))
    change(directory, *[f"UPDATE {table} SET {name} = {first}" for table, name in tables])
    if first + 2 < 2**63:
        async with open_spool(directory) as spool:
            assert (spool.oldest, spool.head) == (first, 2**63 - 1)
            [batch] = await collect(spool.read(first))
            assert batch.end == spool.head
    else:
        with pytest.raises(SpoolFailed, match="damaged"):
            async with open_spool(directory):
                pass


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
async def test_a_truncated_database(directory, keep):
    """It is an error, and not a shorter queue."""
    async with open_spool(directory) as spool:
        for _ in range(20):
            await spool.append(lines(1, "x" * 20_000))
    size = (directory / DATABASE).stat().st_size
    os.truncate(directory / DATABASE, int(size * keep))
    with pytest.raises((SpoolFailed, NotASpool)):
        offline(directory, 0, 20)
    with pytest.raises((SpoolFailed, NotASpool)):
        async with open_spool(directory) as spool:
            await collect(spool.read(0))


async def test_a_page_that_is_damaged(directory):
    """Each way of reading says so with an error of this package."""
    async with open_spool(directory) as spool:
        for _ in range(20):
            await spool.append(lines(1, "x" * 20_000))
    with (directory / DATABASE).open("r+b") as file:
        file.seek(16384)
        file.write(b"\xff" * 16384)
    for question in (
        describe_spool,
        partial(find_reach, start=0, size=2**40),
        partial(offline, start=0, stop=20),
    ):
        with pytest.raises(SpoolFailed, match="malformed"):
            question(directory)
    with pytest.raises(SpoolFailed):
        async with open_spool(directory):
            pass


async def test_a_damaged_log_loses_only_its_tail(directory, tmp_path):
    """After a power failure the tail of the log may be torn: what is before it is there."""
    async with open_spool(directory) as spool:
        for number in range(8):
            await spool.append(lines(1, f"{number}" * 9000))
        copy = tmp_path / "copy"
        shutil.copytree(directory, copy)
    log = copy / (DATABASE + "-wal")
    heads = []
    for keep in (1.0, 0.8, 0.5, 0.2):
        each = tmp_path / f"{keep}"
        shutil.copytree(copy, each)
        os.truncate(each / log.name, int(log.stat().st_size * keep))
        async with open_spool(each) as spool:
            heads.append(spool.head)
            batches = await collect(spool.read(0))
            assert [batch.data[:1] for batch in batches] == [b"%d" % n for n in range(spool.head)]
            assert await spool.append(lines(1)) == spool.head - 1
    assert heads[0] == 8
    assert heads == sorted(heads, reverse=True)
    assert heads[1] < 8


async def test_settings_of_the_database(directory):
    """Each commit is synced, and deleted data are not overwritten."""
    wanted = {"journal_mode": "wal", "synchronous": 2, "page_size": 16384, "secure_delete": 0,
              "busy_timeout": 5000}  # fmt: skip
    for _ in range(2):
        async with open_spool(directory) as spool:
            connection = writer_of(spool)._connection
            for name, value in wanted.items():
                assert connection.execute(f"PRAGMA {name}").fetchall() == [(value,)]


async def test_what_marks_a_spool(directory):
    """Other versions of this package, and other programs, know its files by these numbers."""
    async with open_spool(directory):
        pass
    head = (directory / DATABASE).read_bytes()[:100]
    numbers = {name: int.from_bytes(head[at:][:4]) for name, at in (("version", 60), ("id", 68))}
    assert numbers == {"version": 3, "id": int.from_bytes(b"RSp0")}


async def test_a_path_with_strange_characters(directory):
    """The path goes into a URI for readers."""
    where = directory / "a b?c#d%e"
    async with open_spool(where) as spool:
        await spool.append(lines(2))
        assert len(await collect(spool.read(0))) == 1
    assert len(offline(where, 0, 2)) == 1


async def test_opening_again_writes_nothing(directory):
    """The tables are those of this version, so a full disk has no say."""
    async with open_spool(directory) as spool:
        await spool.append(lines(1))
    async with open_spool(directory):
        assert (directory / "spool.sqlite3-wal").stat().st_size == 0
