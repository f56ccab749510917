"""What happens to a spool on a small disk that is really full: each function is a program.

``python -m tests.spool.full_disk NAME DIRECTORY`` runs on such a disk; see test_full_disk.py.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from rsocket_trio.protocol.retry import Retry
from rsocket_trio.spool import (
    Batch,
    Retention,
    SpoolConfig,
    SpoolFailed,
    open_spool,
)
from rsocket_trio.spool import reserve as reserve_module
from rsocket_trio.spool import room as room_module
from rsocket_trio.spool import writer as writer_module
from rsocket_trio.testing import cancel_everywhere
from tests.programs import environment
from tests.spool.helpers import transactions, until, writer_of

QUICK = SpoolConfig(retry=Retry(initial_delay=0.001, max_delay=0.02))
TOTAL = 2**23


class Log(logging.Handler):
    """The lines of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        logging.getLogger("rsocket_trio").addHandler(self)
        logging.getLogger("rsocket_trio").setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def count(self, text: str) -> int:
        return sum(text in each for each in self.texts)


def batch(number: int, size: int) -> Batch:
    """A batch of ten events that tells its number, and cannot be compressed."""
    return Batch(10, b"%9d" % number + os.urandom(size - 9), encoding="test")


def number_of(found) -> int:
    return int(found.data[:9])


def free(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


def fill(disk: Path) -> Path:
    """Let another program take all that is free."""
    other = disk / "other"
    with other.open("ab", buffering=0) as file:
        for size in (2**16, 2**12, 1):
            try:
                while True:
                    file.write(os.urandom(size))
            except OSError:
                pass
    assert free(disk) == 0
    return other


def reserve_of(disk: Path) -> int:
    """The size that the reserve should have on such a small disk."""
    status = os.statvfs(disk)
    return status.f_blocks * status.f_frsize // 8


def held(disk: Path) -> int:
    return (disk / "spool" / "spool.reserve").stat().st_size


async def append_all(spool, count: int, size: int, done: list[int], *, tasks: int = 3) -> None:
    """Append numbered batches by some tasks."""
    numbers = iter(range(count))

    async def append() -> None:
        for number in numbers:
            await spool.append(batch(number, size))
            done.append(number)

    async with trio.open_nursery() as nursery:
        for _ in range(tasks):
            nursery.start_soon(append)


async def until_full(spool) -> None:
    """Wait until nothing more can be stored, also not a single batch."""
    head = -1
    with trio.fail_after(30):
        while spool.statistics().trouble is None or spool.head != head:
            head = spool.head
            await trio.sleep(0.3)


async def recovers(disk: Path, size: int, keep: int) -> None:
    """Batches of several times the disk go through; each is read once, with nothing missing.

    Args:
        disk: The disk.
        size: The size of a batch.
        keep: The events that the consumer is behind; it never empties the spool.
    """
    log = Log()
    count = 3 * TOTAL // size
    stored: list[int] = []
    read: list[int] = []
    async with open_spool(disk / "spool", config=QUICK) as spool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_all, spool, count, size, stored)
            await until_full(spool)
            position = 0
            while position < 10 * count:
                with trio.fail_after(20):
                    async for found in spool.read(position):
                        read.append(number_of(found))
                        position = found.stop
                    await spool.commit("me", max(position - keep, spool.oldest))
                    while spool.head == position < 10 * count:
                        await trio.sleep(0.001)
        assert sorted(read) == sorted(stored) == list(range(count))
        await spool.commit("me", spool.head)
        await until(lambda: spool.statistics().batches == 0)
        await until(lambda: spool.statistics().trouble is None)
    assert held(disk) == reserve_of(disk)
    assert log.count("cannot be written now") >= 1
    assert log.count("can be written again") >= 1


async def small_batches(disk: Path) -> None:
    await recovers(disk, 3000, 0)


async def medium_batches(disk: Path) -> None:
    await recovers(disk, 40_000, 0)


