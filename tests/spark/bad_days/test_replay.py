"""``format("rsocket")`` with ``delivery=replay``: each element exactly once, whatever is killed."""

from __future__ import annotations

import pytest

from .agents import sent
from .arrived import assert_each_line_once, batch_attempts, sink_columns
from .programs import until
from .replayers import Replayer, replayed
from .spark_app import AT_ONCE

pytestmark = [pytest.mark.programs, pytest.mark.bad_days]

COUNT = 3000


@pytest.fixture
def logs(scene):
    """The files that are read."""
    return [scene.log("a", COUNT), scene.log("b", COUNT)]


@pytest.fixture
def replayer(scene, logs):
    """A responder with two partitions."""
    return Replayer(scene, *logs).start()


def assert_exactly_once(scene, logs):
    """From a file to Spark's file sink: each line once, at its offset."""
    rows = [replayed(columns) for columns in sink_columns(scene.sink)]
    assert_each_line_once(rows, sent(*logs))
    assert all(logs[int(row.collector)].lines[row.offset] == row.line for row in rows[::100])


def in_the_middle(replayer, query, count=2):
    """Wait until so many tasks have been in the middle of their reads."""
    until(
        lambda: len(replayer.gate.waiting()) >= count,
        f"{count} tasks come to the gate of the responder",
        details=lambda: (replayer.gate.waiting(), query.state()),
    )


def test_driver_is_killed_in_the_middle_of_a_read(scene, application, logs, replayer):
    """The responder is killed too, and has more elements when it is back."""
    replayer.gate.shut()
    app = scene.application()
    source = replayer.source(maxRowsPerTrigger=5000)
    query = app.start([source], scene.file_sink(), scene.checkpoint)
    in_the_middle(replayer, query)
    app.kill_jvm()
    replayer.kill()
    replayer.gate.open()
    offsets = (scene.checkpoint / "offsets/0").read_text()
    assert not committed(scene), "the batch had ended before the driver was killed"
    for log in logs:
        log.write(700)
    replayer.start()
    application.start([source], scene.file_sink(), scene.checkpoint).done()
    assert committed(scene)
    assert (scene.checkpoint / "offsets/0").read_text() == offsets
    assert_exactly_once(scene, logs)


def test_driver_is_killed_between_the_sink_and_the_commit_log(scene, application, logs, replayer):
    """The batch is written again, with the same elements."""
    source, sink = replayer.source(maxRowsPerTrigger=2500), scene.batch_sink()
    app = scene.application()
    app.start([source], sink, scene.checkpoint, trigger=AT_ONCE)
    until(lambda: 0 in attempts(scene), "a batch is written", details=lambda: app.program.errors)
    hold = scene.gate("sink/hold")
    hold.wait()
    [number] = attempts(scene).keys() - committed(scene)
    app.kill_python()
    for log in logs:
        log.write(700)
    hold.open()
    application.start([source], sink, scene.checkpoint).done()
    written = attempts(scene)
    assert len(written[number]) == 2
    assert written[number][0] == written[number][1] != []
    rows = [row for attempts in written.values() for row in attempts[0]]
    assert_each_line_once(rows, sent(*logs))


def attempts(scene):
    return batch_attempts(scene.sink, replayed)


def committed(scene):
    return {int(path.name) for path in (scene.checkpoint / "commits").glob("[0-9]*")}


def test_workers_and_the_responder_are_killed(scene, application, logs, replayer):
    """Tasks run again from the begin of their ranges, and go on over a lost connection."""
    replayer.gate.shut()
    query = application.start([replayer.source()], scene.file_sink(), scene.checkpoint)
    in_the_middle(replayer, query)
    application.kill_workers()
    in_the_middle(replayer, query, 4)
    replayer.kill()
    replayer.gate.open()
    replayer.start()
    query.done()
    assert_exactly_once(scene, logs)


def test_the_responder_is_away_for_longer_than_the_timeout(scene, application, logs, replayer):
    """The query fails with the address, and goes on when it is started again."""
    replayer.gate.shut()
    source = replayer.source(timeoutMs=2000)
    query = application.start([source], scene.file_sink(), scene.checkpoint)
    in_the_middle(replayer, query)
    replayer.kill()
    assert replayer.uri in query.failed()
    assert not committed(scene)
    replayer.gate.open()
    replayer.start()
    source = replayer.source()
    application.start([source], scene.file_sink(), scene.checkpoint).done()
    assert_exactly_once(scene, logs)
