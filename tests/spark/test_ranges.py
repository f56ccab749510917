"""The arithmetic of batches and partitions."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from rsocket_trio.spark.spool_source.addresses import Address
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


@pytest.mark.parametrize(
    ("cores", "tasks"),
    [
        (2, [1, 1, 2, 2, 2, 4, 50]),
        (8, [1, 1, 5, 8, 8, 8, 48]),
        (16, [1, 1, 5, 16, 16, 16, 48]),
        (32, [1, 1, 5, 20, 32, 32, 32]),
        (64, [1, 1, 5, 20, 64, 64, 64]),
        (None, [1, 1, 5, 8, 25, 40, 64]),
    ],
)
def test_the_usual_tasks_follow_from_the_events_and_the_cores(cores, tasks):
    """A hundred thousand events are worth a task. There is one for each core, or whole rounds of
    them, each with about two million events at most."""
    events = [0, 199_999, 500_000, 2_000_000, 6_400_000, 10**7, 10**8]
    assert [usual_partitions([SpoolRange("a", 5, 5 + count)], cores) for count in events] == tasks


@given(st.integers(0, 10**10), st.none() | st.integers(1, 1000), st.integers(1, 5))
def test_the_usual_tasks_are_not_tiny_and_fill_rounds(events, cores, spools):
    ranges = [SpoolRange(str(n), 0, events // spools) for n in range(spools)]
    events = events // spools * spools
    tasks = usual_partitions(ranges, cores)
    assert tasks == 1 or events / tasks >= 100_000
    if cores is None:
        assert tasks <= 64 * spools
    else:
        assert tasks <= min(cores, 64 * spools) or tasks % min(cores, 64 * spools) == 0


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


@pytest.mark.parametrize(
    ("given", "tasks"),
    [
        ({}, 3),
        ({"cores": "2"}, 2),
        ({"minPartitions": "5", "cores": "2"}, 5),
        ({"minPartitions": "1", "cores": "2"}, 2),
        ({"maxPartitions": "1"}, 1),
        ({"minPartitions": "2", "maxPartitions": "2"}, 2),
    ],
)
def test_the_tasks_of_a_batch(given, tasks):
    settings = SourceSettings.read({"collectors": "one", **given})
    whole = SpoolRange("a", 0, 300_000)
    at = Address("tcp://one:7878")
    pieces = [each.place for each in plan([whole], {"a": at}, settings)]
    assert len(pieces) == tasks
    assert {each.uri for each in pieces} == {"tcp://one:7878"}
    assert [each.start for each in pieces] == [n * 300_000 // tasks for n in range(tasks)]
