"""Measure a spool: events per second, next to a bare log that is synced after each batch.

``python -m benchmarks.spool --directory .``: batches of 2048 events of 170 bytes, as they are
and compressed, from one task that waits for each commit, and from eight. "Here" are those that come
as they are and are compressed before each append, and inflated when they are read.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
import zlib
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from rsocket_trio.spool import Batch, open_spool

try:
    from isal import isal_zlib as isal
except ImportError:
    isal = None
compressing = isal or zlib

EVENTS: Final = 2048
EVENT_SIZE: Final = 170


def make_batches() -> dict[str, Batch]:
    """Return a batch of JSON lines, and the same compressed."""
    rng = random.Random(1)
    lines = [
        b'{"@timestamp":"2026-01-02T03:%02d:%02d.%03dZ","message":"GET /index/%06d 200 %05d",'
        b'"agent":"filebeat","host":"web-%02d","log":{"offset":%09d}}'
        % (i % 60, i % 59, i % 997, rng.randrange(10**6), rng.randrange(10**5), i % 30, i)
        for i in range(EVENTS)
    ]
    raw = b"".join(line.ljust(EVENT_SIZE - 1) + b"\n" for line in lines)
    facts = {"peer": "10.0.0.1:4711", "received_at": "2026-01-02T03:04:05Z"}
    return {
        "raw": Batch(EVENTS, raw, encoding="json-lines", facts=facts),
        "zlib": Batch(EVENTS, zlib.compress(raw, 1), encoding="json-lines+zlib", facts=facts),
    }


def deflated(batch: Batch) -> Batch:
    """Compress a batch as fast as it can be done here."""
    data = compressing.compress(batch.data, 0 if compressing is isal else 1)
    return attrs.evolve(batch, data=data, encoding="json-lines+zlib")


def written() -> int:
    """Return the bytes that this process has sent to disks, or 0 where Linux does not tell it."""
    io = Path("/proc/self/io")
    if not io.exists():
        return 0
    return int(dict(line.split(": ") for line in io.read_text().splitlines())["write_bytes"])


def report(what: str, events: int, seconds: float, processor: float, size: int = 0) -> None:
    """Print a line of the result."""
    print(
        f"{what:28} {events / seconds / 1e6:6.2f} M events/s   "
        f"{seconds / events * EVENTS * 1e3:6.2f} ms per batch   "
        f"{processor / events * 1e6:6.3f} us of processor time per event   "
        f"{size / events:6.1f} bytes written"
    )


def measure_log(name: str, batch: Batch, directory: Path, seconds: float) -> None:
    """Append to a file, and sync it after each batch."""
    with open(directory / "log", "wb", buffering=0) as log:
        events, began, processor = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - began < seconds:
            log.write(batch.data)
            os.fdatasync(log.fileno())
            events += EVENTS
        took, used = time.perf_counter() - began, time.process_time() - processor
    report(f"bare log, {name}", events, took, used)


async def measure_spool(
    name: str, batch: Batch, tasks: int, directory: Path, seconds: float, *, here: bool = False
) -> None:
    """Append with some tasks, each waiting for its batch; then read all."""
    async with open_spool(directory / f"spool-{name}-{tasks}", max_size=2**40) as spool:
        await spool.append(batch)
        first, began, processor = spool.head, time.perf_counter(), time.process_time()
        before = written()

        async def append() -> None:
            while time.perf_counter() - began < seconds:
                await spool.append(deflated(batch) if here else batch)

        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(append)
        took, used = time.perf_counter() - began, time.process_time() - processor
        size = written() - before
        report(f"spool, {name}, {tasks} at once", spool.head - first, took, used, size)
        events, began, processor = 0, time.perf_counter(), time.process_time()
        async for stored in spool.read(0):
            if here and stored.first:
                compressing.decompress(stored.data)
            events += stored.wanted
        took, used = time.perf_counter() - began, time.process_time() - processor
        report("   reading", events, took, used)


def main() -> None:
    """Measure each case in turn."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.spool", description=__doc__)
    options.add_argument("--directory", help="where to write (default: that of temporary files)")
    options.add_argument("--seconds", type=float, default=1.0, help="length of a measurement")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="spool-", dir=arguments.directory) as made:
        directory, seconds = Path(made), arguments.seconds
        for name, batch in make_batches().items():
            measure_log(name, batch, directory, seconds)
            for tasks in (1, 8):
                trio.run(measure_spool, name, batch, tasks, directory, seconds)
            measure_log(name, batch, directory, seconds)
        raw = make_batches()["raw"]
        for tasks in (1, 8):
            trio.run(partial(measure_spool, "here", raw, tasks, directory, seconds, here=True))


if __name__ == "__main__":
    main()
