"""The arithmetic of batches and partitions."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from rsocket_trio.spark.spool_source.offsets import Offsets
from rsocket_trio.spark.spool_source.planning import plan
from rsocket_trio.spark.spool_source.ranges import (
    SpoolRange,
    cut,
    ranges_between,
    share,
    usual_partitions,
)
from rsocket_trio.spark.spool_source.settings import SourceSettings

places = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50))


@given(places, places)
def test_between(start, stop):
    """Each event between two places, of the spools that have both."""
    found = ranges_between(start, Offsets(stop))
    events = [(each.spool_id, n) for each in found for n in range(each.start, each.stop)]
    assert events == [
        (spool, n)
        for spool in sorted(start.keys() & stop)
        for n in range(start[spool], stop[spool])
    ]
    assert all(each.count > 0 for each in found)


counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 40))


@given(counts, st.integers(1, 60))
@example({"a": 1, "b": 1000}, 7)
def test_cut(sizes, at_least):
    """Nothing is lost or doubled, and the order stays."""
    ranges = [SpoolRange(name, 7, 7 + size) for name, size in sorted(sizes.items())]
    pieces = cut(ranges, at_least)
    events = [(each.spool_id, n) for each in pieces for n in range(each.start, each.stop)]
    assert events == [(name, 7 + n) for name, size in sorted(sizes.items()) for n in range(size)]
    assert all(each.count > 0 for each in pieces)
    assert len(pieces) >= min(at_least, len(events))
    assert len(pieces) <= max(len(ranges), at_least) + len(ranges)


def test_cut_is_even():
    pieces = cut([SpoolRange("a", 0, 100), SpoolRange("b", 0, 300)], 4)
    assert [(each.spool_id, each.start, each.stop) for each in pieces] == [
        ("a", 0, 100), ("b", 0, 100), ("b", 100, 200), ("b", 200, 300),
    ]  # fmt: skip


def test_a_batch_has_a_task_for_each_fifty_thousand_events():
    counts = [0, 1, 74_999, 75_001, 1_000_000, 10**9]
    tasks = [usual_partitions([SpoolRange("a", 5, 5 + count)]) for count in counts]
    assert tasks == [1, 1, 1, 2, 20, 64]
    two = [SpoolRange("a", 0, 50_000), SpoolRange("b", 0, 100_000)]
    assert usual_partitions(two) == 3


@given(counts, st.integers(1, 200))
def test_share(available, limit):
    """The limit is used up if there is enough, and none is left out."""
    shares = share(available, limit)
    assert shares.keys() == available.keys()
    assert all(1 <= part <= available[name] for name, part in shares.items())
    total = sum(shares.values())
    if limit >= len(available):
        assert total == min(limit, sum(available.values()))
    else:
        assert total == len(available)


def test_share_is_fair():
    """What one does not use goes to the others."""
    assert share({"a": 100, "b": 1, "c": 100}, 21) == {"a": 10, "b": 1, "c": 10}
    assert share({"a": 100, "b": 100}, 5) == {"a": 2, "b": 3}


@pytest.mark.parametrize(("given", "tasks"), [({}, 2), ({"minPartitions": "5"}, 5)])
def test_the_tasks_of_a_batch(given, tasks):
    settings = SourceSettings.read({"collectors": "one", **given})
    whole = SpoolRange("a", 0, 100_000)
    pieces = [each.place for each in plan([whole], {"a": "tcp://one:7878"}, settings)]
    assert len(pieces) == tasks
    assert {each.uri for each in pieces} == {"tcp://one:7878"}
    assert [each.start for each in pieces] == [n * 100_000 // tasks for n in range(tasks)]
