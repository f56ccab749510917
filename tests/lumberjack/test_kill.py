"""kill -9 of the receiver and of the shipper, at random moments, with a spool on each side.

Every event arrives. An event arrives twice only if it was on its way when one of them was killed,
and each connection keeps the order.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from itertools import chain, pairwise
from pathlib import Path

import pytest
import trio

from rsocket_trio.lumberjack import stored_events
from rsocket_trio.spool import open_spool
from tests.kills import kills, report
from tests.lumberjack.victims import IN_FLIGHT, LARGEST
from tests.ports import held_port
from tests.programs import environment

KILLS = kills(100)
SEED = 11
pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]


class Children:
    """Starts the receiver and the shipper, and kills them."""

    def __init__(self):
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.lumberjack.victims"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )
        self.running = {}

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        for what in list(self.running):
            self.kill(what)
        self._parent.kill()
        self._parent.communicate()

    def start(self, what, *args):
        self.running[what] = int(self._ask(what, *args))

    def kill(self, what):
        self._ask("kill", self.running.pop(what))

    def _ask(self, *words):
        self._parent.stdin.write(" ".join(map(str, words)) + "\n")
        self._parent.stdin.flush()
        return self._parent.stdout.readline()


async def received(directory):
    """The numbers of the events that each connection has brought, in the order of arrival."""
    connections = {}
    async with open_spool(directory) as spool:
        async for stored in spool.read(0):
            numbers = connections.setdefault(stored.facts["connection"], [])
            numbers += [json.loads(raw)["n"] for raw in stored_events(stored).raw]
    return list(connections.values())


def test_every_event_arrives():
    """A hundred times one of them, or both, are killed; then they finish."""
    rng = random.Random(SEED)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix="kill-", dir=memory) as directory,
        held_port() as port,
        Children() as children,
    ):
        here, there = Path(directory) / "here", Path(directory) / "there"
        places = {"receive": there, "ship": here}
        for what, place in places.items():
            children.start(what, place, port)
        kills_done = 0
        while kills_done < KILLS:
            time.sleep(rng.choice([0.05, 0.2, 0.4]) * rng.random())
            victims = rng.choice([["receive"], ["ship"], ["receive", "ship"]])
            for what in victims:
                children.kill(what)
                kills_done += 1
            if rng.random() < 0.3:
                time.sleep(0.02)  # The other one notices.
            for what in victims:
                children.start(what, places[what], port)
        # No more events than these: the rest is shipped, and acknowledged.
        children.kill("ship")
        here.with_name("stop").write_text(str(10 * KILLS))
        children.start("ship", here, port)
        head = here.with_name("head")
        deadline = time.monotonic() + 30
        while not head.exists():
            assert time.monotonic() < deadline, "the shipper does not come to an end"
            time.sleep(0.01)
        count = int(head.read_text())
        children.kill("receive")
        connections = trio.run(received, there)

    report("spool, shipper, receiver, spool", kills_done, range(count), chain(*connections))
    assert count >= 10 * KILLS
    arrived = set().union(*connections)
    assert arrived == set(range(count))
    for numbers in connections:
        assert all(after == before + 1 for before, after in pairwise(numbers))
    newest = -1
    for numbers in connections:
        # An acknowledged event comes again only if the shipper was killed before it could note it.
        assert newest - 2 * IN_FLIGHT * LARGEST < numbers[0] <= newest + 1
        newest = max(newest, numbers[-1])
    copies = sum(map(len, connections)) - count
    assert copies < kills_done * 2 * IN_FLIGHT * LARGEST
    assert copies > 0 or KILLS < 30, "some kills must hit events on their way"
