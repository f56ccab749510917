"""The caller's events to bytes, and which events are refused."""

from __future__ import annotations

import json
import math
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.lumberjack import (
    LumberjackLimits,
    decode_json,
    decode_pairs,
    encode_pairs,
)
from rsocket_trio.lumberjack.client import event_encoder
from rsocket_trio.lumberjack.client.event_encoder import EventEncoder

LIMITS = LumberjackLimits()


def encode(*events, version=2, level=3, limits=LIMITS):
    return EventEncoder(version, level, limits).encode(list(events), 0, len(events))


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
    # orjson writes 1e-05 as 0.00001.
    for others in (encode(*map(MappingProxyType, events)), encode(*events, b"{}")[:-1]):
        assert [decode_json(raw) for raw in others] == events


def test_the_text_is_short():
    """As Beats send it: no spaces, and no escapes that are not needed."""
    assert encode({"message": "grün", "n": [1, 2]}) == ['{"message":"grün","n":[1,2]}'.encode()]


def test_without_the_c_encoder(monkeypatch):
    """Other Pythons have none; the texts are the same."""
    event = {"a": [1, None, {"b": "ü"}]}
    expected = encode(event)
    monkeypatch.setattr("rsocket_trio.lumberjack.client.plain_json._orjson_dumps", None)
    monkeypatch.setattr("json.encoder.c_make_encoder", None)
    monkeypatch.setattr(event_encoder, "_chunks", event_encoder._chunks_of())
    assert encode(event) == expected


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
    ("limits", "level", "name"),
    [
        (LumberjackLimits(max_batch_size=1000), 0, "max_batch_size"),
        (LumberjackLimits(max_inflated_size=1000), 3, "max_inflated_size"),
        (LumberjackLimits(max_compressed_size=1000), 3, "max_compressed_size"),
    ],
)
def test_other_limits_bind_too(limits, level, name):
    """An event that would make a frame too large is refused before."""
    size = EventEncoder(2, level, limits).max_size
    encode(b"x" * size, level=level, limits=limits)
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
