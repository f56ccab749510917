"""`Spool.since` and `find_since`: the first event that was stored at a time, or later."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from unittest.mock import patch

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rsocket_trio.spool import (
    NotASpool,
    SpoolConfig,
    SpoolFailed,
    WrongSpool,
    describe_spool,
    find_since,
    open_spool,
)
from rsocket_trio.spool.reach import since_within
from rsocket_trio.spool.schema import connect_reader
from rsocket_trio.testing import cancel_everywhere
from tests.programs import environment
from tests.spool.conftest import MEMORY
from tests.spool.helpers import FaultyConnection, lines
from tests.waiting import until

START = 1_700_000_000.0
VERSION_2 = ("DROP TABLE runs", "PRAGMA user_version = 2")
STEPS = st.one_of(
    # Batches that come after so many seconds: the clock may be set back, or far ahead.
    st.tuples(st.just("append"), st.sampled_from([0, 1, 5, 0.000001, -1, -7, 1000, -999])),
    st.tuples(st.just("append"), st.sampled_from([1, 2, 3])),
    st.tuples(st.just("commit"), st.floats(0, 1)),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(st.just("older"), st.none()),
)


def change(directory, *statements):
    with closing(sqlite3.connect(f"{directory}/spool.sqlite3", isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


class Run:
    """Does the same to a spool and to a list of its batches."""

    def __init__(self, directory):
        self.directory = directory
        self.now = START
        self.times = {}  # the time of each event
        self.oldest = self.head = 0

    def expected(self, time):
        wanted = round(time * 1e6)
        kept = range(self.oldest, self.head)
        return next((each for each in kept if round(self.times[each] * 1e6) >= wanted), self.head)

    async def run(self, steps):
        steps = [*steps, ("end", None)]
        # One batch for each transaction that deletes, so that it has several steps.
        config = SpoolConfig(max_trim_batches=1)
        while steps:
            async with open_spool(self.directory, config=config) as self.spool:
                await self.check()
                while (step := steps.pop(0))[0] in ("append", "commit"):
                    await getattr(self, step[0])(step[1])
                    await self.check()
            if step[0] == "older":
                change(self.directory, *VERSION_2)
            for time in {*self.times.values(), START}:
                assert find_since(self.directory, time) == self.expected(time)

    async def append(self, seconds):
        self.now += seconds
        await self.spool.append(lines(2))
        self.times |= dict.fromkeys((self.head, self.head + 1), self.now)
        self.head += 2

    async def commit(self, place):
        floor = max(self.oldest, round(place * self.head))
        await self.spool.commit("me", floor)
        self.oldest = floor - floor % 2
        await until(lambda: self.spool.oldest == self.oldest)

    async def check(self):
        stored = self.times.values()
        for time in {*stored, *(each + 0.5 for each in stored), START - 1, START + 5000}:
            assert await self.spool.since(time) == self.expected(time)
        kept = {each: self.times[each] for each in range(self.oldest, self.head)}
        assert await self.spool.stored_at(range(self.head + 3)) == kept
        ends = (None, None) if not kept else (kept[self.oldest], kept[self.head - 1])
        for found in (self.spool.statistics(), describe_spool(self.directory)):
            assert (found.oldest_at, found.newest_at) == ends


@settings(max_examples=80)
@example(steps=[("append", 0), ("append", -7), ("commit", 0.5), ("append", 5), ("commit", 1.0)])
@example(steps=[("append", 9), ("append", -1), ("older", None), ("append", -1), ("append", 1000)])
@given(steps=st.lists(STEPS, min_size=3, max_size=20))
def test_any_clock(steps):
    """It agrees with a look at each event, in trio and without, after a trim and an upgrade."""
    where = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="spool-", dir=where) as directory:
        run = Run(f"{directory}/spool")
        with patch("rsocket_trio.spool.ages.now", lambda: run.now):
            trio.run(run.run, steps)


async def test_few_rows_are_read_and_no_data(directory, monkeypatch):
    """Of many batches it looks at a few, and never at their bytes."""
    clock = iter([START, *range(600), *range(600)])
    monkeypatch.setattr("rsocket_trio.spool.ages.now", lambda: START + next(clock))
    async with open_spool(directory) as spool:
        for _ in range(1200):
            await spool.append(lines(1))
    connection = FaultyConnection(connect_reader(directory))
    assert since_within(connection, START + 500) == 500
    assert len(connection.seen) < 25
    assert not [each for each in connection.seen if "data" in each]
    connection.close()


async def test_microseconds_count(directory, monkeypatch):
    """A time that a reader was shown, in microseconds, finds its batch again."""
    monkeypatch.setattr("rsocket_trio.spool.ages.now", lambda: START + 0.123456_4)
    async with open_spool(directory) as spool:
        await spool.append(lines(1))
        assert await spool.since(START + 0.123456) == 0
        assert await spool.since(START + 0.123457) == 1


async def test_a_wrong_question(directory):
    """Times that make no sense, another spool, no spool."""
    with pytest.raises(NotASpool):
        find_since(directory, START)
    async with open_spool(directory) as spool:
        assert await spool.since(START) == find_since(directory, START) == 0
        for time, error in (
            ("1", TypeError),
            (True, TypeError),
            (float("nan"), ValueError),
            (float("-inf"), ValueError),
            (START * 1000, ValueError),
        ):
            with pytest.raises(error):
                await spool.since(time)
            with pytest.raises(error):
                find_since(directory, time)
        with pytest.raises(WrongSpool):
            find_since(directory, START, spool_id="other")
        assert find_since(directory, START, spool_id=spool.spool_id) == 0


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM batches WHERE first = 1",
        "INSERT INTO runs VALUES (-3)",
        "DROP TABLE runs",
    ],
    ids=["batch", "run", "table"],
)
async def test_a_damaged_spool(directory, damage):
    """It is an error, not another answer."""
    async with open_spool(directory) as spool:
        for _ in range(4):
            await spool.append(lines(1))
    change(directory, damage)
    with pytest.raises(SpoolFailed):
        find_since(directory, START + 1e9)
        find_since(directory, START)


KILLED = """
import os, signal, sys, trio
from rsocket_trio.spool import open_spool, schema

def killed(connection):
    yield 2
    os.kill(os.getpid(), signal.SIGKILL)

schema.find_runs = killed

async def main():
    async with open_spool(sys.argv[1]):
        pass

trio.run(main)
"""


async def test_killed_while_an_older_spool_gets_its_index(directory, monkeypatch):
    """It is the older spool as before; the next start goes through."""
    clock = iter([START, START + 9, START + 5, START + 6])
    with monkeypatch.context() as patched:
        patched.setattr("rsocket_trio.spool.ages.now", lambda: next(clock))
        async with open_spool(directory) as spool:
            for _ in range(3):
                await spool.append(lines(2))
    change(directory, *VERSION_2)
    program = [sys.executable, "-c", KILLED, directory]
    assert subprocess.run(program, env=environment(), check=False).returncode == -9
    assert find_since(directory, START + 6) == 0
    async with open_spool(directory) as spool:
        assert [await spool.since(START + each) for each in (5, 9, 10)] == [0, 0, 6]
        assert describe_spool(directory).head == 6


async def test_cancelled_everywhere(directory):
    """The connections of readers are given back, and the next question is answered."""
    async with open_spool(directory) as spool:
        await spool.append(lines(2))

        async def operation():
            await spool.since(START)
            await spool.stored_at([1])

        async def check():
            assert await spool.since(START) == 0

        assert await cancel_everywhere(operation, check) >= 2
