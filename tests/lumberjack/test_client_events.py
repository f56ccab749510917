"""The caller's events to bytes, and which events are refused."""

from __future__ import annotations

import json
import math
import os
from datetime import datetime
from enum import IntEnum
from types import MappingProxyType
from uuid import UUID

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.lumberjack import (
    BatchReader,
    LumberjackLimits,
    decode_json,
    decode_pairs,
    encode_pairs,
)
from rsocket_trio.lumberjack.client.event_encoder import EventEncoder
from rsocket_trio.lumberjack.client.forming import pack
from tests.lumberjack.vectors import all_of

LIMITS = LumberjackLimits()


def encode(*events, version=2, level=3, limits=LIMITS):
    return EventEncoder(version, level, limits).encode(list(events), 0, len(events))


def encode_all(events, limits=LIMITS):
    encoder = EventEncoder(2, 3, limits)
    found = []
    while len(found) < len(events):
        found += encoder.encode(events, len(found), len(events))
    return found


class Level(IntEnum):
    INFO = 20


def deep(levels):
    value = 1
    for _ in range(levels - 1):
        value = [value]
    return value


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


# The first event is encoded alone, and those behind it together, so there have to be some of them.
EVENTS = st.lists(
    st.dictionaries(st.text(st.characters(codec="utf-8")), values, max_size=3),
    min_size=1,
    max_size=6,
)


@given(EVENTS)
def test_mappings_become_json(events):
    """Each is one JSON text that means the same, whichever way is taken."""
    found = encode(*events)
    assert [decode_json(raw) for raw in found] == events
    # msgspec writes 1e+16 as 1e16.
    for others in (encode(*map(MappingProxyType, events)), encode(*events, b"{}")[:-1]):
        assert [decode_json(raw) for raw in others] == events


def test_the_text_is_short():
    """As Beats send it: no spaces, and no escapes that are not needed."""
    assert encode({"message": "grün", "n": [1, 2]}) == ['{"message":"grün","n":[1,2]}'.encode()]


KINDS = {"plain": 1, "others": Level.INFO}


@pytest.mark.parametrize("kind", KINDS)
def test_many_events_are_encoded_in_order(kind):
    """Over several slices; the number of a wrong event is right. `json` writes those of enums."""
    events = [
        {"n": n, "text": "x" * (n % 7 * 300), "kind": KINDS[kind]} for n in range(1000)
    ]  # fmt: skip
    assert [json.loads(raw) for raw in encode_all(events)] == events
    for number in (0, 1, 63, 64, 700, 999):
        wrong = [*events]
        for value, why in (
            (math.nan, "cannot be encoded as JSON: it contains NaN"),
            ("\ud800", "cannot be encoded as JSON: it contains half of a surrogate pair"),
            (deep(201), "cannot be encoded as JSON: it is nested too deeply"),
            ("x" * 9000, "of 9008 bytes is above the limit of 4000"),
        ):
            wrong[number] = {"a": value}
            with pytest.raises(LocalProtocolError, match=f"event {number + 1} {why}"):
                encode_all(wrong, LumberjackLimits(max_event_size=4000))
        for value in (b"a", {1}, UUID(int=1), datetime(2026, 1, 2), ...):
            wrong[number] = {"a": value}
            with pytest.raises(TypeError, match=f"event {number + 1} cannot be encoded as JSON"):
                encode_all(wrong)


def test_bytes_are_left_alone():
    """They are not even copied."""
    events = [b'{"a":1}', b"not checked"]
    assert all(a is b for a, b in zip(encode(*events), events, strict=True))


def nested(depth):
    event = {}
    for _ in range(depth):
        event = {"a": event}
    return event


def cyclic():
    event = {}
    event["me"] = event
    return event


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(
    ("event", "error", "match"),
    [
        ({"a": math.nan}, LocalProtocolError, "event 2 .* contains NaN"),
        ({"a": "\ud800"}, LocalProtocolError, "event 2 .* half of a surrogate pair"),
        (nested(100_000), LocalProtocolError, "event 2 .* nested too deeply"),
        (cyclic(), LocalProtocolError, "event 2 .* contains itself"),
        ({"a": object()}, TypeError, "event 2 .*type object is not JSON.*convert it before"),
        ({(1, 2): 1}, TypeError, "event 2 .*keys must be"),
    ],
)
def test_events_that_are_no_json(event, error, match, mixed):
    """The error has the number of the event, and nothing of its contents."""
    first = MappingProxyType({}) if mixed else {}
    with pytest.raises(error, match=match):
        encode(first, event)


