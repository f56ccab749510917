"""Events are encoded with orjson as they are without: accepted or refused, and of one meaning."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import importlib
import importlib.util
import json
import math
import uuid
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.lumberjack import LumberjackLimits
from rsocket_trio.lumberjack.client import plain_json
from rsocket_trio.lumberjack.client.event_encoder import EventEncoder

needs_orjson = pytest.mark.skipif(
    importlib.util.find_spec("orjson") is None, reason="orjson is not installed"
)
MARK = plain_json._MARK


def encode(events, limits=None):
    encoder = EventEncoder(2, 3, limits or LumberjackLimits())
    found = []
    while len(found) < len(events):
        found += encoder.encode(events, len(found), len(events))
    return found


def outcome(events, *, fast):
    """The values of the texts with their types, or the error."""
    with pytest.MonkeyPatch.context() as patch:
        if not fast:
            patch.setattr(plain_json, "_orjson_dumps", None)
        try:
            return [repr(json.loads(raw)) for raw in encode(events)]
        except (LocalProtocolError, TypeError) as error:
            return f"{type(error).__name__}: {error}"


class Color(enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Word(enum.StrEnum):
    YES = "yes"


class Text(str):
    __slots__ = ()


class Real(float):
    pass


class Many(list):
    pass


@dataclasses.dataclass
class Point:
    x: int = 1


class Pair(NamedTuple):
    a: int
    b: int


def fragment():
    return importlib.import_module("orjson").Fragment(b'1,"end of an event",2')


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def cyclic():
    found = []
    found.append(found)
    return found


SHARED = [1, {"a": None}]
VALUES = [
    None, True, 1, 1.5, "text", [], {}, (), (1, [2.5, None]), -0.0, 1e16, 1e-7, 5e-324, 1e400,
    -math.inf, math.nan, [None, math.nan], (math.nan,), {"a": math.inf},
    2**63, -(2**63), 2**64 - 1, 2**64, -(2**63) - 1, 10**400, 10**5000,
    "\ud800", "\u2028\x7f\x00\x1f\"\\/\U0001f980", "null",
    MARK, f',"{MARK}",', ["", MARK, ""], {MARK: MARK}, [{}, MARK, {}],
    uuid.UUID(int=1), Color.RED, Number.ONE, Word.YES, Text("a"), Real(1.5), Real("nan"), Many([1]),
    Point(), Point, Pair(1, 2), dt.datetime(2026, 1, 2), dt.date(2026, 1, 2),
    dt.time(1), decimal.Decimal(1), collections.OrderedDict(a=1),
    collections.defaultdict(int, a=1), b"a", bytearray(b"a"), memoryview(b"a"), {1}, frozenset(),
    1j, ..., object(), {1: 1}, {None: 1}, {True: 1}, {1.5: 1}, {math.nan: 1}, {(1,): 1},
    {b"a": 1}, {Text("a"): 1}, {Color.RED: 1}, {Number.ONE: 1}, {Word.YES: 1}, {2**70: 1},
    {"\ud800": 1}, {"1": 1, 1: 2}, {uuid.UUID(int=1): 1},
    [SHARED] * 3, nested(100), nested(300), cyclic(),
]  # fmt: skip


@needs_orjson
@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{type(value).__name__}")
def test_the_same_events_and_errors(value):
    """Alone, and among others."""
    for events in ([{"a": value}], [{}, {"a": {"b": [value]}}, {"a": None}]):
        assert outcome(events, fast=True) == outcome(events, fast=False)


@needs_orjson
def test_fragments_of_orjson_are_refused():
    """They are not checked by orjson, and could be anything."""
    with pytest.raises(TypeError, match="event 2 cannot be encoded as JSON"):
        encode([{}, {"a": fragment()}])


@needs_orjson
def test_it_is_used():
    """Otherwise the comparisons here would say nothing."""
    events = [{"a": [1, 1.5, None, "ü"], "b": {"c": True}}, {}]
    assert plain_json.encode_plain(events) == encode(events)
    assert plain_json.encode_plain([{"a": math.nan}]) is None
    assert plain_json.encode_plain([{"a": MARK}, {}]) is not None
    assert plain_json.encode_plain([{"a": ["", MARK, ""]}, {}]) is None


texts = st.text() | st.sampled_from([MARK, "null", f'"{MARK}"'])
any_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | st.floats() | texts
    | st.sampled_from([Color.RED, Number.ONE, uuid.UUID(int=1), b"a", Text("a")]),
    lambda inner: st.lists(inner, max_size=4)
    | st.tuples(inner, inner)
    | st.dictionaries(texts | st.integers() | st.none(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@needs_orjson
@given(st.lists(st.dictionaries(texts, any_values, max_size=4), min_size=1, max_size=5))
@example([{"a": [1, MARK, 2]}, {"b": 1}])
@example([{"a": [math.nan, None]}])
def test_any_events(events):
    """The same texts, or the same error."""
    assert outcome(events, fast=True) == outcome(events, fast=False)


@pytest.mark.parametrize("fast", [pytest.param(True, marks=needs_orjson), False])
def test_many_events_are_encoded_in_order(fast, monkeypatch):
    """Over several slices; the number of a wrong event is right."""
    if not fast:
        monkeypatch.setattr(plain_json, "_orjson_dumps", None)
    events = [{"n": number, "text": "x" * (number % 7 * 300)} for number in range(1000)]
    assert [json.loads(raw) for raw in encode(events)] == events
    for number in (0, 1, 63, 64, 700, 999):
        wrong = [*events]
        wrong[number] = {"a": math.nan}
        with pytest.raises(LocalProtocolError, match=f"event {number + 1} .* contains NaN"):
            encode(wrong)
        wrong[number] = {"a": "x" * 9000}
        with pytest.raises(LocalProtocolError, match=f"event {number + 1} of 9008 bytes"):
            encode(wrong, LumberjackLimits(max_event_size=4000))
