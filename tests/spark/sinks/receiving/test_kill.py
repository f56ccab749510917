"""The responder is killed with SIGKILL again and again, under load: rows arrive exactly once."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
import trio

from rsocket_trio import ConnectFailed, ConnectionClosed, StreamError, connect
from tests.kills import kills, report
from tests.ports import held_port
from tests.programs import ROOT, environment
from tests.spark.sinks.helpers import commit, opening, rows, write

pytestmark = [pytest.mark.programs, pytest.mark.chaos]

KILLS = kills(6)
BATCHES = 7 * KILLS
PARTITIONS = 3
ROWS = 200


def start(tmp_path, port: str) -> subprocess.Popen:
    arguments = [tmp_path / "staged", tmp_path / "rows.sqlite3", port]
    program = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.spark.sinks.receiving.receiver_program",
            *map(str, arguments),
        ],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout.readline().startswith("tcp:")
    return program


async def write_batch(uri: str, number: int, writer: str) -> None:
    """Write a batch and commit it, as the tasks and the driver of a job do."""
    counts = []
    async with connect(uri) as requester:

        async def task(partition: int) -> None:
            name = f"{writer}/{partition}"
            first = opening(name, batch=number, partition=partition, writer=writer)
            values = [(number * PARTITIONS + partition) * ROWS + each for each in range(ROWS)]
            staged = await write(requester, first, rows(*values))
            counts.append(0 if staged is None else staged.rows)

        async with trio.open_nursery() as nursery:
            for partition in range(PARTITIONS):
                nursery.start_soon(task, partition)
        winners = [f"{writer}/{each}" for each in range(PARTITIONS)]
        await commit(requester, winners, sum(counts), batch=number, writer=writer)


async def drive(uri: str, done: trio.Event, progress: list[int]) -> None:
    """Write each batch again, with new attempts, until it is committed."""
    tries = 0
    while len(progress) < BATCHES:
        tries += 1
        failed = False
        try:
            await write_batch(uri, len(progress), f"w{tries}")
        except* (ConnectFailed, ConnectionClosed, StreamError):
            failed = True
        if failed:
            await trio.sleep(0.02)
        else:
            progress.append(tries)
    done.set()


async def test_kills_under_load(tmp_path):
    """Between, in and after all steps: staging, commit, handler, record."""
    with held_port() as port:
        await kill_under_load(tmp_path, str(port))


async def kill_under_load(tmp_path, port: str) -> None:
    randomness = random.Random(7)
    done = trio.Event()
    progress: list[int] = []
    program = await trio.to_thread.run_sync(start, tmp_path, port)
    killed = 0
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive, f"tcp://127.0.0.1:{port}", done, progress)
            for _ in range(KILLS):
                target = len(progress) + randomness.randrange(1, 5)
                while len(progress) < target and not done.is_set():
                    await trio.sleep(0.001)
                await trio.sleep(randomness.random() * 0.03)
                if not done.is_set():
                    program.kill()
                    program.communicate()
                    killed += 1
                    program = await trio.to_thread.run_sync(start, tmp_path, port)
            await done.wait()
    finally:
        program.kill()
        program.communicate()
    assert killed == KILLS
    assert progress[-1] > BATCHES  # some batches were written more than once
    with closing(sqlite3.connect(tmp_path / "rows.sqlite3")) as database:
        found = database.execute("SELECT v FROM rows").fetchall()
    report("rows to a responder", killed, range(BATCHES * PARTITIONS * ROWS), (v for (v,) in found))
    assert sorted(v for (v,) in found) == [*range(BATCHES * PARTITIONS * ROWS)]
