"""Rows that Spark ships to a receiver of Lumberjack: at least once, and each attempt in order.

The receiver is a collector. Without consumers it keeps everything, so a test sees all windows.
"""

from __future__ import annotations

import json

import pytest

from .agents import sent
from .programs import until
from .relay import Relay
from .scene import lumberjack
from .stored import (
    assert_in_order,
    assert_none_lost,
    assert_only_whole_windows_again,
    stored_windows,
)

pytestmark = [pytest.mark.programs, pytest.mark.bad_days]


@pytest.fixture
def receiver(scene):
    """Where Spark ships the rows to."""
    return scene.collector("receiver")


def shipped_to(uri, **options):
    """The sink, and the column that it ships: the events as they came, byte by byte."""
    return {"format": "lumberjack", "options": {"hosts": uri, **options}}


VALUES = ["value"]


def test_workers_are_killed_in_the_middle_of_a_write(scene, application, receiver):
    """Spark runs their tasks again. All rows that the killed ones have shipped come again."""
    collector, log = scene.filled("a", 4000)
    gate = scene.gate()
    query = application.start(
        [lumberjack(collector, minPartitions=2)],
        shipped_to(receiver.agents),
        scene.checkpoint,
        gate=str(gate.path),
        after=1000,
        select=VALUES,
    )

    def at_the_gate(tasks):
        until(
            lambda: len(gate.waiting()) >= tasks,
            f"{tasks} tasks come to the gate",
            details=lambda: (gate.waiting(), query.state()),
        )

    at_the_gate(2)
    receiver.wait_head(1000)
    application.kill_workers()
    at_the_gate(4)
    gate.open()
    query.done()
    windows = stored_windows(receiver.directory)
    assert assert_none_lost(windows, sent(log)) >= 1000
    assert_in_order(windows, log.lines)


def test_driver_is_killed_before_its_commit_log(scene, application, receiver):
    """A batch was stored, and its acknowledgement was lost: it comes again, as a whole.

    A batch is a window here. All others come once.
    """
    rows = 60
    collector, log = scene.filled("a", 10 * rows)
    source = lumberjack(collector, maxRowsPerTrigger=rows)
    with Relay(receiver.agents) as relay:
        app = scene.application()
        app.start([source], shipped_to(relay.uri), scene.checkpoint, select=VALUES)
        receiver.wait_head(2 * rows)
        relay.hold()
        offsets = scene.checkpoint / "offsets"

        def batch():
            last = max(int(path.name) for path in offsets.glob("[0-9]*"))
            text = (offsets / str(last)).read_text().splitlines()[2]
            return last, sum(json.loads(text)["s"].values())

        until(
            lambda: relay.holds() and receiver.spool().head == batch()[1],
            "a batch is stored",
            details=lambda: (batch(), receiver.spool()),
        )
        app.kill_jvm()
        number, _ = batch()
        assert not (scene.checkpoint / "commits" / str(number)).exists()
        relay.cut()
        relay.allow_all()
        sink = shipped_to(relay.uri)
        application.start([source], sink, scene.checkpoint, select=VALUES).done()
    assert (scene.checkpoint / "commits" / str(number)).exists()
    windows = stored_windows(receiver.directory)
    assert assert_only_whole_windows_again(windows, sent(log)) == rows
    assert_in_order(windows, log.lines)


def test_the_receiver_is_killed_again_and_again(scene, application, receiver):
    """Tasks connect again. Windows come twice whose acknowledgement was lost, and only these."""
    collector, log = scene.filled("a", 20_000)
    source = lumberjack(collector, minPartitions=2)
    sink = shipped_to(receiver.agents, window="100")
    query = application.start([source], sink, scene.checkpoint, select=VALUES)
    for turn in range(1, 5):
        receiver.wait_head(3000 * turn)
        receiver.kill()
        receiver.start()
    query.done()
    windows = stored_windows(receiver.directory)
    assert_only_whole_windows_again(windows, sent(log))
    assert_in_order(windows, log.lines)
