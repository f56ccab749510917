"""One open file: what happens to it between two system calls, and bytes that belong to no line."""

from __future__ import annotations

import errno
import json
import os

import pytest

from rsocket_trio.logfiles import tail as tail_module
from rsocket_trio.logfiles.holes import find_data, without_holes
from rsocket_trio.logfiles.tail import Tail
from tests.logfiles.shipping import reading

CHUNK = tail_module._CHUNK
HOLE = 64


@pytest.fixture
def tail(tmp_path):
    (tmp_path / "a.log").touch()
    tail = Tail(
        str(tmp_path / "a.log"),
        "a.log",
        reading(max_line=2**20),
        lambda *_: None,
        follow_links=False,
    )
    yield tail
    tail.close()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "a.log"


def events_of(batch):
    return [json.loads(event) for event in batch.events]


def read_all(tail, *, finish=False):
    """Read to the end; return the text, the offset and the flags of each event."""
    events = []
    for _ in range(10_000):
        batch = tail.read()
        events += events_of(batch)
        if batch.at_end:
            break
    else:
        pytest.fail("the file has no end")
    if finish:
        events += events_of(tail.finish())
    return [
        (each["message"], each["log"]["offset"], each["log"].get("flags", [])) for each in events
    ]


class BetweenCalls:
    """Does something right before or behind one of the next reads of a file's content."""

    def __init__(self, monkeypatch):
        self._real = os.pread
        self._then = None
        monkeypatch.setattr(os, "pread", self._pread)

    def before_content(self, act):
        self._then = (act, False)

    def behind_content(self, act):
        self._then = (act, True)

    def _pread(self, descriptor, size, offset):
        if size != CHUNK or self._then is None:
            return self._real(descriptor, size, offset)
        (act, behind), self._then = self._then, None
        if not behind:
            act()
        data = self._real(descriptor, size, offset)
        if behind:
            act()
        return data


@pytest.fixture
def calls(monkeypatch):
    return BetweenCalls(monkeypatch)


@pytest.mark.parametrize("when", ["before_content", "behind_content"])
def test_a_truncation_between_the_look_and_the_read(tail, file, calls, when):
    """New content is not joined with the line that has begun in the old one.

    That line is shipped, and marked: its end may have been written and truncated unseen.
    """
    file.write_bytes(b"one\ntwo begins")
    assert read_all(tail) == [("one", 0, [])]
    before = tail.id
    getattr(calls, when)(lambda: file.write_bytes(b"a longer line of the new content\nnext\n"))
    assert read_all(tail) == [
        ("two begins", 4, ["truncated"]),
        ("a longer line of the new content", 0, []),
        ("next", 33, []),
    ]
    assert tail.id != before


def test_an_empty_file_gets_its_first_bytes_between_the_look_and_the_read(tail, file, calls):
    """They are not shipped before its fingerprint can be written down."""
    calls.before_content(lambda: file.write_bytes(b"1\n"))
    first = tail.read()
    assert (first.events, first.at_end) == ([], False)
    second = tail.read()
    assert (second.events, tail.fingerprint.size) == ([], 2)
    assert [event["message"] for event in events_of(tail.read())] == ["1"]


def test_first_bytes_are_taken_before_anything_is_read_of_them(tail, file, calls):
    """Otherwise a content that begins with the same bytes would be taken for this one later."""
    with file.open("ab", buffering=0) as out:
        out.write(b"begins alike\n")
        assert not tail.read().events
        assert tail.fingerprint.size == 13
        calls.before_content(lambda: out.write(b"one\n"))
        assert not events_of(tail.read())
        assert not events_of(tail.read())
        assert tail.fingerprint.size == 17
        assert [each["message"] for each in events_of(tail.read())] == ["begins alike", "one"]


def test_a_content_that_comes_and_goes_before_it_is_entered(tail, file, monkeypatch):
    """Its beginning is not joined with the next content, which begins like an empty file."""
    real = os.pread
    # What the file gets before and behind each read: of its head, its content and its head.
    steps = iter([b"", b"", b"one beg", b"", b"", b"a new line\nand\n"])

    def pread(descriptor, size, offset):
        before = next(steps, None)
        if before is None:
            return real(descriptor, size, offset)
        file.write_bytes(before)
        data = real(descriptor, size, offset)
        file.write_bytes(next(steps))
        return data

    monkeypatch.setattr(os, "pread", pread)
    assert read_all(tail) == [("a new line", 0, []), ("and", 11, [])]


def test_lines_that_were_read_before_a_truncation(file):
    """They are shipped, although a batch had no room for them."""
    file.write_bytes(b"1\n2\n3\n4")
    tail = Tail(str(file), "a.log", reading(max_events=2), lambda *_: None, follow_links=False)
    events = events_of(tail.read())
    file.write_bytes(b"x\n")
    assert [event["message"] for event in events] == ["1", "2"]
    assert [text for text, _, _ in read_all(tail)] == ["3", "4", "x"]
    tail.close()


def test_a_hole_between_two_lines(tail, file):
    file.write_bytes(b"one\n" + bytes(5000) + b"two\n")
    assert read_all(tail) == [("one", 0, []), ("two", 5004, [])]


