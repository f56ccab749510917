"""Two streams of one consumer and two collectors, which come and go in every order.

The model knows who may still ask for what. No collector may have deleted that, and no stream may
have rows that are not the events of its spools; a spool that was lost or restored from a copy is
said, and never passed over.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.types import LongType, StructType

from rsocket_trio.spark.lumberjack_source import LumberjackDataSource
from rsocket_trio.spark.spool_source import CollectorsUnreachable, DataLost, fleet
from rsocket_trio.spool import describe_spool
from tests.spark.collectors import LocalCollector, wait_for_running
from tests.spark.engine import Checkpoint, Crash, Query

NUMBERS = StructType().add("n", LongType()).add("_collector", "string").add("_offset", LongType())

which = st.integers(0, 1)
places = st.sampled_from(["before log", "after log", "after partitions", "before commit"])
STEPS = st.one_of(
    st.tuples(st.just("ship"), which, st.integers(1, 5)),
    st.tuples(st.just("ship"), which, st.integers(1, 5)),
    st.tuples(st.just("trigger"), which),
    st.tuples(st.just("trigger"), which),
    st.tuples(st.just("trigger"), which),
    st.tuples(st.just("crash"), which, places),
    st.tuples(st.just("end"), which),
    st.tuples(st.just("forget"), which),
    st.tuples(st.just("add"), which),
    st.tuples(st.just("away"), which),
    st.tuples(st.just("restart"), which),
    st.tuples(st.just("copy"), which),
    st.tuples(st.just("restore"), which),
    st.tuples(st.just("replace"), which),
)


class Spool:
    """A collector, and what the model knows of its spool: a number for each event."""

    shipped = 0

    def __init__(self, directory):
        self.collector = LocalCollector(directory)
        self.history = []
        self.copied = None
        self.losses = 0

    def ship(self, count):
        self.collector.numbers = Spool.shipped
        self.collector.ship(count)
        self.history += range(Spool.shipped, Spool.shipped + count)
        Spool.shipped += count

    def up(self):
        if not self.collector.running:
            self.collector.start()

    def down(self):
        if self.collector.running:
            self.collector.stop()

    @property
    def copy_directory(self):
        return Path(f"{self.collector.directory}.copy")

    def copy(self):
        self.down()
        shutil.rmtree(self.copy_directory, ignore_errors=True)
        shutil.copytree(self.collector.directory, self.copy_directory)
        self.copied = list(self.history)
        self.up()

    def restore(self):
        if self.copied is None:
            return
        self.down()
        shutil.rmtree(self.collector.directory)
        shutil.copytree(self.copy_directory, self.collector.directory)
        if self.copied != self.history:
            self.losses += 1
        self.history = list(self.copied)
        self.up()

    def replace(self):
        self.down()
        shutil.rmtree(self.collector.directory)
        self.losses += 1
        self.history = []
        self.up()


class Stream:
    """One stream of the consumer, with a checkpoint."""

    def __init__(self, scene, options):
        self.scene = scene
        self.options = options
        self.said = []
        self.begin()

    def begin(self):
        """Be a new stream, which knows nothing."""
        self.checkpoint = Checkpoint()
        self.query = None
        self.wide = False  # whether it reads from both collectors
        self.dropped = False  # whether the operator has forgotten it, and it comes back
        self.losses = [each.losses for each in self.scene.spools]

    @property
    def offsets(self):
        """The offsets that Spark may give it next."""
        log = self.checkpoint.offsets
        repeats = len(log) > self.checkpoint.committed
        known = log[:-1] if repeats else log
        return json.loads(known[-1]) if known else {"s": {}}

    def start(self):
        if self.query is None:
            spools = self.scene.spools if self.wide else self.scene.spools[:1]
            uris = ",".join(each.collector.uri for each in spools)
            self.query = Query(LumberjackDataSource, self.options | {"collectors": uris},
                               self.checkpoint, schema=NUMBERS)  # fmt: skip

    def end(self):
        if self.query is not None:
            self.query.reader.stop()
            self.query = None

    def forget(self):
        """It does not come back, and the operator says so. A new one takes its place."""
        name = self.offsets.get("i")
        self.end()
        for spool in self.scene.spools:
            spool.up()
            if name is not None:
                spool.collector.thread.run(forget, spool.collector.spool, name)
        self.begin()

    def trigger(self, crash=None):
        """Run a batch. A loss is said only if there was one; then a new stream takes its place."""
        lost = ""
        try:
            self.start()
            self.query.trigger(crash=crash)
        except (Crash, CollectorsUnreachable):
            self.end()
        except DataLost as error:
            lost = str(error)
        if lost:
            assert self.losses != [each.losses for each in self.scene.spools], lost
            self.said.append(lost)
            self.forget()


async def forget(spool, name):
    await spool.forget("spark", instance=name)


class Scene:
    """Two spools and two streams."""

    def __init__(self, directory, options):
        self.spools = [Spool(Path(directory) / f"spool{n}") for n in range(2)]
        given = {"pollTimeoutMs": "0", "collectorTimeoutMs": "3000", **options}
        self.streams = [Stream(self, given) for _ in range(2)]

    def take(self, step, number, *details):
        spool, stream = self.spools[number], self.streams[number]
        match step:
            case "ship":
                spool.up()
                spool.ship(*details)
            case "trigger":
                stream.trigger()
            case "crash":
                stream.trigger(*details)
            case "end":
                stream.end()
            case "forget":
                stream.forget()
            case "drop":  # not by its own will
                spool.collector.thread.run(forget, spool.collector.spool, stream.offsets["i"])
                stream.dropped = True
                spool.losses += 1
            case "twin":  # it takes the checkpoint of the other stream
                stream.end()
                stream.checkpoint = deepcopy(self.streams[1 - number].checkpoint)
                stream.dropped = True
                spool.losses += 1
            case "add":
                stream.end()
                stream.wide = True
            case "away":
                spool.down()
            case "restart":
                spool.down()
                spool.up()
            case "copy":
                spool.copy()
            case "restore":
                spool.restore()
            case "replace":
                spool.replace()
        self.check()

    def check(self):
        for spool in self.spools:
            found = describe_spool(spool.collector.directory)
            for number, stream in enumerate(self.streams):
                needed = stream.offsets["s"].get(found.spool_id)
                if needed is not None and needed <= found.head and not stream.dropped:
                    assert found.oldest <= needed, f"stream {number} may still ask for it"

    def check_rows(self, *, final):
        for spool in self.spools:
            spool_id = spool.collector.spool_id
            for stream in self.streams:
                rows = [row for row in stream.checkpoint.rows if row["_collector"] == spool_id]
                first = rows[0]["_offset"] if rows else 0
                offsets = list(range(first, first + len(rows)))
                assert [row["_offset"] for row in rows] == offsets
                assert [row["n"] for row in rows] == [spool.history[each] for each in offsets]
                if final and (stream.wide or spool is self.spools[0]):
                    assert not rows or offsets[-1] == len(spool.history) - 1

    def finish(self):
        """Let each stream read all that there is."""
        for spool in self.spools:
            spool.up()
            spool.ship(1)
        for stream in self.streams:
            for _ in range(60):
                stream.trigger()
                wanted = self.spools if stream.wide else self.spools[:1]
                ends = {each.collector.spool_id: len(each.history) for each in wanted}
                if ends.items() <= stream.offsets["s"].items():
                    break
            else:
                raise AssertionError((ends, stream.checkpoint.offsets))
        self.check_rows(final=True)
        found = describe_spool(self.spools[0].collector.directory)
        self.names = [each.name for each in found.instances]

    def close(self):
        for stream in self.streams:
            stream.end()
        for spool in self.spools:
            spool.down()


def play(schedule, options):
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet, "ROUND", 30.0)  # A slow machine makes no difference.
        scene = Scene(directory, options)
        wait_for_running(patch, [each.collector for each in scene.spools])
        try:
            for step in schedule:
                scene.take(*step)
            scene.finish()
            return scene
        finally:
            scene.close()


def test_an_older_copy_that_is_written_on():
    """It was passed over: five events were skipped, as the offset was within the new ones."""
    scene = play(
        [("ship", 0, 5), ("trigger", 0), ("trigger", 0), ("trigger", 0), ("copy", 0),
         ("ship", 0, 5), ("trigger", 0), ("trigger", 0), ("restore", 0), ("ship", 0, 4),
         ("ship", 0, 5), ("trigger", 0)],
        {},
    )  # fmt: skip
    [said] = scene.streams[0].said
    assert "was restored from an older copy: the query has read up to offset 10" in said


def test_the_first_stream_that_comes_back():
    """It deleted what the other one had not read."""
    scene = play(
        [("ship", 0, 5), ("trigger", 0), ("trigger", 1), ("trigger", 0), ("trigger", 0),
         ("end", 0), ("end", 1), ("restart", 0), ("ship", 0, 1), ("trigger", 0), ("trigger", 0),
         ("trigger", 0), ("trigger", 1), ("trigger", 1)],
        {},
    )  # fmt: skip
    assert [each.said for each in scene.streams] == [[], []]
    # Each has the same name each time, so no need is left behind.
    assert sorted(scene.names) == sorted(each.offsets["i"] for each in scene.streams)


def test_an_instance_that_was_forgotten():
    """It is told so, and not that the spool was restored, whose epoch then is forgotten as well."""
    scene = play(
        [("ship", 0, 5), ("trigger", 0), ("trigger", 0), ("trigger", 1), ("end", 0),
         ("restart", 0), ("ship", 0, 5), ("drop", 0), *[("trigger", 1)] * 3, ("trigger", 0)],
        {},
    )  # fmt: skip
    [said] = scene.streams[0].said
    assert "were deleted before the query read them" in said


def test_a_copy_of_a_checkpoint():
    """It has the same name, so the stream that is ahead deletes, and the other one is told."""
    scene = play(
        [("ship", 0, 5), *[("trigger", 0)] * 3, ("twin", 1),
         ("ship", 0, 5), *[("trigger", 0)] * 3, ("trigger", 1)],
        {},
    )  # fmt: skip
    [said] = scene.streams[1].said
    assert "its checkpoint is an older copy or has one that is used too" in said
    assert scene.streams[0].said == []


def test_a_copy_that_takes_the_place_while_a_batch_is_planned():
    """The tasks of a batch that is repeated read another history, and say so."""
    scene = play(
        [("copy", 0), ("trigger", 0), ("ship", 0, 5), ("crash", 0, "after log"),
         ("restore", 0), ("ship", 0, 9), ("trigger", 0)],
        {},
    )  # fmt: skip
    [said] = scene.streams[0].said
    assert "restored from an older copy, and written on" in said


@pytest.mark.chaos
@settings(max_examples=40)
@given(
    st.lists(STEPS, max_size=25),
    st.fixed_dictionaries(
        {},
        optional={
            "maxRowsPerTrigger": st.integers(1, 9).map(str),
            "trimOn": st.sampled_from(["start", "commit"]),
        },
    ),
)
def test_any_order(schedule, options):
    play(schedule, options)
