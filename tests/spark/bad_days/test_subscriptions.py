"""A collector that subscribes to a publisher: a full spool stops the publisher."""

from __future__ import annotations

import json

import pytest

from .arrived import sink_columns
from .programs import until
from .responders import Publisher
from .scene import lumberjack
from .spark_app import AT_ONCE

pytestmark = pytest.mark.programs

COUNT = 3000
"""Kilobytes: three times what the spool may hold."""


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
        # What is stored, and what has credit: it is not stored yet.
        assert collector.spool().head <= seen[-1] < COUNT * 2 // 3
        query = application.start(
            [lumberjack(collector)], scene.file_sink(), scene.checkpoint, trigger=AT_ONCE
        )
        until(lambda: query.position() == COUNT, "all are read", details=query.state)
        query.stop()
        assert publisher.emitted == COUNT
    rows = sorted(sink_columns(scene.sink), key=lambda row: row["offset"])
    assert [int(json.loads(row["value"])["number"]) for row in rows] == list(range(COUNT))
