"""Parts of a running query are killed: the runner of the source, workers, an executor."""

from __future__ import annotations

import pytest

from . import process_table
from .agents import sent
from .arrived import assert_each_line_once, file_sink
from .programs import until
from .scene import lumberjack
from .spark_app import AT_ONCE

pytestmark = pytest.mark.programs

COUNT = 6000


def test_runner_is_killed(scene, application):
    """The query fails, and does not wait for it; another start goes on."""
    collector, log = scene.filled("a", COUNT)
    source = lumberjack(collector, maxRowsPerTrigger=1500)
    query = application.start([source], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE)
    until(lambda: len(file_sink_files(scene)) >= 2, "two batches are written")
    application.kill_runner()
    # Spark's error depends on the call that it was in, e.g. only "Connection reset".
    assert query.failed()
    second = scene.ship("b", collector, 2000)
    application.start([source], scene.file_sink(), scene.checkpoint).done()
    assert_each_line_once(file_sink(scene.sink), sent(log, second))


def file_sink_files(scene):
    return list((scene.sink / "_spark_metadata").glob("[0-9]*"))


def test_workers_are_killed_in_the_middle_of_a_read(scene, application):
    """Their tasks run again, and no row is there twice."""
    collector, log = scene.filled("a", COUNT)
    gate = scene.gate()
    source = lumberjack(collector, minPartitions=2)
    query = application.start(
        [source], scene.file_sink(), scene.checkpoint, gate=str(gate.path), after=500
    )
    until(
        lambda: len(gate.waiting()) == 2,
        "both tasks come to the gate",
        details=lambda: (gate.waiting(), query.state()),
    )
    application.kill_workers()
    until(
        lambda: len(gate.waiting()) >= 4,
        "both tasks come to the gate again",
        details=lambda: (gate.waiting(), query.state()),
    )
    gate.open()
    query.done()
    assert_each_line_once(file_sink(scene.sink), sent(log))


@pytest.mark.bad_days
def test_an_executor_is_killed_in_the_middle_of_a_read(scene):
    """In a cluster of two executors its tasks run on the other one."""
    collector, log = scene.filled("a", COUNT)
    app = scene.application("local-cluster[2,1,512]")
    gate = scene.gate()
    source = lumberjack(collector, minPartitions=2)
    query = app.start([source], scene.file_sink(), scene.checkpoint, gate=str(gate.path), after=500)
    until(
        lambda: len(gate.waiting()) == 2,
        "both tasks come to the gate",
        details=lambda: (gate.waiting(), query.state()),
    )
    before = process_table.executors(app.program.session)
    assert len(before) == 2
    app.kill_executor()
    until(lambda: len(gate.waiting()) >= 3, "the task comes to the gate again")
    gate.open()
    query.done()
    assert_each_line_once(file_sink(scene.sink), sent(log))