async def large_batches(disk: Path) -> None:
    """They need more room than the reserve has."""
    await recovers(disk, 1_500_000, 0)


async def large_after_small(disk: Path) -> None:
    """A batch that is larger than the reserve waits for an empty spool, which becomes small."""
    async with open_spool(disk / "spool", config=QUICK) as spool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_all, spool, 300, 40_000, [])
            await until_full(spool)
            nursery.cancel_scope.cancel()
        assert (disk / "spool" / "spool.sqlite3").stat().st_size > TOTAL // 2
        head = spool.head
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spool.append, batch(7, TOTAL * 3 // 10))
            await until_full(spool)
            with trio.fail_after(10):
                await spool.commit("me", head - 10)
            await until_full(spool)
            assert spool.head == head
            with trio.fail_after(10):
                await spool.commit("me", head)
                while spool.head == head:
                    await trio.sleep(0.01)
        [found] = [found async for found in spool.read(head)]
        assert (number_of(found), len(found.data)) == (7, TOTAL * 3 // 10)
        assert (disk / "spool" / "spool.sqlite3").stat().st_size < TOTAL // 2


async def slow_consumer(disk: Path) -> None:
    """Batches go on in the place of deleted ones, long before the spool is empty."""
    await recovers(disk, 40_000, 800)


async def slow_consumer_of_small_batches(disk: Path) -> None:
    await recovers(disk, 3000, 4000)


async def while_it_is_full(disk: Path) -> None:
    """Reads work, one line says it, the log and the processor are left alone, one line ends it."""
    log = Log()
    stored: list[int] = []
    async with open_spool(disk / "spool") as spool, trio.open_nursery() as nursery:
        nursery.start_soon(append_all, spool, 300, 60_000, stored)
        await until_full(spool)
        head = spool.head
        before, began = transactions(spool), time.process_time()
        attempts = count_calls(writer_of(spool), "_store")
        emptied = count_calls(writer_of(spool)._room, "make")
        await trio.sleep(3)
        assert (spool.head, transactions(spool) - before <= 8) == (head, True)
        assert 1 <= len(attempts) <= 16
        assert len(emptied) <= 1, "the reserve is not given up again and again"
        assert time.process_time() - began < 1
        assert "disk is full" in spool.statistics().trouble
        assert held(disk) >= reserve_of(disk)
        assert len([found async for found in spool.read(0)]) == head // 10
        found = await trio.to_thread.run_sync(describe, disk)
        assert found["head"] == head
        assert log.count("cannot be written now") <= 2
        assert log.count("can be written again") == 0
        while len(stored) < 300:
            with trio.fail_after(10):
                await spool.commit("me", spool.head)
            await trio.sleep(0.01)
        assert spool.statistics().trouble is None
        assert log.texts[-1].endswith("can be written again")


def count_calls(owner, name: str) -> list[str]:
    """Count the calls of a method."""
    seen: list[str] = []
    inner = getattr(owner, name)

    def call(*args, **options):
        seen.append(name)
        return inner(*args, **options)

    setattr(owner, name, call)
    return seen


def describe(disk: Path):
    """What another process sees."""
    code = (
        "import sys; from rsocket_trio.spool import *; d = describe_spool(sys.argv[1]);"
        "n = sum(b.wanted for b in read_range(sys.argv[1], d.oldest, d.head));"
        "import json; print(json.dumps({'head': d.head, 'read': n}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(disk / "spool")],
        env=environment(),
        check=True,
        capture_output=True,
        timeout=30,
    )
    found = json.loads(done.stdout)
    assert found["read"] == found["head"]
    return found


async def another_program(disk: Path) -> None:
    """The last block is taken by another file: positions are stored, and appends wait."""
    stored: list[int] = []
    async with open_spool(disk / "spool", config=QUICK) as spool:
        await append_all(spool, 60, 40_000, stored)
        other = fill(disk)
        for position in range(0, 600, 50):
            with trio.fail_after(10):
                await spool.commit("me", position)
                await spool.commit(f"other {position}", 600)
        for position in range(0, 600, 50):
            await spool.forget(f"other {position}")
        assert (spool.oldest, spool.statistics().batches) == (550, 5)
        assert held(disk) == reserve_of(disk)
        # Batches go to the place of those that were deleted, and the log to a part of the reserve.
        fill(disk)
        with trio.fail_after(10):
            await append_all(spool, 10, 40_000, [])
        fill(disk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_all, spool, 100, 40_000, stored)
            await until_full(spool)
            assert len(stored) < 160
            other.unlink()
        await until(lambda: spool.statistics().trouble is None)
        assert held(disk) >= reserve_of(disk)
        assert len([found async for found in spool.read(550)]) == 115


async def lent(disk: Path) -> None:
    """Batches go to the place of deleted ones, without a free block, and with an empty log."""
    async with open_spool(disk / "spool", config=QUICK) as spool:
        await append_all(spool, 60, 40_000, [])
        await spool.commit("me", 550)
        await until(lambda: spool.oldest == 550)
    async with open_spool(disk / "spool", config=QUICK) as spool:
        fill(disk)
        with trio.fail_after(10):
            await append_all(spool, 10, 40_000, [])
        assert held(disk) == reserve_of(disk)


async def stolen(disk: Path) -> None:
    """Another program takes the reserve while it is given up: it is taken again when it can be."""
    stored: list[int] = []
    inner = room_module.empty_log

    def steal(connection) -> None:
        room_module.empty_log = inner
        fill(disk)
        inner(connection)

    async with open_spool(disk / "spool", config=QUICK) as spool:
        await append_all(spool, 40, 40_000, stored)
        other = fill(disk)
        room_module.empty_log = steal
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spool.commit, "me", 200)
            nursery.start_soon(append_all, spool, 40, 40_000, stored)
            await until_full(spool)
            await trio.sleep(0.2)
            assert spool.positions() == {}
            assert held(disk) < reserve_of(disk)
            assert len(stored) == 40
            other.unlink()
        assert spool.positions() == {"me": 200}
        await until(lambda: held(disk) >= reserve_of(disk))
        await until(lambda: spool.statistics().trouble is None)
        assert len(stored) == 80


async def old_version(disk: Path) -> None:
    """A spool without a reserve on a full disk: no event is admitted before there is one."""
    async with open_spool(disk / "spool", config=QUICK) as spool:
        await append_all(spool, 40, 40_000, [])
    (disk / "spool" / "spool.reserve").unlink()
    (disk / "room").write_bytes(os.urandom(2**16))
    other = fill(disk)
    (disk / "room").unlink()  # For the small files that SQLite makes.
    stored: list[int] = []
    async with open_spool(disk / "spool", config=QUICK) as spool:
        assert writer_of(spool).short
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_all, spool, 10, 40_000, stored)
            await until_full(spool)
            await trio.sleep(0.1)
            assert (held(disk) if (disk / "spool" / "spool.reserve").exists() else 0) == 0
            other.unlink()
            await until(lambda: stored)
            assert held(disk) >= reserve_of(disk)
    # A full disk without a reserve cannot even be opened; the error says what to do.
    (disk / "spool" / "spool.reserve").unlink()
    other = fill(disk)
    with pytest.raises(SpoolFailed, match="make some megabytes of room on it"):
        async with open_spool(disk / "spool"):
            pass
    other.unlink()
    async with open_spool(disk / "spool"):
        pass
    assert held(disk) == reserve_of(disk)


