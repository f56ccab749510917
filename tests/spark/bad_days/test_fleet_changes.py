"""Collectors are removed, unreachable, and replaced by empty ones."""

from __future__ import annotations

import pytest

from .agents import sent
from .arrived import assert_each_line_once, file_sink
from .programs import until
from .scene import lumberjack
from .spark_app import AT_ONCE

pytestmark = pytest.mark.programs

COUNT = 1500


def run(application, scene, *collectors, **options):
    """Read what is there now."""
    source = lumberjack(*collectors, **options)
    return application.start([source], scene.file_sink(), scene.checkpoint)


@pytest.mark.bad_days
def test_a_collector_is_down_for_some_time(scene, application):
    """The query goes on with the other one, and reads the rest when it is back.

    It is killed while tasks are reading from it: they wait and go on where they were.
    """
    (one, first), (two, second) = scene.filled("a", COUNT), scene.filled("b", COUNT)
    gate = scene.gate()
    source = lumberjack(one, two, collectorTimeoutMs=30_000)
    query = application.start(
        [source],
        scene.file_sink(),
        scene.checkpoint,
        trigger=AT_ONCE,
        gate=str(gate.path),
        after=300,
    )
    until(lambda: len(gate.waiting()) == 2, "both tasks come to the gate")
    two.kill()
    gate.open()
    two.start()
    until(lambda: query.position() == 2 * COUNT, "both are read", details=query.state)
    two.kill()
    third = scene.ship("c", one, COUNT)
    until(lambda: query.position() == 3 * COUNT, "the other one is read", details=query.state)
    two.start()
    fourth = scene.ship("d", two, COUNT)
    until(lambda: query.position() == 4 * COUNT, "both are read again", details=query.state)
    query.stop()
    assert_each_line_once(file_sink(scene.sink), sent(first, second, third, fourth))


@pytest.mark.bad_days
def test_a_collector_is_removed(scene, application):
    """Its events may be unread, so this is an error, unless the user wants to go on without it."""
    (one, first), (two, second) = scene.filled("a", COUNT), scene.filled("b", COUNT)
    run(application, scene, one, two).done()
    third = scene.ship("c", one, COUNT)
    two.kill()
    gone = two.spool().spool_id
    error = run(application, scene, one).failed()
    assert f"no collector has the spool {gone}" in error
    run(application, scene, one, failOnDataLoss="false").done()
    assert_each_line_once(file_sink(scene.sink), sent(first, second, third))


@pytest.mark.bad_days
def test_a_collector_is_wiped(scene, application):
    """Events of its lost disk are lost: the query says so, and goes on if the user says so."""
    one, first = scene.filled("a", COUNT)
    run(application, scene, one).done()
    unread = scene.ship("lost", one, COUNT)
    gone = one.spool().spool_id
    one.kill()
    one.wipe()
    one.start()
    second = scene.ship("b", one, COUNT)
    error = run(application, scene, one).failed()
    assert f"no collector has the spool {gone}" in error
    assert "failOnDataLoss" in error
    before = file_sink(scene.sink)
    assert_each_line_once(before, sent(first))
    run(application, scene, one, failOnDataLoss="false").done()
    rows = file_sink(scene.sink)
    assert_each_line_once(rows, sent(first, second))
    assert not {row.line for row in rows}.intersection(unread.lines)
