"""kill -9 of anything on the way from a file to Spark's file sink, at random moments, under load.

Whatever is killed, each stored event is in the sink once, and each line of the files is there. A
line comes twice only if it was on its way when its agent or its collector was killed.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from rsocket_trio.lumberjack import ShipperConfig
from tests.kills import kills, report

from .agents import WINDOW, sent
from .arrived import Kill, assert_doubled_only_on_the_way, assert_no_line_lost, file_sink
from .scene import lumberjack
from .spark_app import AT_ONCE

pytestmark = [pytest.mark.bad_days, pytest.mark.jvm]

KILLS = kills(20)
SEED = int(os.environ.get("KILL_SEED", random.SystemRandom().randrange(10**9)))

SPARK = ["jvm", "python", "runner", "runner", *["worker"] * 6]
DECK = [*SPARK, *["agent"] * 5, *["collector"] * 5]
"""What is killed in twenty kills. A new driver takes ten times as long as anything else."""

PATIENT = "local[2,100]"
"""Attempts of a task: workers may be killed as often as chance has it, and the query goes on."""

UNSTORED = ShipperConfig().pipelining * WINDOW
"""Lines that an agent can have sent and the collector has not stored."""

BACKLOG = 500_000
"""Bytes of a file that are not acknowledged yet: there is always something on the way."""


def moments(rng: random.Random) -> Iterator[list[str]]:
    """What is killed at once: mostly one part, sometimes two that are different programs."""
    left = KILLS
    deck: list[str] = []
    while left:
        deck = deck or rng.sample(DECK, len(DECK))
        kinds = [deck.pop()]
        if left > 1 and deck and rng.random() < 0.3:
            other = deck[-1]
            if other != kinds[0] and not {other, kinds[0]} <= set(SPARK):
                kinds.append(deck.pop())
        left -= len(kinds)
        yield kinds


class Way:
    """Two files, each with an agent and a collector, and a query that reads both collectors.

    The spools are small, so agents wait for Spark, and events are deleted behind it.
    """

    def __init__(self, scene, rng):
        self._scene, self._rng = scene, rng
        self.logs = [scene.log(name, 5000) for name in ("a", "b")]
        self.collectors = [scene.collector(name, "--max-size", "1M") for name in ("one", "two")]
        follow = ("--follow", "--poll", "0.05")
        self.agents = [
            scene.agent(log, collector, options=follow)
            for log, collector in zip(self.logs, self.collectors, strict=True)
        ]
        self.kills: list[list[Kill]] = [[] for _ in self.logs]
        self.source = lumberjack(*self.collectors, maxRowsPerTrigger=2000, minPartitions=4)
        self.start_driver()

    def start_driver(self):
        self.app = self._scene.application(PATIENT)
        self.start_query()

    def start_query(self):
        sink, checkpoint = self._scene.file_sink(), self._scene.checkpoint
        self.query = self.app.start([self.source], sink, checkpoint, trigger=AT_ONCE)

    def go_on_after_runner(self):
        assert self.query.failed()
        self.start_query()

    def write(self):
        for log, agent in zip(self.logs, self.agents, strict=True):
            if log.path.stat().st_size - agent.registered() < BACKLOG:
                log.write(self._rng.randrange(8000))

    def kill(self, kind) -> Callable[[], object]:
        """Kill a part; return what starts it again."""
        number = self._rng.randrange(2)
        agent, collector = self.agents[number], self.collectors[number]
        match kind:
            case "jvm":
                self.app.kill_jvm()
                return self.start_driver
            case "python":
                self.app.kill_python()
                return self.start_driver
            case "runner":
                self.app.kill_runner()
                return self.go_on_after_runner
            case "worker":
                self.app.kill_one_worker(self._rng)
                return lambda: None  # Spark does it.
            case "agent":
                agent.kill()
                again = agent.start
            case "collector":
                collector.kill()
                again = collector.start
        known = self.logs[number].lines_before(agent.registered())
        self.kills[number].append(Kill(known, collector.spool().head))
        return again

    def finish(self):
        """Let all arrive that was written."""
        for log, agent in zip(self.logs, self.agents, strict=True):
            agent.wait_registered(log.path.stat().st_size)
        self.query.stop()
        self.app.start([self.source], self._scene.file_sink(), self._scene.checkpoint).done()


def test_anything_at_random_moments(scene):
    """One part or two at a time, which come back in any order."""
    rng = random.Random(SEED)
    print(f"KILL_SEED={SEED}")
    killed: Counter[str] = Counter()
    way = Way(scene, rng)
    for kinds in moments(rng):
        way.write()
        time.sleep(rng.choice([0.1, 0.7, 2]) * rng.random())
        # A worker first: while a collector is down, there may be no task and so no worker.
        again = [way.kill(kind) for kind in sorted(kinds, key="worker".__ne__)]
        killed.update(kinds)
        rng.shuffle(again)
        # The query ends without its runner when its batch does, which needs the collectors.
        for start in sorted(again, key=lambda start: start == way.go_on_after_runner):
            start()
    way.finish()
    rows = file_sink(scene.sink)
    print("killed:", ", ".join(f"{times} {kind}" for kind, times in sorted(killed.items())))
    lines = (row.line for row in rows)
    report("agents, collectors, Spark, its file sink", KILLS, sent(*way.logs), lines)
    spools = [collector.spool() for collector in way.collectors]
    stored = {(spool.spool_id, offset) for spool in spools for offset in range(spool.head)}
    report(
        "spools, Spark, its file sink", KILLS, stored, ((row.collector, row.offset) for row in rows)
    )
    assert_no_line_lost(rows, sent(*way.logs))
    assert Counter((row.collector, row.offset) for row in rows) == Counter(stored)
    for spool, log, of_this in zip(spools, way.logs, way.kills, strict=True):
        assert_doubled_only_on_the_way(rows, spool.spool_id, log.lines, of_this, UNSTORED)
