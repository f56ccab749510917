"""The driver is killed: its JVM, or the Python application. Another start goes on exactly there."""

from __future__ import annotations

import pytest

from .agents import sent
from .arrived import assert_each_line_once, batch_attempts, file_sink
from .programs import until
from .scene import lumberjack
from .spark_app import AT_ONCE

pytestmark = pytest.mark.bad_days


def batches(checkpoint, log):
    """The numbers of the batches in a log of Spark's checkpoint: ``offsets`` or ``commits``."""
    return {int(path.name) for path in (checkpoint / log).iterdir() if path.name.isdigit()}


def unfinished(checkpoint):
    """The batch that has begun and not ended, and its offsets."""
    [number] = batches(checkpoint, "offsets") - batches(checkpoint, "commits")
    return number, (checkpoint / "offsets" / str(number)).read_text().splitlines()[2]


@pytest.mark.parametrize("kill", ["kill_jvm", "kill_python"])
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