async def retained(disk: Path) -> None:
    """A retention does not keep batches that new ones need the room of."""
    stored: list[int] = []
    async with open_spool(disk / "spool", retention=Retention(max_age=3600), config=QUICK) as spool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_all, spool, 300, 40_000, stored)
            await until_full(spool)
            assert spool.oldest == 0
            with trio.move_on_after(30):
                while len(stored) < 300:
                    await spool.commit("me", spool.head)
                    await trio.sleep(0.01)
            assert len(stored) == 300
        assert spool.oldest > 0
        assert spool.statistics().batches > 50, "what the disk has room for is kept"


async def tiny(disk: Path) -> None:
    """A disk of one megabyte: one warning, and the spool works."""
    log = Log()
    async with open_spool(disk / "spool", config=QUICK) as spool:
        assert log.count("has only 1048576 bytes in all: the spool reserves 131072 of them") == 1
        stored: list[int] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(append_all, spool, 300, 10_000, stored)
            await until_full(spool)
            while len(stored) < 300:
                with trio.fail_after(10):
                    await spool.commit("me", spool.head)
                await trio.sleep(0.005)


async def cancelled(disk: Path) -> None:
    """A commit on a full disk, cancelled at each step: the next one works, and nothing is lost."""
    stored: list[int] = []
    async with open_spool(disk / "spool", config=QUICK) as spool:
        await append_all(spool, 60, 40_000, stored)
        fill(disk)
        committed = [0]

        async def commit() -> None:
            committed[0] += 1
            await spool.commit("me", committed[0])

        async def check() -> None:
            await trio.testing.wait_all_tasks_blocked()
            assert spool.positions().get("me", 0) in {committed[0], committed[0] - 1}
            with trio.fail_after(10):
                await spool.commit("me", committed[0])
            assert held(disk) == reserve_of(disk)

        assert await cancel_everywhere(commit, check, every_task=True) >= 2


