"""Whatever happens to the query and the collectors, each event comes once, in order."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.types import LongType, StructType

from rsocket_trio.spark.lumberjack_source import LumberjackDataSource
from rsocket_trio.spark.spool_source import fleet
from tests.spark.collectors import LocalCollector
from tests.spark.engine import Checkpoint, Crash, Query

NUMBERS = StructType().add("n", LongType()).add("_collector", "string").add("_offset", LongType())

places = st.sampled_from(["before log", "after log", "after partitions", "before commit"])
steps = st.one_of(
    st.tuples(st.just("ship"), st.integers(0, 1), st.integers(1, 8)),
    st.tuples(st.just("trigger")),
    st.tuples(st.just("crash"), places),
    st.tuples(st.just("restart query"), st.booleans()),
    st.tuples(st.just("restart collector"), st.integers(0, 1)),
    st.tuples(st.just("dying worker"), st.integers(0, 3)),
)
limits = st.fixed_dictionaries(
    {},
    optional={
        "maxRowsPerTrigger": st.integers(1, 9).map(str),
        "maxBytesPerTrigger": st.sampled_from(["1", "300", "100000"]),
        "minPartitions": st.integers(1, 4).map(str),
        "trimOn": st.sampled_from(["start", "commit"]),
    },
)


class Scene:
    """Two collectors, and a query that comes and goes."""

    def __init__(self, directory, options):
        self.members = [LocalCollector(Path(directory) / f"spool{n}") for n in range(2)]
        self.options = {"pollTimeoutMs": "0", "collectorTimeoutMs": "20000", **options}
        self.checkpoint = Checkpoint()
        self.query = None
        self.deaths = 0

    def start(self, *, available_now=False):
        self.end()
        given = {**self.options, "collectors": ",".join(each.uri for each in self.members)}
        self.query = Query(LumberjackDataSource, given, self.checkpoint, schema=NUMBERS,
                           available_now=available_now, dies=self.dies)  # fmt: skip

    def dies(self, batch, partition, attempt):
        if self.deaths:
            self.deaths -= 1
            return self.deaths % 2
        return None

    def end(self):
        if self.query is not None:
            self.query.reader.stop()
            self.query = None

    def take(self, step, *details):
        match step:
            case "ship":
                self.members[details[0]].ship(details[1])
            case "trigger":
                self.query.trigger()
            case "crash":
                try:
                    self.query.trigger(crash=details[0])
                except Crash:
                    self.start()
            case "restart query":
                self.start(available_now=details[0])
            case "restart collector":
                self.members[details[0]].restart()
            case "dying worker":
                self.deaths = details[0]


@pytest.mark.chaos
@settings(max_examples=40)
@given(st.lists(steps, max_size=15), limits)
def test_each_event_comes_once(schedule, options):
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet, "ROUND", 30.0)  # A slow machine makes no difference.
        scene = Scene(directory, options)
        try:
            scene.start()
            for step in schedule:
                scene.take(*step)
            scene.deaths = 0
            scene.start()
            total = sum(each.numbers for each in scene.members)
            while len(scene.checkpoint.rows) < total:
                scene.query.trigger()
            scene.query.process_all(3)
            for each in scene.members:
                rows = [row for row in scene.checkpoint.rows if row["_collector"] == each.spool_id]
                assert [row["n"] for row in rows] == list(range(each.numbers))
                assert [row["_offset"] for row in rows] == list(range(each.numbers))
        finally:
            scene.end()
            for each in scene.members:
                each.stop()
