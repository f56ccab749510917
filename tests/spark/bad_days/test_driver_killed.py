"""The driver is killed: its JVM, or the Python application. Another start goes on exactly there."""

from __future__ import annotations

from itertools import cycle, islice

import pytest

from tests.kills import kills, report

from .agents import sent
from .arrived import assert_each_line_once, assert_no_line_lost, batch_attempts, file_sink
from .programs import until
from .scene import lumberjack
from .spark_app import AT_ONCE

pytestmark = pytest.mark.bad_days

VICTIMS = ["kill_jvm", "kill_python"]
TURNS = max(3, kills(9) // 3)
"""In each of them a collector, the driver and an agent are killed."""


def batches(checkpoint, log):
    """The numbers of the batches in a log of Spark's checkpoint: ``offsets`` or ``commits``."""
    return {int(path.name) for path in (checkpoint / log).iterdir() if path.name.isdigit()}


def unfinished(checkpoint):
    """The batch that has begun and not ended, and its offsets."""
    [number] = batches(checkpoint, "offsets") - batches(checkpoint, "commits")
    return number, (checkpoint / "offsets" / str(number)).read_text().splitlines()[2]


@pytest.mark.parametrize("kill", VICTIMS)
def test_in_the_middle_of_a_read(scene, application, kill):
    """Spark reads the same range again; rows that were written are not there twice."""
    collector, logs = scene.collector(), [scene.log("a", 6000), scene.log("b", 6000)]
    for log in logs:
        scene.agent(log, collector).done()
    # Two tasks. 500 events of each pass the gate, so they have been written.
    source = lumberjack(collector, minPartitions=2, maxRowsPerTrigger=5000)
    app = scene.application()
    gate = scene.gate()
    app.start([source], scene.file_sink(), scene.checkpoint, gate=str(gate.path), after=500)
    gate.wait()
    getattr(app, kill)()
    number, offsets = unfinished(scene.checkpoint)
    assert not file_sink(scene.sink), "the batch had ended before the application was killed"
    gate.open()
    application.start([source], scene.file_sink(), scene.checkpoint).done()
    assert number in batches(scene.checkpoint, "commits")
    now = (scene.checkpoint / "offsets" / str(number)).read_text().splitlines()[2]
    assert now == offsets
    assert_each_line_once(file_sink(scene.sink), sent(*logs))


def test_between_the_sink_and_the_commit_log(scene, application):
    """The batch is written again, with the same rows: a sink that knows its number drops it.

    The agent goes on while no Spark is there. test_rsocket_sink.py kills the Python application at
    this point.
    """
    collector, first, second = scene.collector(), scene.log("a", 4000), scene.log("b", 4000)
    scene.agent(first, collector).done()
    source = lumberjack(collector, maxRowsPerTrigger=1000)
    sink = scene.batch_sink()
    app = scene.application()
    app.start([source], sink, scene.checkpoint, trigger=AT_ONCE)
    until(lambda: 1 in batch_attempts(scene.sink), "two batches are written")
    hold = scene.gate("sink/hold")
    hold.wait()
    number, _ = unfinished(scene.checkpoint)
    assert len(batch_attempts(scene.sink)[number]) == 1
    app.kill_jvm()
    scene.agent(second, collector).done()
    hold.open()
    application.start([source], sink, scene.checkpoint).done()
    written = batch_attempts(scene.sink)
    assert len(written[number]) == 2
    assert written[number][0] == written[number][1] != []
    rows = [row for attempts in written.values() for row in attempts[0]]
    assert_each_line_once(rows, sent(first, second))


def test_again_and_again(scene, application):
    """The driver, the collector and an agent are killed in turns, in the middle of anything."""
    collectors = [scene.collector("one"), scene.collector("two")]
    logs = [scene.log(name, 20_000 * TURNS) for name in ("a", "b")]
    agents = [scene.agent(log, collector) for log, collector in zip(logs, collectors, strict=True)]
    source = lumberjack(*collectors, maxRowsPerTrigger=6_000)
    for turn, kill in enumerate(islice(cycle(VICTIMS), TURNS)):
        app = scene.application()
        before = len(batches(scene.checkpoint, "commits")) if turn else 0
        app.start([source], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE)
        until(
            lambda before=before: (
                (scene.checkpoint / "commits").exists()
                and len(batches(scene.checkpoint, "commits")) > before + 1
            ),
            "the query makes progress",
            details=lambda app=app: app.program.errors[-4000:],
        )
        collectors[turn % 2].kill()
        getattr(app, kill)()
        agents[turn % 2].kill()
        collectors[turn % 2].start()
        agents[turn % 2].start()
    for agent in agents:
        agent.done()
    application.start([source], scene.file_sink(), scene.checkpoint).done()
    rows = file_sink(scene.sink)
    lines = (row.line for row in rows)
    report("agents, collectors, Spark, its file sink", 3 * TURNS, sent(*logs), lines)
    assert_no_line_lost(rows, sent(*logs))
    # Everything that was stored has arrived, duplicates of the agents included.
    assert len(rows) == sum(collector.spool().head for collector in collectors)