@pytest.mark.parametrize("event", ["text", 1, None, ["a"], bytearray(b"{}")])
@pytest.mark.parametrize("version", [1, 2])
def test_things_that_are_no_events(event, version):
    with pytest.raises(TypeError, match=f"event 1 is of type {type(event).__name__}; give"):
        encode(event, version=version)


@pytest.mark.parametrize("mixed", [False, True])
def test_large_and_empty_events(mixed):
    """Each of the ways checks the size."""
    limits = LumberjackLimits(max_event_size=20)
    first = {} if mixed else b"{}"
    fits = b"x" * 20
    assert encode(first, fits, limits=limits) == [b"{}", fits]
    with pytest.raises(LocalProtocolError, match=r"event 2 of 21 bytes.*20 \(max_event_size\)"):
        encode(first, fits + b"x", limits=limits)
    with pytest.raises(LocalProtocolError, match="event 2 is empty"):
        encode(first, b"", limits=limits)
    with pytest.raises(LocalProtocolError, match=r"event 2 of 21 bytes.*20 \(max_event_size\)"):
        encode({}, {"a": "x" * 13}, limits=limits)


@pytest.mark.parametrize(
    ("name", "most", "level", "size"),
    [
        ("max_batch_size", 1000, 0, 990),
        ("max_inflated_size", 1000, 3, 990),
        ("max_compressed_size", 10**6, 3, 10**6 - 1000 - 64 - 10),
    ],
)
def test_other_limits_bind_too(name, most, level, size):
    """An event that would make a frame too large is refused before; a receiver reads all others."""
    limits = LumberjackLimits(**{name: most})
    encoder = EventEncoder(2, level, limits)
    assert encoder.max_size == size
    largest = os.urandom(size)
    window = trio.run(pack, encode(largest, level=level, limits=limits), encoder)
    (batch,) = all_of(BatchReader(limits), window)
    assert list(batch.events) == [largest]
    with pytest.raises(LocalProtocolError, match=name):
        encode(b"x" * (size + 1), level=level, limits=limits)


def test_it_stops_after_some_hundred_kb():
    """So that others can run; at least one event is encoded."""
    events = [{"a": "x" * 100_000}] * 10
    assert len(encode(*events)) == 3
    assert len(encode({"a": "x" * 1_000_000}, {})) == 1
    assert len(encode(MappingProxyType(events[0]), *events)) == 3


class TestVersion1:
    def test_pairs(self):
        """Text and bytes, or what `encode_pairs` returns."""
        event = {"line": "grün", b"host": b"h\xff"}
        (raw,) = encode(event, version=1)
        assert raw == encode_pairs(event.items())
        assert encode(raw, version=1) == [raw]
        assert decode_pairs(encode({"a": "b"}, version=1)[0]) == {"a": "b"}
        most = {str(n): "" for n in range(1024)}
        assert encode(most, encode_pairs(most.items()), version=1)

    @pytest.mark.parametrize(
        ("event", "error", "match"),
        [
            ({"n": 1}, TypeError, "event 1 of version 1 has text or bytes only, not str: int"),
            ({1: "n"}, TypeError, "event 1 of version 1 .*not int: str"),
            ({"n": "\ud800"}, LocalProtocolError, "half of a surrogate pair"),
            (b'{"n":1}', LocalProtocolError, "event 1 is not what encode_pairs returns"),
            (b"", LocalProtocolError, "event 1 is not what encode_pairs returns"),
            (b"\0\0\0\0more", LocalProtocolError, "4 bytes behind the last"),
            ({str(n): "" for n in range(1025)}, LocalProtocolError, r"1025 .*\(max_pairs\)"),
            (
                encode_pairs((str(n), "") for n in range(1025)),
                LocalProtocolError,
                r"1025 .*\(max_pairs\)",
            ),
        ],
    )
    def test_refused(self, event, error, match):
        """Also bytes, as malformed ones would destroy the window of other calls."""
        with pytest.raises(error, match=match):
            encode(event, version=1)


def test_contents_are_not_in_errors():
    """They may be confidential."""
    secret = "hunter2"
    for event in ({"password": secret, "a": math.nan}, {"password": secret, "a": {1}}):
        with pytest.raises((LocalProtocolError, TypeError)) as info:
            encode(event)
        assert secret not in str(info.value)
        assert "password" not in str(info.value)
    assert json.loads(encode({"password": secret})[0]) == {"password": secret}
