"""A writer and readers in several processes at once."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from rsocket_trio.spool import (
    OffsetTrimmed,
    SpoolConfig,
    description,
    offline,
    open_spool,
    reach,
    schema,
)
from tests.programs import environment
from tests.spool.helpers import lines
from tests.waiting import until


@asynccontextmanager
async def running(process):
    try:
        async with process.stdin, process.stdout:
            yield
        await process.wait()
    finally:
        with trio.CancelScope(shield=True):
            process.kill()
            await process.wait()


READ = """
import json, sys
from rsocket_trio.spool import OffsetTrimmed, SpoolConfig, read_range

directory, limit = sys.argv[1], SpoolConfig(max_read_batches=5)
for line in sys.stdin:
    start, stop, identity = json.loads(line)
    try:
        batches = list(read_range(directory, start, stop, spool_id=identity, config=limit))
        text = b"".join(batch.data for batch in batches).decode()
        answer = [sum(batch.wanted for batch in batches), text]
    except OffsetTrimmed as error:
        answer = ["trimmed", error.oldest]
    print(json.dumps(answer), flush=True)
"""


async def test_executors_read_while_the_writer_appends_and_trims(directory):
    """Each range that is asked for has all its events, or was trimmed."""
    config = SpoolConfig(checkpoint_size=2**17)
    async with open_spool(directory, max_size=2**18, config=config) as spool:
        await spool.append(lines(10, "0"))
        await spool.commit("me", 0)
        done = trio.Event()
        ranges, trimmed = [], []

        async def write():
            number = 1
            while not done.is_set():
                await spool.append(lines(10, f"{number}"))
                number += 1

        async def execute():
            process = await trio.lowlevel.open_process(
                [sys.executable, "-c", READ, str(directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment(),
            )
            async with running(process):
                for _ in range(25):
                    start = spool.oldest // 10 * 10
                    stop = min(spool.head, start + 300)
                    question = json.dumps([start, stop, spool.spool_id]) + "\n"
                    await process.stdin.send_all(question.encode())
                    answer = b""
                    while not answer.endswith(b"\n"):
                        answer += await process.stdout.receive_some()
                    count, text = json.loads(answer)
                    if count == "trimmed":
                        trimmed.append(text)
                        continue
                    expected = [f"{n // 10} {n % 10}" for n in range(start, stop)]
                    assert (count, text.splitlines()) == (stop - start, expected)
                    ranges.append(count)
                    with suppress(OffsetTrimmed):  # The other executor may be ahead.
                        await spool.commit("me", stop)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            with trio.fail_after(15):
                async with trio.open_nursery() as executors:
                    executors.start_soon(execute)
                    executors.start_soon(execute)
            done.set()
            await spool.commit("me", spool.head)
        assert len(ranges) + len(trimmed) == 50
        assert len(ranges) >= 25
        await until(lambda: spool.oldest >= max(ranges))


@pytest.mark.parametrize(
    ("module", "use"),
    [
        (reach, lambda where: reach.find_reach(where, 0, 1)),
        (reach, lambda where: reach.find_since(where, 0)),
        (description, description.describe_spool),
        (offline, lambda where: list(offline.read_range(where, 0, 1))),
    ],
)
async def test_no_connection_stays_open(directory, monkeypatch, module, use):
    """Not even if something else still refers to it, such as a traceback."""
    async with open_spool(directory) as spool:
        await spool.append(lines(1))
    opened = []

    def connect(where):
        opened.append(schema.connect_reader(where))
        return opened[-1]

    monkeypatch.setattr(module, "connect_reader", connect)
    use(directory)
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
    assert len(opened) == 1
