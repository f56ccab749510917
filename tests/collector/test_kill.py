"""kill -9 of a collector: before the sync, between sync and acknowledgement, at random moments.

Nothing that was acknowledged is missing. An event is there twice only if it was on the disk and not
acknowledged.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from itertools import count

import pytest
import trio

from rsocket_trio import Payload, connect
from rsocket_trio.collector import EVENTS
from rsocket_trio.errors import RSocketError
from rsocket_trio.lumberjack import ShipperConfig, stored_events
from rsocket_trio.lumberjack import connect as connect_lumberjack
from rsocket_trio.protocol.retry import Retry
from tests.collector.running import stored
from tests.kills import kills, report
from tests.ports import held_port
from tests.programs import environment
from tests.waiting import until

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")

WINDOW = 50
CONFIG = ShipperConfig(
    initial_window=WINDOW,
    max_window=WINDOW,
    pipelining=1,
    retry=Retry(initial_delay=0.02, max_delay=0.05),
)
KILLS = kills(5)


class Collecting:
    """Starts collectors at one port, one after the other."""

    def __init__(self, directory):
        self._directory = directory
        self._held = held_port()
        self.process = None

    def start(self, when):
        """Start one that kills itself ``before`` or ``after``, or ``never``."""
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.collector.victims",
                self._directory,
                str(self.port),
                when,
            ],
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
        )

    def uri(self):
        """The RSocket address, once it listens."""
        return self.process.stdout.readline().strip()

    def __enter__(self):
        self.port = self._held.__enter__()
        return self

    def __exit__(self, *error):
        self.end()
        self._held.__exit__(*error)

    def end(self):
        self.process.kill()
        self.process.communicate()

    async def died(self):
        await until(lambda: self.process.poll() is not None)
        assert self.process.returncode == -signal.SIGKILL
        self.end()


def numbers(directory):
    """The numbers of the stored events."""
    return [json.loads(raw)["n"] for batch in stored(directory) for raw in stored_events(batch).raw]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_kill_around_the_sync(directory, when):
    """Without the sync, the window comes again once. After it, it is there twice."""
    with Collecting(directory) as collecting:
        collecting.start(when)
        events = [{"n": number} for number in range(500)]
        uri = f"lumberjack://127.0.0.1:{collecting.port}"
        async with connect_lumberjack(uri, config=CONFIG) as shipper, trio.open_nursery() as tasks:
            tasks.start_soon(shipper.send, events)
            await collecting.died()
            at_death = numbers(directory)
            assert at_death == list(range(WINDOW * (2 if when == "before" else 3)))
            assert shipper.statistics().acknowledged <= len(at_death)
            collecting.start("never")
        collecting.uri()
        found = numbers(directory)
        twice = [] if when == "before" else list(range(2 * WINDOW, 3 * WINDOW))
        assert sorted(found) == sorted([*range(500), *twice])


async def test_kills_at_random_moments(directory):
    """Lumberjack loses nothing; of RSocket, each event with a receipt is there."""
    rng = random.Random(7)
    acknowledged = 0
    received = set()
    connections = count(1)

    async def ship(uri):
        nonlocal acknowledged
        async with connect_lumberjack(uri, config=CONFIG) as shipper:
            while not done.is_set():
                first = acknowledged
                await shipper.send([{"n": first + number} for number in range(200)])
                acknowledged += 200

    async def send(uri):
        number = first = 10**6 * next(connections)  # Also if nothing was received meanwhile.

        async def source():
            nonlocal number
            while True:
                yield Payload(b'{"n":%d}' % number)
                number += 1
                if number % 64 == 0:
                    await trio.lowlevel.checkpoint()

        at = first
        try:
            async with connect(uri, data_mime_type="application/json") as requester:
                async with requester.request_channel(source(), route=EVENTS) as replies:
                    async for reply in replies:
                        stored_now = json.loads(reply.data)["count"]
                        received.update(range(at, at + stored_now))
                        at += stored_now
        except RSocketError:
            pass

    done = trio.Event()
    with Collecting(directory) as collecting:
        async with trio.open_nursery() as nursery:
            collecting.start("never")
            nursery.start_soon(ship, f"lumberjack://127.0.0.1:{collecting.port}")
            for _ in range(KILLS):
                uri = await trio.to_thread.run_sync(collecting.uri)
                before = acknowledged
                async with trio.open_nursery() as sending:
                    sending.start_soon(send, uri)
                    await until(lambda before=before: acknowledged > before and received)
                    await trio.sleep(rng.random() * 0.1)
                    os.kill(collecting.process.pid, signal.SIGKILL)
                collecting.end()
                collecting.start("never")
            done.set()
        await trio.to_thread.run_sync(collecting.uri)
        found = numbers(directory)
    shipped = [each for each in found if each < 10**6]
    report("shipper to collector", KILLS, range(acknowledged), shipped)
    assert acknowledged > 200 * KILLS
    assert set(shipped) == set(range(acknowledged))
    assert len(shipped) - acknowledged <= KILLS * WINDOW
    sent = [each for each in found if each >= 10**6]
    report("RSocket channel to collector, with receipts", KILLS, received, received & set(sent))
    assert len(received) > KILLS
    assert received <= set(sent)
    assert len(set(sent)) == len(sent)
