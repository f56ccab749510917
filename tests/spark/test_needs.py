"""Two streams of one consumer and two collectors, which come and go in every order: see `needs`.

tests/spark/bad_days/test_needs_in_spark.py does the same with a Spark.
"""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.types import LongType, StructType

from rsocket_trio.spark.lumberjack_source import LumberjackDataSource
from rsocket_trio.spark.spool_source import fleet
from tests.spark.collectors import wait_for_running
from tests.spark.engine import Checkpoint, Query
from tests.spark.needs import Scene

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
    st.tuples(st.just("remove"), which),
    st.tuples(st.just("away"), which),
    st.tuples(st.just("restart"), which),
    st.tuples(st.just("copy"), which),
    st.tuples(st.just("restore"), which),
    st.tuples(st.just("replace"), which),
)


class InThisProcess:
    """The engine of the tests, which can stop at each place."""

    checkpoint = Checkpoint

    @staticmethod
    def start(options, checkpoint):
        return Query(LumberjackDataSource, options, checkpoint, schema=NUMBERS)


def play(schedule, options, *, listed=False):
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet, "ROUND", 30.0)  # A slow machine makes no difference.
        scene = Scene(directory, options, InThisProcess, listed=listed)
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


def test_a_collector_that_is_removed():
    """Its events may be unread. What was read before stays, and a new stream begins."""
    scene = play(
        [("ship", 0, 5), ("ship", 1, 5), ("add", 0), *[("trigger", 0)] * 3, ("remove", 0),
         ("trigger", 0)],
        {},
    )  # fmt: skip
    [said] = scene.streams[0].said
    assert "no collector has the spool" in said


def test_a_collector_that_is_not_in_the_file_for_some_time():
    """It is away, and another stream reads on: what was not read is read when it is back."""
    scene = play(
        [("ship", 0, 5), ("ship", 1, 5), ("add", 0), ("add", 1), *[("trigger", 0)] * 3,
         ("trigger", 1), ("away", 1), ("remove", 0), ("trigger", 0), ("ship", 0, 2),
         ("trigger", 0), ("ship", 1, 5), *[("trigger", 1)] * 3, ("end", 0), ("trigger", 0),
         ("add", 0)],
        {},
        listed=True,
    )  # fmt: skip
    assert [each.said for each in scene.streams] == [[], []]


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
    st.booleans(),
)
def test_any_order(schedule, options, listed):
    play(schedule, options, listed=listed)
