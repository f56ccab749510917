"""kill -9 at random moments: every batch whose append has returned is there afterwards."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from rsocket_trio.spool import open_spool
from tests.programs import environment
from tests.spool.helpers import collect, offline

ROUNDS = 50
SEED = 7

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
        try:
            trio.run(main, directory, int(start))
        finally:
            os._exit(1)
    os.write(1, b"child pid 0 %d\\n" % child)
    os.waitpid(child, 0)
    os.write(1, b"over child 0 0\\n")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
async def test_nothing_that_was_acknowledged_is_lost(directory):
    """Nor any part of it: batches have the right bytes, offsets and facts, without a gap."""
    rng = random.Random(SEED)
    acknowledged = {}
    position = 0
    numbers = 0
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
        bufsize=0,
    )
    said = os.fdopen(os.dup(process.stdout.fileno()), "rb")
    try:
        for turn in range(ROUNDS):
            process.stdin.write(b"%s %d\n" % (os.fsencode(directory), 1000 * turn))
            what, _, _, child = said.readline().split()
            assert what == b"child"
            # Sometimes it is killed while it opens the spool, and mostly while it appends.
            wanted = rng.choice([0, 1, 3, 10, 30, 60])
            lines = [said.readline().split() for _ in range(wanted)]
            time.sleep(rng.random() * 0.004)
            os.kill(int(child), signal.SIGKILL)
            while not lines or lines[-1][0] != b"over":
                lines.append(said.readline().split())
            for what, name, number, offset in lines:
                if what == b"stored":
                    acknowledged[int(offset)] = (name, int(number))
                elif what == b"position":
                    position = int(offset)
            numbers += sum(line[0] == b"stored" for line in lines)
            if acknowledged:
                # Before another writer has opened it, too.
                last = max(acknowledged)
                [batch] = offline(directory, last, last + 1)
                assert int(batch.facts["number"]) == acknowledged[last][1]
                await check(directory, acknowledged, position)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        said.close()
    assert numbers > 5 * ROUNDS


async def check(directory, acknowledged, position):
    async with open_spool(directory, max_size=30_000_000) as spool:
        assert spool.positions().get("trimmer", 0) >= position
        oldest, head = spool.oldest, spool.head
        batches = await collect(spool.read(oldest))
    assert batches == offline(directory, oldest, head)
    found = {batch.first: batch for batch in batches}
    at = oldest
    for batch in batches:
        assert batch.first == at
        at = batch.end
        name, number = batch.facts["name"].encode(), int(batch.facts["number"])
        size = (number * 7919) % 40_000
        assert batch.data == b"%s %d " % (name, number) + bytes([number % 251]) * size
        assert batch.count == number % 5 + 1
    assert at == head
    for first, (name, number) in acknowledged.items():
        if first >= oldest:
            assert found[first].facts == {"name": name.decode(), "number": str(number)}
        else:
            assert first < head - 150, "only what the consumer has behind it is deleted"