STEPS = [
    (reserve_module.Reserve, "cut"),
    (reserve_module.Reserve, "take"),
    (reserve_module, "_allocate"),
    (room_module, "empty_log"),
    (writer_module.Writer, "_store"),
]


def crashes(disk: Path) -> None:
    """The process is killed before or after each step of making room: it goes on after that."""

    async def begin() -> None:
        async with open_spool(disk / "spool", config=QUICK) as spool:
            await append_all(spool, 70, 60_000, [])

    trio.run(begin)
    fill(disk)
    points = 0
    for at in range(80):
        before = describe_quietly(disk)
        child = os.fork()
        if child == 0:
            trio.run(_crash, disk, at, before["me"] + 10)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        points += status != 0
        after = describe_quietly(disk)
        assert after["head"] == before["head"]
        assert after["me"] in {before["me"], before["me"] + 10}
        if status == 0:
            break
    assert points >= 8, points
    # The disk has been filled while SQLite's small files were not there.
    assert held(disk) >= reserve_of(disk) * 3 // 4


async def _crash(disk: Path, at: int, position: int) -> None:
    left = [at]

    def step() -> None:
        if left[0] == 0:
            os._exit(1)
        left[0] -= 1

    def guard(inner):
        def call(*args, **options):
            step()
            answer = inner(*args, **options)
            step()
            return answer

        return call

    for owner, name in STEPS:
        setattr(owner, name, guard(getattr(owner, name)))
    async with open_spool(disk / "spool", config=QUICK) as spool:
        with trio.fail_after(10):
            await spool.commit("me", position)


def describe_quietly(disk: Path):
    """Open the spool as a program would after a crash, and look."""

    async def look():
        async with open_spool(disk / "spool", config=QUICK) as spool:
            batches = [found async for found in spool.read(spool.oldest)]
            assert sum(found.wanted for found in batches) == spool.head - spool.oldest
            return {"head": spool.head, "me": spool.positions().get("me", 0)}

    return trio.run(look)


if __name__ == "__main__":
    program = globals()[sys.argv[1]]
    if inspect.iscoroutinefunction(program):
        trio.run(program, Path(sys.argv[2]))
    else:
        program(Path(sys.argv[2]))
