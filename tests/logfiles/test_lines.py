"""Lines and their offsets do not depend on how the bytes arrive."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.logfiles.entry import Entry
from rsocket_trio.logfiles.lines import LineSplitter

BYTES = st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"a", b"bc", b"", b"\xff"])).map(b"".join)


def expected(data, offset, max_line):
    """The lines of the data, as the definition says, and the last one without a line end."""
    entries = []
    start = offset
    *complete, last = data.split(b"\n")
    for line in complete:
        end = start + len(line) + 1
        text = line.removesuffix(b"\r")
        entries.append(Entry(start, end, text[:max_line], len(text) > max_line))
        start = end
    if last:
        cut = len(last) > max_line
        entries.append(Entry(start, start + len(last), last[:max_line], cut))
    return entries


def split(splitter, pieces, at_most):
    entries = []
    for piece in pieces:
        splitter.feed(piece)
        while splitter.more:
            taken = splitter.take(at_most)
            assert len(taken) <= at_most
            entries += taken
    last = splitter.finish()
    return entries + ([] if last is None else [last])


@given(
    pieces=st.lists(BYTES),
    offset=st.integers(0, 2**40),
    max_line=st.integers(1, 6),
    at_most=st.integers(1, 4),
)
def test_any_division_gives_the_same_lines(pieces, offset, max_line, at_most):
    """However many bytes come at once, and however many lines are taken at once."""
    splitter = LineSplitter(offset, max_line)
    found = split(splitter, pieces, at_most)
    assert found == expected(b"".join(pieces), offset, max_line)
    assert splitter.start == offset + sum(map(len, pieces))
    assert not splitter.incomplete
    assert splitter.finish() is None


@given(pieces=st.lists(BYTES), max_line=st.integers(1, 6))
def test_every_byte_belongs_to_one_line(pieces, max_line):
    """The end of each line is the start of the next one."""
    found = split(LineSplitter(0, max_line), pieces, 3)
    ends = [0, *(entry.end for entry in found)]
    assert [entry.start for entry in found] == ends[:-1]


def test_a_line_without_an_end_takes_bounded_memory():
    """100 MB without a line end cost the limit, and the line is cut."""
    splitter = LineSplitter(0, 1000)
    piece = b"x" * 2**16
    tracemalloc.start()
    try:
        for _ in range(1600):
            splitter.feed(piece)
            assert splitter.take(10) == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * 2**16
    splitter.feed(b"\nnext\n")
    size = 1600 * 2**16
    assert splitter.take(10) == [
        Entry(0, size + 1, b"x" * 1000, cut=True),
        Entry(size + 1, size + 6, b"next"),
    ]


def test_bytes_that_are_not_taken_are_not_dropped():
    splitter = LineSplitter(0, 10)
    splitter.feed(b"a\nb\n")
    assert splitter.take(1) == [Entry(0, 2, b"a")]
    with pytest.raises(ValueError, match="take all lines"):
        splitter.feed(b"c\n")
