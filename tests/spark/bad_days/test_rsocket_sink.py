"""Rows that Spark writes to an RSocket responder: killed on the way, each comes once."""

from __future__ import annotations

import pytest

from .agents import sent
from .arrived import assert_each_line_once
from .programs import until
from .relay import Relay
from .responders import Receiver
from .scene import lumberjack

pytestmark = pytest.mark.programs


@pytest.fixture
def receiver():
    """A receiver of rows."""
    with Receiver() as receiver:
        yield receiver


def to_rsocket(uri):
    return {"format": "rsocket", "options": {"uri": uri, "route": "rows"}}


def test_workers_are_killed_in_the_middle_of_a_write(scene, application, receiver):
    """What the killed attempts have sent is dropped."""
    collector, log = scene.collector(), scene.log("a", 4000)
    scene.agent(log, collector).done()
    gate = scene.gate()
    query = application.start(
        [lumberjack(collector, minPartitions=2)],
        to_rsocket(receiver.uri),
        scene.checkpoint,
        gate=str(gate.path),
        after=1000,
    )
    until(
        lambda: len(gate.waiting()) == 2,
        "both tasks come to the gate",
        details=lambda: (gate.waiting(), query.state()),
    )
    until(lambda: receiver.staged().staged_size > 0, "rows arrive before the gate")
    application.kill_workers()
    until(
        lambda: len(gate.waiting()) >= 4,
        "both tasks come to the gate again",
        details=lambda: (gate.waiting(), query.state()),
    )
    gate.open()
    query.done()
    assert receiver.staged().attempts == 0
    assert_each_line_once(receiver.rows, sent(log))


@pytest.mark.bad_days
def test_driver_is_killed_between_the_sink_and_the_commit_log(scene, application, receiver):
    """The same batch is written and committed again: the receiver knows its number."""
    collector, log = scene.collector(), scene.log("a", 4000)
    scene.agent(log, collector).done()
    source = lumberjack(collector, maxRowsPerTrigger=1500)
    with Relay(receiver.uri) as relay:

        def hold_the_second():
            if len(receiver.rows) > 1500:
                relay.hold()

        receiver.on_commit = hold_the_second
        app = scene.application()
        app.start([source], to_rsocket(relay.uri), scene.checkpoint)
        until(
            lambda: len(receiver.rows) > 1500,
            "two batches with rows are committed",
            details=lambda: app.program.errors[-4000:],
        )
        app.kill_python()
        held = receiver.batches[-1]
        assert not (scene.checkpoint / "commits" / str(held)).exists()
        receiver.on_commit = lambda: None
        relay.cut()
        relay.allow_all()
        application.start([source], to_rsocket(relay.uri), scene.checkpoint).done()
    assert (scene.checkpoint / "commits" / str(held)).exists()
    assert len(receiver.batches) == len(set(receiver.batches))
    assert_each_line_once(receiver.rows, sent(log))
