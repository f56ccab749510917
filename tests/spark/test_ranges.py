"""The arithmetic of batches and partitions."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from rsocket_trio.spark.spool_source.ranges import SpoolRange, cut, ranges_between, share

places = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 50))


@given(places, places)
def test_between(start, stop):
    """Each event between two places, of the spools that have both."""
    found = ranges_between(start, stop)
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
