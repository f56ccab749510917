"""A collector that subscribes to a publisher: a full spool stops the publisher."""

from __future__ import annotations

import json

import pytest

from rsocket_trio.collector import IngestConfig

from .arrived import sink_columns
from .programs import until
from .responders import Publisher
from .scene import lumberjack
from .spark_app import AT_ONCE

pytestmark = pytest.mark.programs

COUNT = 6000
"""Kilobytes: six times what the spool may hold."""

AHEAD = IngestConfig().max_granted_events + 1
"""Elements that a publisher may take from its source before they are stored: those that it has
credit for, and one that its generator makes for the next credit."""


@pytest.mark.bad_days
def test_a_full_spool_stops_the_publisher(scene, application):
    """request_n follows what is durable. Each element comes once, in order."""
    with Publisher(COUNT) as publisher:
        target = publisher.uri + "/numbers"
        collector = scene.collector("spool", "--max-size", "1M", "--subscribe", target)
        seen = []

        def stands_still():
            seen.append(publisher.emitted)
            return len(seen) > 50 and seen[-1] == seen[-50] > 0

        until(stands_still, "the publisher waits", details=lambda: seen[-5:])
        stored = collector.spool().head
        assert stored <= seen[-1] <= stored + AHEAD
        assert seen[-1] < COUNT * 2 // 3
        query = application.start(
            [lumberjack(collector)], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE
        )
        until(lambda: query.position() == COUNT, "all are read", details=query.state)
        query.stop()
        assert publisher.emitted == COUNT
    rows = sorted(sink_columns(scene.sink), key=lambda row: row["offset"])
    assert [int(json.loads(row["value"])["number"]) for row in rows] == list(range(COUNT))
