"""Lines that belong together, for any division of the lines into lists."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.logfiles.entry import Entry
from rsocket_trio.logfiles.multiline import Multiline, MultilineRule

START = MultilineRule(start=re.compile(r"^\d"), max_lines=4)
CONTINUES = MultilineRule(continues=re.compile(r"^\s"), max_lines=4)
TEXTS = st.sampled_from([b"1 begins", b"2", b" at more", b"", b"other", b"caf\xc3\xa9"])


def entries_of(texts):
    entries, start = [], 0
    for text in texts:
        entries.append(Entry(start, start + len(text) + 1, text))
        start = entries[-1].end
    return entries


def joined(rule, lines, max_size=1000):
    multiline = Multiline(rule, max_size, bytes.decode)
    found = []
    for part in lines:
        found += multiline.feed(part)
    last = multiline.flush()
    assert not multiline.pending
    return found + ([] if last is None else [last])


@pytest.mark.parametrize("rule", [START, CONTINUES], ids=["start", "continues"])
@given(data=st.data())
def test_any_division_gives_the_same_entries(rule, data):
    """And no line is lost, doubled or reordered, also at the limits."""
    parts = data.draw(st.lists(st.lists(TEXTS)))
    max_size = data.draw(st.integers(1, 40))
    lines = entries_of([text for part in parts for text in part])
    divided, at = [], 0
    for part in parts:
        divided.append(lines[at : at + len(part)])
        at += len(part)
    found = joined(rule, divided, max_size)
    assert found == joined(rule, [lines], max_size)
    assert sum(entry.lines for entry in found) == len(lines)
    assert b"\n".join(entry.data for entry in found) == b"\n".join(line.data for line in lines)
    assert [entry.start for entry in found] == [0, *(entry.end for entry in found)][: len(found)]
    assert all(entry.lines <= 4 for entry in found)
    assert all(len(entry.data) <= max_size or entry.lines == 1 for entry in found)


def test_a_start_begins_an_entry():
    lines = entries_of([b"lost beginning", b"1 failed", b"  at a", b"  at b", b"2 fine"])
    found = joined(START, [lines])
    assert [entry.data for entry in found] == [
        b"lost beginning",
        b"1 failed\n  at a\n  at b",
        b"2 fine",
    ]
    assert [entry.lines for entry in found] == [1, 3, 1]


def test_a_continuation_continues():
    lines = entries_of([b" alone", b"a", b" b", b" c", b"d"])
    assert [entry.data for entry in joined(CONTINUES, [lines])] == [b" alone", b"a\n b\n c", b"d"]


def test_the_largest_entry_has_exactly_the_limit():
    """The line ends between its lines count too."""
    lines = entries_of([b"1", b"ab", b"cd"])
    for max_size, wanted in (
        (7, [b"1\nab\ncd"]),
        (6, [b"1\nab", b"cd"]),
        (3, [b"1", b"ab", b"cd"]),
    ):
        assert [entry.data for entry in joined(START, [lines], max_size)] == wanted


def test_a_cut_line_marks_its_entry():
    lines = [Entry(0, 5, b"a"), Entry(5, 99, b" b", cut=True)]
    assert joined(CONTINUES, [lines]) == [Entry(0, 99, b"a\n b", True, 2)]


def test_exactly_one_pattern():
    with pytest.raises(ValueError, match="either"):
        MultilineRule()
    with pytest.raises(ValueError, match="either"):
        MultilineRule(start=re.compile("a"), continues=re.compile("b"))
