"""Events from their bytes; errors name the event and never show it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import RSocketError
from rsocket_trio.lumberjack import (
    BatchReader,
    DataFrame,
    InvalidEvent,
    decode_event,
    decode_events,
    decode_json,
    decode_pairs,
    encode_pairs,
)
from rsocket_trio.lumberjack.wire.events import slices
from tests.lumberjack.vectors import event, window

SECRET = "geheim"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b'{"a":1}', {"a": 1}),
        (b"[1,2]", [1, 2]),
        (b"42", 42),
        (b'"x"', "x"),
        (b"null", None),
        (b" 1.5e3\n", 1500.0),
        (b' {"a":1}', {"a": 1}),
        (b'{"a":1} \r\n', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        (b'{"a":"\\ud800"}', {"a": "\ud800"}),
        (b'"h\xc3\xa9"', "h\u00e9"),
        (b"[1e400]", [math.inf]),
    ],
)
def test_json(raw, value):
    """Any JSON value is handed over as it is."""
    assert decode_json(raw) == value


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (b"", "an event is not JSON at character 0"),
        (b"{geheim}", "is not JSON at character 1"),
        (b'{"geheim":1}x', "is not JSON at character 12"),
        (b'{"geheim":1},{}', "is not JSON at character 12"),
        (b'{"geheim":1} \xc2\xa0', "is not JSON at character 13"),
        (b'"geheim\xff"', "is not UTF-8 at byte 7"),
        ("\ufeff{}".encode(), "is not JSON at character 0"),
        ("{}".encode("utf-16"), "is not UTF-8 at byte 0"),
        (b'{"geheim":NaN}', "NaN or Infinity"),
        (b"[-Infinity]", "NaN or Infinity"),
        (b"[" * 201 + b"]" * 201, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"geheim":' * 100_000, "nested too deeply"),
        (b"1" * 10_000, "integer that is too long"),
        (b'"geheim\n"', "is not JSON at character 7"),
        (b'"geheim\\x"', "is not JSON at character 7"),
    ],
)
def test_invalid_json(raw, match):
    """The error has no cause or context that shows the event in a log."""
    with pytest.raises(InvalidEvent, match=match) as info:
        decode_json(raw)
    hide(info.value)
    assert info.value.number is None
    assert isinstance(info.value, RSocketError)


def hide(error):
    assert SECRET not in f"{error} {error!r} {error.args}"
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_pairs():
    """Text; of equal keys the last counts."""
    assert decode_pairs(encode_pairs([("a", "1"), ("", ""), ("a", "h\u00e9")])) == {
        "a": "h\u00e9",
        "": "",
    }
    assert decode_pairs(bytes(4)) == {}


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (encode_pairs([("geheim", b"\xff")]), "an event has a key or a value that is not UTF-8"),
        (encode_pairs([(b"\xff", "geheim")]), "not UTF-8"),
        (encode_pairs([("geheim", "x")])[:-1], "is no list of pairs: .* cut off"),
        (b"{}", "is no list of pairs"),
        (bytes(5), "1 bytes behind"),
    ],
)
def test_invalid_pairs(raw, match):
    with pytest.raises(InvalidEvent, match=match) as info:
        decode_pairs(raw)
    hide(info.value)


def test_events_of_a_batch():
    """One event that cannot be decoded does not hide the others, and the error says which."""
    frames = [event(n, text) for n, text in enumerate((b"{}", b"{geheim", b"[1]"), 7)]
    (batch,) = BatchReader().feed(window(3) + b"".join(frames))
    first, error, last = decode_events(batch)
    assert (first, last) == ({}, [1])
    assert isinstance(error, InvalidEvent)
    assert error.number == 2
    assert str(error) == "event 2 is not JSON at character 1"
    hide(error)
    assert decode_event(batch, 3) == [1]
    with pytest.raises(InvalidEvent, match="event 2"):
        decode_event(batch, 2)
    for n in (0, 4):
        with pytest.raises(ValueError, match=f"no event number {n} among 3"):
            decode_event(batch, n)


@pytest.mark.parametrize("size", [1, 2000])
@pytest.mark.parametrize("invalid", [(), (1,), (64,), (65,), (1, 64, 65, 130)])
def test_a_batch_of_several_slices(size, invalid):
    """Each event is decoded alone; those that cannot be are in their places."""
    texts = [b'{"x":"%s"' % (b"y" * size) + (b"" if n in invalid else b"}") for n in range(1, 131)]
    frames = b"".join(event(n, text) for n, text in enumerate(texts, 1))
    (batch,) = BatchReader().feed(window(130) + frames)
    decoded = list(decode_events(batch))
    found = [each.number for each in decoded if isinstance(each, InvalidEvent)]
    assert found == list(invalid)
    assert [each for each in decoded if isinstance(each, dict)] == [{"x": "y" * size}] * (
        130 - len(invalid)
    )


def test_both_kinds_of_version_1():
    """The batch knows whether its events are JSON or pairs."""
    pairs = DataFrame(1, 1, ((b"line", b"x"),)).encode()
    first, second = BatchReader().feed(
        window(1, 1) + pairs + window(1, 1) + event(2, b'{"a":1}', 1)
    )
    assert [*decode_events(first), *decode_events(second)] == [{"line": "x"}, {"a": 1}]


@given(st.lists(st.integers(1, 100_000), max_size=300))
def test_slices(sizes):
    """They have all events in order; none has more than its size, unless it is one event."""
    raws = [bytes(size) for size in sizes]
    found = list(slices(raws))
    assert [raw for part in found for raw in part] == raws
    assert all(0 < len(part) <= 64 for part in found)
    assert all(len(part) == 1 or sum(map(len, part)) <= 2**16 for part in found)
