"""A query that is a collector itself, and whose collector is killed with it."""

from __future__ import annotations

import json

import pytest

from rsocket_trio.spool import describe_spool

from .agents import sent
from .arrived import assert_no_line_lost, file_sink, sink_columns
from .programs import until
from .responders import Publisher
from .scene import embedded
from .spark_app import AT_ONCE

pytestmark = [pytest.mark.programs, pytest.mark.bad_days]

COUNT = 6000


def test_while_an_agent_ships(scene, application, port):
    """The next start of the query opens the spool, and the agent finds it."""
    log, source = scene.log("a", 5 * COUNT), embedded(scene, port)
    agent = scene.agent_to(log, f"lumberjack://127.0.0.1:{port}")
    for turn in range(1, 4):
        query = application.start([source], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE)
        until(
            lambda query=query, turn=turn: query.position() > turn * COUNT,
            "the query reads",
            details=query.state,
        )
        application.kill_runner()
        assert query.failed()
    query = application.start([source], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE)
    agent.done()
    head = describe_spool(scene.directory / "spool").head
    until(lambda: query.position() == head, "all is read", details=query.state)
    query.stop()
    rows = file_sink(scene.sink)
    assert_no_line_lost(rows, sent(log))
    assert len(rows) == head


def test_while_it_subscribes_to_a_publisher(scene, application):
    """The publisher cannot replay, and begins anew: what was stored before is there too.

    On each connection no element is lost; each element in the spool comes once.
    """
    with Publisher(COUNT) as publisher:
        options = {"uri": publisher.uri, "route": "numbers", "payloadFormat": "utf8"}
        spool = {"delivery": "spool", "spool": str(scene.directory / "spool")}
        limit = {"maxSpoolSize": str(2**20), "startingOffsets": "earliest"}
        source = {"format": "rsocket", "options": {**options, **spool, **limit}}
        gate = scene.gate()
        query = application.start(
            [source],
            scene.file_sink(),
            scene.checkpoint,
            trigger=AT_ONCE,
            gate=str(gate.path),
            after=20,
            column="data",
        )
        # The batch cannot end, so the spool is full before the publisher is at its end.
        gate.wait()
        application.kill_runner()
        gate.open()
        assert query.failed()
        before = describe_spool(scene.directory / "spool").head
        assert 0 < before < COUNT
        query = application.start([source], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE)
        until(lambda: query.position() == before + COUNT, "all are read", details=query.state)
        query.stop()
    rows = sorted(sink_columns(scene.sink), key=lambda row: row["offset"])
    assert [row["offset"] for row in rows] == list(range(before + COUNT))
    numbers = [int(json.loads(row["data"])["number"]) for row in rows]
    assert numbers == [*range(before), *range(COUNT)]
