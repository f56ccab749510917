"""Offsets of a replayed stream: what a batch has, where elements are lost, how it is split."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rsocket_trio.spark.failures import DataLoss
from rsocket_trio.spark.replay import Offsets, ReplayOffsets
from rsocket_trio.spark.rsocket_source.positions import (
    Position,
    advance,
    parse_starting,
    ranges,
    starting,
)


def here(*partitions: tuple[int, int] | tuple[int, int, str]) -> ReplayOffsets:
    return ReplayOffsets({number: Offsets(*each) for number, each in enumerate(partitions)})


def next_of(start: Position, offsets: ReplayOffsets, limit=None, fail=True) -> Position:
    return advance(start, offsets, limit=limit, fail_on_loss=fail)


def read(start: Position, end: Position, minimum: int = 1) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.stop) for each in ranges(start, end, minimum)]


numbers = st.integers(0, 2**40)
positions = st.builds(
    Position,
    next=st.dictionaries(st.integers(0, 200), numbers),
    ids=st.dictionaries(st.integers(0, 200), st.text(max_size=5)),
    begins=st.dictionaries(st.integers(0, 200), numbers),
    is_first=st.booleans(),
)


@given(positions, st.randoms(use_true_random=False))
def test_equal_positions_have_equal_texts(position, random):
    """Spark compares the texts, and reads a batch again and again if the order of keys changes."""
    text = json.dumps(position.as_json())
    assert Position.from_json(json.loads(text)) == position
    keys = list(position.next)
    random.shuffle(keys)
    other = Position(
        {key: position.next[key] for key in keys}, position.ids, position.begins, position.is_first
    )
    assert json.dumps(other.as_json()) == text
    assert json.dumps(Position.from_json(json.loads(text)).as_json()) == text


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"v": 2},
        {"v": "1"},
        {"v": 1, "s": {"spool": 5}},
        {"v": 1, "next": {"0": "5"}},
        {"v": 1, "next": {"0": -1}},
        {"v": 1, "next": {"0": 2**63}},
        {"v": 1, "next": {"0": True}},
        {"v": 1, "next": {"x": 1}},
        {"v": 1, "next": [1]},
        {"v": 1, "next": {"0": 5}, "begins": {"0": None}},
        {"v": 1, "next": {"0": 5}, "ids": {"0": 5}},
    ],
    ids=str,
)
def test_offsets_of_another_source(offset):
    """The checkpoint is of another source, or a later version, or damaged: no row is read anew."""
    with pytest.raises(ValueError, match="use another checkpointLocation"):
        Position.from_json(offset)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", {0: 5, 1: 0}),
        (" Latest ", {0: 20, 1: 9}),
        ('{"0": 7}', {0: 7, 1: 0}),
        ('{"0": -1, "1": -2}', {0: 20, 1: 0}),
        ("{}", {0: 5, 1: 0}),
    ],
)
def test_starting_offsets(text, expected):
    """Words, or offsets by partition; -1 is the latest and -2 the earliest."""
    first = starting(parse_starting(text), here((5, 20), (0, 9)))
    assert first.next == expected
    assert first.is_first


@pytest.mark.parametrize(
    "text", ["", "first", "[1]", '{"0": "1"}', '{"0": -3}', '{"x": 1}', "1", "[" * 100_000]
)
def test_wrong_starting_offsets(text):
    """The error has an example."""
    with pytest.raises(ValueError, match=r'\{"0": 1000'):
        parse_starting(text)


@pytest.mark.parametrize("text", ['{"2": 0}', '{"1": 10}'])
def test_starting_offsets_that_are_not_there(text):
    """A partition, and an offset."""
    with pytest.raises(ValueError, match="startingOffsets names"):
        starting(parse_starting(text), here((5, 20), (0, 9)))


def test_the_end_of_the_first_batch_says_where_it_begins():
    """Spark asks for the first position again after a crash, and the latest may be another then."""
    first = starting(parse_starting("latest"), here((0, 10)))
    end = next_of(first, here((0, 15)))
    later = starting(parse_starting("latest"), here((0, 99)))
    assert read(first, end) == read(later, end) == [(0, 10, 15)]
    # The batch after it has no need to.
    assert next_of(end, here((0, 20))) == Position({0: 20})
    assert read(end, next_of(end, here((0, 20)))) == [(0, 15, 20)]


def test_nothing_new_is_the_same_position():
    """Then Spark begins no batch. Only the first position has always something behind it."""
    start = Position({0: 10}, {0: "a"})
    assert next_of(start, here((0, 10, "a"))) is start
    first = starting(parse_starting("earliest"), here((0, 0)))
    end = next_of(first, here((0, 0)))
    assert end != first
    assert read(first, end) == []
    assert next_of(end, here((0, 0))) is end


def test_a_new_partition_is_read_from_its_earliest_element():
    """The end of the batch says so."""
    start = Position({0: 10})
    end = next_of(start, here((0, 12), (7, 9)))
    assert read(start, end) == [(0, 10, 12), (1, 7, 9)]


LOSSES = [
    (here((11, 20)), "begins at offset 11, but 10", [(0, 11, 20)]),
    (here((0, 9)), "ends at offset 9, but it was read up to 10", [(0, 0, 9)]),
    (here((0, 20, "b")), "other elements now", [(0, 0, 20)]),
    (here((0, 20)), "other elements now", [(0, 0, 20)]),
]


@pytest.mark.parametrize(("offsets", "message", "rest"), LOSSES)
def test_lost_elements(offsets, message, rest):
    """They are an error; without failOnDataLoss, the elements that are there are read."""
    start = Position({0: 10}, {0: "a"})
    known = offsets if "other" in message else ReplayOffsets({
        0: Offsets(offsets.partitions[0].earliest, offsets.partitions[0].latest, "a")
    })  # fmt: skip
    with pytest.raises(DataLoss, match=message) as caught:
        next_of(start, known)
    assert "failOnDataLoss=false" in str(caught.value)
    end = next_of(start, known, fail=False)
    assert read(start, end) == rest
    again = {**known.partitions, 0: Offsets(0, 30, known.partitions[0].id)}
    assert read(end, next_of(end, ReplayOffsets(again))) == [(0, end.next[0], 30)]


def test_a_partition_that_is_gone():
    """It is an error; without failOnDataLoss its offset is kept, in case that it returns."""
    start = Position({0: 10, 1: 5})
    with pytest.raises(DataLoss, match="partition 1 is gone"):
        next_of(start, here((0, 12)))
    end = next_of(start, here((0, 12)), fail=False)
    assert end.next == {0: 12, 1: 5}
    assert read(start, end) == [(0, 10, 12)]


def test_another_identity_before_anything_was_read():
    """A file that was empty gets an identity with its first line. Nothing is lost."""
    assert read(Position({0: 0}), next_of(Position({0: 0}), here((0, 3, "a")))) == [(0, 0, 3)]


partitions = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6)


@given(partitions, st.integers(1, 40), st.integers(1, 8))
def test_batches_with_a_limit_read_each_element_once(sizes, limit, minimum):
    """Each batch has at most so many elements, and one at least."""
    offsets = here(*((low, low + size) for low, size in sizes))
    position = starting(parse_starting("earliest"), offsets)
    found = []
    for _ in range(1000):
        end = next_of(position, offsets, limit)
        if end is position:
            break
        batch = read(position, end, minimum)
        size = sum(stop - start for _, start, stop in batch)
        assert size <= limit
        assert size or position.is_first
        assert len(batch) <= minimum + len(sizes)
        found += [(part, offset) for part, start, stop in batch for offset in range(start, stop)]
        position = end
    else:
        raise AssertionError("the batches do not end")
    expected = {(n, low + i) for n, (low, size) in enumerate(sizes) for i in range(size)}
    assert len(found) == len(expected)
    assert set(found) == expected


def test_a_limit_below_the_number_of_partitions_starves_none():
    """One element for each batch: all partitions have their turn."""
    offsets = here(*[(0, 100)] * 5)
    position = starting(parse_starting("earliest"), offsets)
    for _ in range(10):
        position = next_of(position, offsets, 1)
    assert set(position.next.values()) == {2}


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=5), st.integers(1, 50))
def test_ranges_are_split(sizes, minimum):
    """About so many, none empty, in order and without gaps."""
    assume(sum(sizes) >= minimum)
    start = Position(dict.fromkeys(range(len(sizes)), 0))
    end = Position(dict(enumerate(sizes)))
    found = read(start, end, minimum)
    assert minimum - len(sizes) <= len(found) <= minimum + len(sizes)
    for number, size in enumerate(sizes):
        own = [(low, high) for part, low, high in found if part == number]
        assert own[0][0] == 0
        assert own[-1][1] == size
        assert all(low < high for low, high in own)
        assert all(a[1] == b[0] for a, b in pairwise(own))
