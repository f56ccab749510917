"""After kill -9 and after a power failure, every batch is there whose append has returned."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rsocket_trio.spool import open_spool
from tests.kills import kills
from tests.programs import environment
from tests.spool.helpers import collect, offline

ROUNDS = kills(50)
POWER_FAILURES = kills(20)
SEED = 7
LINES = (10, 0, 30, 1, 60, 3)
"""How many lines of the program are read before it is killed, in turn."""

# One process that has imported everything forks a child for each round: starting takes long.
PARENT = """
import os, sys, trio
from rsocket_trio.spool import Batch, SpoolConfig, open_spool

SMALL = SpoolConfig(checkpoint_size=2**17, max_group_batches=3)

def batch(name, number):
    size = (number * 7919) % 40_000
    return Batch(number % 5 + 1, b"%s %d " % (name, number) + bytes([number % 251]) * size,
                 encoding="test", facts={"name": name.decode(), "number": str(number)})

async def append(spool, name, start):
    number = start
    while True:
        first = await spool.append(batch(name, number))
        os.write(1, b"stored %s %d %d\\n" % (name, number, first))
        number += 1

async def trim(spool, start):
    while True:
        # The tests know what must be there: nothing from 200 events behind the head on.
        position = max(spool.head - 200, spool.oldest)
        await spool.commit("trimmer", position)
        os.write(1, b"position trimmer 0 %d\\n" % position)
        await trio.sleep(0.001)

async def main(directory, start):
    async with open_spool(directory, max_size=30_000_000, config=SMALL) as spool:
        os.write(1, b"open spool 0 %d\\n" % spool.head)
        async with trio.open_nursery() as nursery:
            for name in (b"a", b"b", b"c"):
                nursery.start_soon(append, spool, name, start)
            nursery.start_soon(trim, spool, start)

for line in sys.stdin:
    directory, start = line.split()
    child = os.fork()
    if child == 0:
        os.write(1, b"child pid 0 %d\\n" % os.getpid())
        try:
            trio.run(main, directory, int(start))
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    os.write(1, b"over child 0 0\\n")
"""


class Victim:
    """Starts a program that appends, kills it, and notes what was acknowledged.

    Attributes:
        stored: Name and number of each batch whose append has returned, by its offset.
        position: The last position whose commit has returned.
    """

    def __init__(self, directory, **environ):
        self.directory = directory
        self.stored = {}
        self.position = 0
        self.rng = random.Random(SEED)
        self._turn = 0
        self._environ = environ

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-c", PARENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(**self._environ),
            bufsize=0,
        )
        self._said = os.fdopen(os.dup(self._process.stdout.fileno()), "rb")
        return self

    def __exit__(self, *_error):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._said.close()

    def run(self):
        """Run the program once, and kill it at a random moment."""
        wanted = LINES[self._turn % len(LINES)]
        self._turn += 1
        self._process.stdin.write(b"%s %d\n" % (os.fsencode(self.directory), 1000 * self._turn))
        what, _, _, child = self._said.readline().split()
        assert what == b"child"
        # Sometimes it is killed while it opens the spool, and mostly while it appends.
        lines = [self._said.readline().split() for _ in range(wanted)]
        time.sleep(self.rng.random() * 0.004)
        os.kill(int(child), signal.SIGKILL)
        while not lines or lines[-1][0] != b"over":
            lines.append(self._said.readline().split())
        for what, name, number, offset in lines:
            if what == b"stored":
                self.stored[int(offset)] = (name.decode(), int(number))
            elif what == b"position":
                self.position = int(offset)

    async def check(self):
        """Check that what was acknowledged is there, and that there is nothing wrong."""
        async with open_spool(self.directory, max_size=30_000_000) as spool:
            assert spool.positions().get("trimmer", 0) >= self.position
            oldest, head = spool.oldest, spool.head
            batches = await collect(spool.read(oldest))
        assert batches == offline(self.directory, oldest, head)
        found, at = {}, oldest
        for batch in batches:
            assert batch.first == at
            at = batch.end
            name, number = batch.facts["name"], int(batch.facts["number"])
            found[batch.first] = (name, number)
            size = (number * 7919) % 40_000
            data = b"%s %d " % (name.encode(), number) + bytes([number % 251]) * size
            assert (batch.data, batch.count) == (data, number % 5 + 1)
        assert at == head
        for first, what in self.stored.items():
            if first >= oldest:
                assert found[first] == what
            else:
                assert first < head - 150, "only what the consumer has behind it is deleted"


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


async def test_nothing_that_was_acknowledged_is_lost(directory):
    """Nor any part of it: batches have the right bytes, offsets and facts, without a gap."""
    with Victim(directory) as victim:
        for _ in range(ROUNDS):
            victim.run()
            if victim.stored:
                # Before another writer has opened it, too.
                last = max(victim.stored)
                [batch] = offline(directory, last, last + 1)
                assert int(batch.facts["number"]) == victim.stored[last][1]
                await victim.check()
    print(
        f"writer to spool: {ROUNDS} kills; {len(victim.stored)} batches acknowledged; after each"
        " kill all that no consumer had behind it were there, once, with their bytes"
    )
    assert len(victim.stored) > ROUNDS


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="a C compiler, to see which bytes were synced",
)
async def test_a_power_failure(directory, tmp_path):
    """As above, where all that was not synced is lost with the process (see synced.c)."""
    source, library = Path(__file__).with_name("synced.c"), tmp_path / "synced.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    synced = directory.with_name("synced")
    synced.mkdir()
    with Victim(directory, LD_PRELOAD=str(library), SYNCED=str(synced)) as victim:
        for _ in range(POWER_FAILURES):
            victim.run()
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(synced, directory, ignore=shutil.ignore_patterns("*.part"))
            if victim.stored:
                await victim.check()
                # What check has written was synced, but not by the program.
                for path in directory.glob("spool.sqlite3*"):
                    shutil.copy(path, synced)
                for name in {path.name for path in synced.iterdir()} - {*os.listdir(directory)}:
                    (synced / name).unlink()
    assert len(victim.stored) > POWER_FAILURES