def test_a_hole_in_a_line(tail, file):
    """What is before it has lost its end, and the line behind it is not cut away."""
    file.write_bytes(b"one beg" + bytes(2 * CHUNK) + b"two\n")
    assert read_all(tail) == [("one beg", 0, ["truncated"]), ("two", 7 + 2 * CHUNK, [])]


def test_a_few_nul_bytes_in_a_line(tail, file):
    """A program has written them."""
    file.write_bytes(b"a" + bytes(HOLE - 1) + b"b\n")
    assert read_all(tail) == [("a" + "\0" * (HOLE - 1) + "b", 0, [])]


@pytest.mark.parametrize("before", [*range(CHUNK - HOLE - 1, CHUNK + 2, 6), CHUNK - 1, CHUNK])
def test_a_hole_at_the_border_of_two_reads(tail, file, before):
    """It is the same hole wherever the reads are divided."""
    file.write_bytes(b"x" * before + bytes(HOLE) + b"two\n")
    assert read_all(tail) == [("x" * before, 0, ["truncated"]), ("two", before + HOLE, [])]


def test_reserved_room(tail, file):
    """NUL bytes behind the last line are not passed over before something follows them."""
    file.write_bytes(bytes(3 * CHUNK))
    assert read_all(tail) == []
    with file.open("r+b") as writer:
        writer.write(b"one\ntwo\n")
        writer.flush()
        assert read_all(tail) == [("one", 0, []), ("two", 4, [])]
        before = tail.id
        writer.write(b"three\n")
        writer.flush()
        assert read_all(tail, finish=True) == [("three", 8, [])]
    assert tail.id == before, "it was not truncated"


def test_reserved_room_that_is_filled_while_its_end_is_looked_for(tail, file, calls):
    """What was looked at too early is looked at again."""
    file.write_bytes(b"one\n" + bytes(3 * CHUNK))
    assert read_all(tail) == [("one", 0, [])]
    with file.open("r+b", buffering=0) as writer:
        writer.seek(4)
        calls.behind_content(lambda: writer.write(b"x" * 2 * CHUNK + b"\n"))
        assert read_all(tail) == [("x" * 2 * CHUNK, 4, [])]


def test_a_line_in_the_middle_of_reserved_room(tail, file):
    """Room that was looked at up to the end of the file is looked at again, from its beginning."""
    file.write_bytes(bytes(4 * CHUNK))
    assert read_all(tail) == []
    with file.open("r+b") as writer:
        writer.seek(2 * CHUNK)
        writer.write(b"one\n")
    assert read_all(tail) == [("one", 2 * CHUNK, [])]


def no_seek(*_arguments):
    raise OSError(errno.EINVAL, "Invalid argument")


@pytest.mark.parametrize("missing", [None, "the constant", "in this file system"])
def test_a_sparse_front(tail, file, monkeypatch, missing):
    """Its size costs no time, and only a little if the file system cannot tell where data is."""
    size = 2**40 if missing is None else 200 * 2**20
    if missing == "the constant":
        monkeypatch.delattr(os, "SEEK_DATA", raising=False)
    elif missing is not None:
        monkeypatch.setattr(os, "lseek", no_seek)
    with file.open("wb") as writer:
        writer.seek(size)
        writer.write(b"\0\0one\n")
    assert read_all(tail) == [("one", size + 2, [])]


def test_a_file_that_ends_with_a_hole(tail, file):
    file.write_bytes(b"one\n")
    os.truncate(file, 2**30)
    assert read_all(tail, finish=True) == [("one", 0, [])]
    assert tail.offset == 4


@pytest.mark.parametrize(
    ("data", "begun", "any_size", "parts"),
    [
        (b"", True, False, [(0, b"")]),
        (b"a\0b", True, False, [(0, b"a\0b")]),
        (b"\0a", True, False, [(0, b""), (1, b"a")]),
        (b"\0a", False, False, [(0, b"\0a")]),
        (bytes(64) + b"a" + bytes(65) + b"b", False, False, [(0, b""), (64, b"a"), (65, b"b")]),
        (b"a\0b\0\0c", False, True, [(0, b"a"), (1, b"b"), (2, b"c")]),
    ],
)
def test_division_at_holes(data, begun, any_size, parts):
    assert without_holes(data, begun=begun, any_size=any_size) == parts


def test_a_truncation_that_cannot_be_seen(tail, file):
    """A writer that does not append leaves the same front, and goes on behind a small hole."""
    with file.open("wb", buffering=0) as writer:
        writer.seek(2000)
        writer.write(b"one\ntwo beg")
        assert read_all(tail) == [("one", 2000, [])]
        writer.write(b"ins\n")  # is truncated before it is read
        os.truncate(file, 0)
        writer.write(b"three\n")
        assert read_all(tail) == [("two beg", 2004, ["truncated"]), ("three", 2015, [])]


def test_data_that_cannot_be_looked_for(tmp_path):
    """Another error than that no data follows is not taken for the end."""
    reader, writer = os.pipe()
    with pytest.raises(OSError):
        find_data(reader, 0)
    os.close(reader)
    os.close(writer)
