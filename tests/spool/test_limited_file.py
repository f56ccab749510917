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
    assert lines[trouble] == ["trouble", "disk", "I/O", "error", str(trouble)]
    assert 0 < trouble < 120
    assert lines[-1] == ["over", "None", "180"]
    assert "cannot be written now, batches wait: disk I/O error" in done.stderr
    batches = offline(directory, 0, 180)
    assert {batch.first: batch.data[0] for batch in batches} == stored
    assert all(batch.data == batch.data[:1] * 20_000 for batch in batches)
