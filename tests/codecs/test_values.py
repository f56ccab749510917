"""Values of many types in CBOR and JSON: written and read again, and never coerced."""

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any, Literal, NewType, TypedDict
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.codecs import DEFAULT_CODECS, CodecError
from rsocket_trio.metadata.mime_types import MIME
from tests.codecs.values import BOTH, Point, Tree


class Colour(Enum):
    RED = "red"


UserId = NewType("UserId", int)


class Level(IntEnum):
    LOW = 1


class Options(TypedDict):
    deep: bool


VALUES = [
    (1, int),
    (1, UserId),
    (1.5, float),
    (True, bool),
    ("ü", str),
    (None, None),
    (None, int | None),
    (3, int | None),
    ([1, "a", None], list[int | str | None]),
    ([1, 2], list[int]),
    ((1, 2), tuple[int, ...]),
    ((1, "a"), tuple[int, str]),
    ((1, 2), tuple),
    ({1, 2}, set[int]),
    (frozenset({1}), frozenset[int]),
    ({"a": [1]}, dict[str, list[int]]),
    ({"a": 1}, dict),
    ({7: "x"}, dict[int, str]),
    ({"a": 1}, object),
    ({"a": 1}, Any),
    ({"a": 1}, dict[str, object]),
    (Colour.RED, Colour),
    (Level.LOW, Level),
    ("a", Literal["a", "b"]),
    ({"deep": True}, Options),
    (Point(1, 2.0), Point),
    ([Point(1)], list[Point]),
    (Tree("a", [Tree("b"), Tree("c", [Tree("d")])]), Tree),
    (datetime(2024, 5, 6, 7, 8, tzinfo=UTC), datetime),
    (date(2024, 5, 6), date),
    (Decimal("1.50"), Decimal),
    (UUID(int=5), UUID),
    ([b"\xff"], list[bytes]),
]


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize(("value", "annotation"), VALUES, ids=lambda v: str(v)[:40])
def test_values_survive_writing_and_reading(value, annotation, mime_type):
    """A written value is read as the same value and type."""
    data = DEFAULT_CODECS.encode(value, annotation, mime_type)
    again = DEFAULT_CODECS.decode(data, annotation, mime_type)
    assert again == value
    assert type(again) is type(value)


def test_cbor_tells_bytes_from_text():
    """CBOR has its own type for bytes, so a union of both is read as it was written."""
    for value in (b"a", "a"):
        data = DEFAULT_CODECS.encode(value, bytes | str, MIME.CBOR)
        assert DEFAULT_CODECS.decode(data, bytes | str, MIME.CBOR) == value


WRONG = [
    ("1", int),
    (True, int),
    (1.0, int),
    (1, str),
    (None, str),
    (1, bool),
    ("1.5", float),
    (True, float),
    (10**400, float),
    (1, None),
    ("ab", list[str]),
    ({"a": 1}, list[str]),
    ("ab", tuple[str, str]),
    (["a"], tuple[str, str]),
    ("ab", set[str]),
    ([["a", 1]], dict[str, int]),
    ({"a": "b"}, dict[str, int]),
    ({"x": "1"}, Point),
    ({}, Point),
    ([], Tree),
    ({"children": [[]]}, Tree),
    ([], Options),
    ("green", Colour),
    (5, datetime),
    ("yesterday", datetime),
    ("c", Literal["a", "b"]),
    ("?", list[bytes]),
    (["?"], list[bytes]),
    ({" 7": "x"}, dict[int, str]),
    (1.5, int | str),
]


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize(("value", "annotation"), WRONG, ids=lambda v: str(v)[:40])
def test_values_are_not_coerced(value, annotation, mime_type):
    """A value of another type is an error: no int is made of "1", no str of 1."""
    data = DEFAULT_CODECS.encode(value, object, mime_type)
    with pytest.raises(CodecError, match="cannot be read as "):
        DEFAULT_CODECS.decode(data, annotation, mime_type)


@pytest.mark.parametrize("mime_type", BOTH)
def test_unknown_keys_are_ignored(mime_type):
    """A peer may send more fields than we know."""
    data = DEFAULT_CODECS.encode({"x": 1, "z": 2}, dict, mime_type)
    assert DEFAULT_CODECS.decode(data, Point, mime_type) == Point(1)


def test_an_int_is_a_float():
    """1 is valid where 1.0 is expected: JSON writers do not tell them apart."""
    value = DEFAULT_CODECS.decode(b"1", float, MIME.JSON)
    assert (value, type(value)) == (1.0, float)


@pytest.mark.parametrize(
    "value",
    [2**64, -(2**64) - 1, 2**8192 - 1, -(2**8192), Fraction(-1, 3), Decimal(2**90), 1e308, 5e-324],
)
def test_large_numbers_survive(value):
    data = DEFAULT_CODECS.encode(value, type(value), MIME.CBOR)
    assert DEFAULT_CODECS.decode(data, type(value), MIME.CBOR) == value
    if isinstance(value, float):
        data = DEFAULT_CODECS.encode(value, float, MIME.JSON)
        assert DEFAULT_CODECS.decode(data, float, MIME.JSON) == value


@pytest.mark.parametrize(
    ("value", "annotation", "mime_type"),
    [
        (float("nan"), float, MIME.JSON),
        ("\ud800", str, MIME.JSON),
        (object(), object, MIME.JSON),
        (object(), object, MIME.CBOR),
        ({"x": 1}, Point, MIME.CBOR),
    ],
)
def test_values_that_cannot_be_written_are_codec_errors(value, annotation, mime_type):
    """The error names the type of the value and the MIME type."""
    with pytest.raises(CodecError, match=f"{type(value).__name__} cannot be .* {mime_type}"):
        DEFAULT_CODECS.encode(value, annotation, mime_type)


def test_values_that_contain_themselves_are_codec_errors():
    """A cycle cannot be encoded."""
    cycle: list[Any] = []
    cycle.append(cycle)
    for mime_type in BOTH:
        with pytest.raises(CodecError):
            DEFAULT_CODECS.encode(cycle, object, mime_type)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(json_values, st.sampled_from(BOTH))
def test_any_plain_value_survives_writing_and_reading(value, mime_type):
    """Every value of JSON works with both codecs."""
    data = DEFAULT_CODECS.encode(value, object, mime_type)
    assert DEFAULT_CODECS.decode(data, object, mime_type) == value
