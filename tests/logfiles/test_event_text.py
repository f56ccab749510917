"""The JSON text of an event."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.logfiles import EXPANSION, Entry, EventWriter, check_encoding
from rsocket_trio.logfiles.event_text import wide_encoding


def writer(**options):
    return EventWriter("/var/log/app.log", "5a", **({"host": "web1", "fields": {}} | options))


def message(data, **options):
    (event,) = writer(**options).write([Entry(7, 9, data)])
    return json.loads(event)["message"]


def test_the_fields_are_those_of_filebeat():
    now = datetime.now(UTC)
    (event,) = writer(fields={"env": "prod", 'a"b': "\n"}).write([Entry(7, 12, b"line")])
    decoded = json.loads(event)
    stamp = decoded.pop("@timestamp")
    assert stamp.endswith("Z")
    assert abs(datetime.fromisoformat(stamp) - now) < timedelta(minutes=1)
    assert decoded == {
        "message": "line",
        "log": {"file": {"id": "5a", "path": "/var/log/app.log"}, "offset": 7},
        "host": {"name": "web1"},
        "fields": {"env": "prod", 'a"b': "\n"},
    }


@pytest.mark.parametrize(
    ("entry", "flags"),
    [
        (Entry(0, 2, b"a"), None),
        (Entry(0, 2, b"a", True), ["truncated"]),
        (Entry(0, 2, b"a", False, 2), ["multiline"]),
        (Entry(0, 2, b"a", True, 2), ["multiline", "truncated"]),
    ],
)
def test_flags(entry, flags):
    (event,) = writer().write([entry])
    assert json.loads(event)["log"].get("flags") == flags


@given(data=st.binary(), encoding=st.sampled_from(["utf-8", "latin-1", "cp1252", "gbk", "utf-7"]))
def test_any_bytes_become_valid_json_of_bounded_size(data, encoding):
    """In every encoding, and with both treatments of invalid bytes."""
    for invalid in ("replace", "backslashreplace"):
        made = writer(encoding=encoding, invalid=invalid)
        (event,) = made.write([Entry(1, 2, data)])
        assert json.loads(event)["message"] is not None
        empty = len(made.write([Entry(1, 2, b"")])[0])
        assert len(event) - empty <= EXPANSION * len(data)


def test_invalid_bytes():
    assert message(b"a\xffb") == "a\ufffdb"
    assert message(b"a\xffb", invalid="backslashreplace") == "a\\xffb"
    assert message(b"\xe9", encoding="latin-1") == "é"


def test_a_byte_order_mark_is_removed_at_the_beginning_only():
    first, second = writer().write([Entry(0, 5, b"\xef\xbb\xbfa"), Entry(5, 9, b"\xef\xbb\xbfb")])
    assert json.loads(first)["message"] == "a"
    assert json.loads(second)["message"] == "\ufeffb"


def test_a_path_that_is_not_utf8():
    (event,) = EventWriter("/tmp/\udcff", "5a", host="h", fields={}).write([Entry(0, 1, b"")])
    assert json.loads(event)["log"]["file"]["path"] == "/tmp/\ufffd"


@pytest.mark.parametrize("name", ["utf-8", "UTF8", "latin-1", "shift_jis", "gb18030", "cp1252"])
def test_encodings(name):
    assert "\n".encode(check_encoding(name)) == b"\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("utf-16", "0x0A"),
        ("utf-32-le", "0x0A"),
        ("cp037", "0x0A"),
        ("rot13", "no encoding of text"),
        ("nonsense", "no encoding of text"),
        ("idna", "cannot read all bytes"),
        ("undefined", "cannot read all bytes"),
    ],
)
def test_encodings_that_are_refused(name, reason):
    with pytest.raises(ValueError, match=reason):
        check_encoding(name)


LATIN = st.text(st.characters(min_codepoint=1, max_codepoint=0xFF), min_size=3)


@given(text=LATIN, width=st.sampled_from([16, 32]), order=st.sampled_from(["le", "be"]))
def test_wide_text_is_recognised_by_its_nul_bytes(text, width, order):
    """Also if its last NUL bytes are not there yet, or count as reserved room."""
    data = text.encode(f"utf-{width}-{order}")
    assert wide_encoding(data) == f"UTF-{width}"
    assert wide_encoding(data.rstrip(b"\0")) == f"UTF-{width}"


@given(text=st.text(), width=st.sampled_from([16, 32]), order=st.sampled_from(["le", "be"]))
def test_wide_text_is_recognised_by_its_byte_order_mark(text, width, order):
    assert wide_encoding(f"\ufeff{text.lstrip(chr(0))}".encode(f"utf-{width}-{order}"))


@given(text=st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"])))
def test_text_of_bytes_is_not_taken_for_wide_text(text):
    assert wide_encoding(text.encode()) is None


@pytest.mark.parametrize("data", [b"\0\0\0one\n", bytes(1024), b"a\0b c d e f g", b"1\n\0002\n"])
def test_some_nul_bytes_do_not_make_wide_text(data):
    assert wide_encoding(data) is None


@pytest.mark.parametrize(
    ("length", "odd", "even", "name"),
    [
        (2, 1, 0, None),
        (4, 2, 0, "UTF-16"),
        (32, 7, 0, None),
        (32, 8, 0, "UTF-16"),
        (32, 8, 1, "UTF-16"),
        (28, 7, 1, None),
    ],
)
def test_how_many_nul_bytes_make_utf_16(length, odd, even, name):
    """A quarter of all bytes, in each second place; of those between an eighth of that, at most."""
    data = bytearray(b"x" * length)
    data[1 : 2 * odd : 2] = bytes(odd)
    data[0 : 2 * even : 2] = bytes(even)
    assert wide_encoding(bytes(data)) == name


def test_the_first_line_of_a_file_has_the_byte_order_mark():
    """Whatever the others of the batch begin with."""
    plain, marked = Entry(0, 4, b"one"), Entry(0, 7, b"\xef\xbb\xbfone")
    rest = [Entry(7, 11, b"two"), Entry(11, 18, b"\xef\xbb\xbftwo")]
    for others in (rest, rest[::-1], rest[:1], rest[1:], []):
        assert EventWriter.without_mark([plain, *others]) == [plain, *others]
        assert EventWriter.without_mark([marked, *others]) == [
            marked._replace(data=b"one"),
            *others,
        ]
