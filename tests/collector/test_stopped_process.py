"""The memory of a collector's process, while the process of its readers is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from rsocket_trio.spool import Batch, open_spool
from tests.programs import environment

pytestmark = pytest.mark.skipif(
    not (hasattr(signal, "SIGSTOP") and Path("/proc/self/status").exists()),
    reason="this system does not tell how much memory a process has",
)

MB = 2**20
CONNECTIONS = 12


def resident(pid):
    """The memory that a process has, in megabytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def start(*arguments):
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(), text=True)


async def test_stopped_readers_of_large_batches(directory):
    """192 ranges of batches of 8 MB would be 1.5 GB."""
    async with open_spool(directory) as spool:
        for _ in range(3):
            await spool.append(Batch(1, os.urandom(8 * MB), encoding="lines"))
        await spool.commit("q", 0)
        spool_id = spool.spool_id
    collector = start(
        "rsocket_trio", "collect", "--spool", directory, "--listen", "tcp://127.0.0.1:0"
    )
    readers = None
    try:
        uri = collector.stdout.readline().split()[-1]
        before = resident(collector.pid)
        readers = start("tests.collector.stopped_reader", uri, spool_id, 3, CONNECTIONS)
        assert readers.stdout.readline() == "stopped\n"
        peak = 0.0
        for _ in range(100):
            await trio.sleep(0.02)
            peak = max(peak, resident(collector.pid))
        # 128 MB of batches, 1 MB for each connection, and a second copy in 4 threads that read.
        assert 60 < peak - before < 128 + CONNECTIONS + 4 * 8 + 40
    finally:
        for process in (readers, collector):
            if process is not None:
                process.kill()
                process.communicate()
