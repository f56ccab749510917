"""A file system that really refuses to write: the kernel's limit on the size of files."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.programs import environment
from tests.spool.helpers import offline

pytest.importorskip("resource")

PROGRAM = """
import resource, sys, trio
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.spool import Batch, SpoolConfig, open_spool

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    config = SpoolConfig(retry=Retry(initial_delay=0.001, max_delay=0.01))
    async with open_spool(sys.argv[1], config=config) as spool:

        async def append(name):
            for number in range(60):
                data = bytes([name]) * 20_000
                first = await spool.append(Batch(1, data, encoding="test"))
                print("stored", name, first, flush=True)

        limit(10**6)
        async with trio.open_nursery() as nursery:
            for name in range(3):
                nursery.start_soon(append, name)
            # Pages go from the log to the database, which has the same limit: this makes room once.
            head = -1
            while head != spool.head or spool.statistics().trouble is None:
                head = spool.head
                await trio.sleep(0.1)
            print("trouble", spool.statistics().trouble, spool.head, flush=True)
            limit(resource.RLIM_INFINITY)
        print("over", spool.statistics().trouble, spool.head)

trio.run(main)
"""


FULL = "database or disk is full"


def test_appends_wait_while_files_cannot_grow(directory):
    """Those that have returned are stored; the others wait, and are stored later."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(directory)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=True,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    stored = {int(line[2]): int(line[1]) for line in lines if line[0] == "stored"}
    [trouble] = [index for index, line in enumerate(lines) if line[0] == "trouble"]
    assert lines[trouble] == ["trouble", *FULL.split(), str(trouble)]
    assert 0 < trouble < 120
    assert lines[-1] == ["over", "None", "180"]
    assert f"cannot be written now, batches wait: {FULL}" in done.stderr
    batches = offline(directory, 0, 180)
    assert {batch.first: batch.data[0] for batch in batches} == stored
    assert all(batch.data == batch.data[:1] * 20_000 for batch in batches)


CONSUMER = """
import resource, sys, trio
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.spool import Batch, SpoolConfig, open_spool

async def main():
    config = SpoolConfig(retry=Retry(initial_delay=0.001, max_delay=0.01))
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, resource.RLIM_INFINITY))
    async with open_spool(sys.argv[1], config=config) as spool, trio.open_nursery() as nursery:

        async def append():
            for number in range(300):
                await spool.append(Batch(1, number.to_bytes(2, "big") * 10_000, encoding="test"))

        nursery.start_soon(append)
        found = []
        while len(found) < 300:
            head = -1
            while head != spool.head or spool.statistics().trouble is None and head < 300:
                head = spool.head
                await trio.sleep(0.1)
            found += [int.from_bytes(each.data[:2], "big") async for each in spool.read(len(found))]
            with trio.fail_after(10):
                await spool.commit("me", spool.head)
            print(len(found), flush=True)
        assert found == list(range(300))

trio.run(main)
"""


def test_a_consumer_makes_room_in_a_limited_file(directory):
    """The log can always be emptied into the database, so positions are stored."""
    done = subprocess.run(
        [sys.executable, "-c", CONSUMER, str(directory)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    heads = [int(line) for line in done.stdout.splitlines()]
    assert len(heads) >= 300 * 20_000 // 10**6
    assert heads[-1] == 300
