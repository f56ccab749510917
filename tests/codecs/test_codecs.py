import json
import traceback
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any, Literal, NewType, TypedDict
from uuid import UUID

import attrs
import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.codecs import DEFAULT_CODECS, CborCodec, CodecError, Codecs
from rsocket_trio.errors import Invalid, RSocketError
from rsocket_trio.metadata.mime_types import MIME

BOTH = [MIME.CBOR, MIME.JSON]
UserId = NewType("UserId", int)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Options(TypedDict):
    deep: bool


@dataclass
class Point:
    x: int
    y: float = 0.0


@attrs.frozen
class Tree:
    name: str = ""
    children: list["Tree"] = attrs.field(factory=list)


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


@pytest.mark.parametrize("mime_type", [*BOTH, MIME.TEXT, MIME.OCTET_STREAM, "image/png", ""])
def test_bytes_are_the_raw_data_of_any_type(mime_type):
    """The annotation bytes means no conversion, for known and unknown MIME types."""
    for annotation in (bytes, bytes | None):
        assert DEFAULT_CODECS.decode(b"\xff", annotation, mime_type) == b"\xff"
        for value in (b"\xff", bytearray(b"\xff"), memoryview(b"\xff")):
            data = DEFAULT_CODECS.encode(value, annotation, mime_type)
            assert (data, type(data)) == (b"\xff", bytes)
        with pytest.raises(CodecError, match="expected bytes, got str"):
            DEFAULT_CODECS.encode("x", annotation, mime_type)


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("42", str, "42"),
        ("42", str | None, "42"),
        ("42", object, "42"),
        ("", str, ""),
        ("", str | None, None),
        ("42", int, 42),
        ("", int | None, None),
        ('{"a":1}', dict, {"a": 1}),
        ("[1]", list[int], [1]),
        ('{"x":1,"y":0.0}', Point, Point(1)),
    ],
)
def test_plain_text_is_text_or_json_text(text, annotation, value):
    """str is the text as it is; other types use JSON."""
    assert DEFAULT_CODECS.decode(text.encode(), annotation, MIME.TEXT) == value
    if value is not None or annotation == (str | None):
        assert DEFAULT_CODECS.encode(value, annotation, MIME.TEXT) == text.encode()


def test_plain_text_without_a_type():
    """A str is written as it is, other values as JSON text."""
    assert DEFAULT_CODECS.encode("a", Any, MIME.TEXT) == b"a"
    assert DEFAULT_CODECS.encode([1], Any, MIME.TEXT) == b"[1]"
    assert DEFAULT_CODECS.encode(None, Any, MIME.TEXT) == b"null"


@pytest.mark.parametrize(
    ("value", "annotation", "data"),
    [("ü", str, b"\xc3\xbc"), ("a", Any, b"a"), (b"\xff", Any, b"\xff"), (None, str | None, b"")],
)
def test_octets_are_bytes_or_text(value, annotation, data):
    """str is written as UTF-8, bytes as they are."""
    assert DEFAULT_CODECS.encode(value, annotation, MIME.OCTET_STREAM) == data
    wanted = data if annotation is Any else value
    assert DEFAULT_CODECS.decode(data, annotation, MIME.OCTET_STREAM) == wanted


@pytest.mark.parametrize("mime_type", [MIME.TEXT, MIME.OCTET_STREAM])
@pytest.mark.parametrize(("value", "annotation"), [(1, str), (None, str), (1, str | None)])
def test_text_is_not_made_of_other_values(mime_type, value, annotation):
    """A handler that promises str and returns an int has an error, which is reported."""
    with pytest.raises(CodecError, match=f"cannot be written as {mime_type}"):
        DEFAULT_CODECS.encode(value, annotation, mime_type)


def test_octets_cannot_hold_other_values():
    """An int has no octets of its own; the error names the MIME type."""
    with pytest.raises(CodecError, match="application/octet-stream cannot be read as int"):
        DEFAULT_CODECS.decode(b"1", int, MIME.OCTET_STREAM)
    with pytest.raises(CodecError, match="application/octet-stream"):
        DEFAULT_CODECS.encode(1, int, MIME.OCTET_STREAM)


def test_the_error_of_an_unknown_type_lists_the_known_ones():
    """Data of a type without a codec can only be bytes."""
    message = r"no codec for 'image/png'.* application/cbor, application/json, .*text/plain"
    with pytest.raises(CodecError, match=message):
        DEFAULT_CODECS.decode(b"1", int, "image/png")
    with pytest.raises(CodecError, match=message):
        DEFAULT_CODECS.encode(1, object, "image/png")
    assert issubclass(CodecError, RSocketError)


@pytest.mark.parametrize(
    "mime_type",
    [
        "Application/JSON",
        "application/json;charset=utf-8",
        'application/json ; q=1; Charset="UTF-8"',
    ],
)
def test_case_and_parameters_of_a_mime_type(mime_type):
    """A MIME type is found in any case, and with parameters."""
    assert DEFAULT_CODECS.decode(b"1", int, mime_type) == 1


def test_another_charset_is_an_error():
    """Text is UTF-8; another decoding would give wrong letters."""
    with pytest.raises(CodecError, match="UTF-8, not 'latin-1'"):
        DEFAULT_CODECS.decode(b"1", str, "text/plain; charset=latin-1")
    assert DEFAULT_CODECS.decode(b"\xff", bytes, "text/plain; charset=latin-1") == b"\xff"


def test_codecs_can_be_added_and_replaced():
    """A custom codec has two methods; their errors become CodecError."""

    class Reversed:
        def encode(self, value, annotation):
            return value.encode()[::-1]

        def decode(self, data, annotation):
            return data[::-1].decode()

    codecs = Codecs({"Text/Plain": Reversed(), "x/reversed": Reversed()})
    assert "x/reversed" in codecs.mime_types
    for mime_type in ("text/plain", "x/REVERSED"):
        assert codecs.encode("ab", str, mime_type) == b"ba"
        assert codecs.decode(b"ba", str, mime_type) == "ab"
        with pytest.raises(CodecError) as caught:
            codecs.decode(b"\xff", str, mime_type)
        assert isinstance(caught.value.__cause__, UnicodeDecodeError)


def bignum(size, tag=b"\xc2"):
    return tag + b"\x5a" + size.to_bytes(4, "big") + b"\xf1" * size


HOSTILE = {
    "deep lists": (b"\x81" * 100_000, MIME.CBOR),
    "deep maps": (b"\xa1" * 100_000, MIME.CBOR),
    "deep tags": (b"\xc1" * 100_000, MIME.CBOR),
    "deeper than 200": (b"\x81" * 201 + b"\0", MIME.CBOR),
    "long list": (bytes.fromhex("9bffffffffffffffff"), MIME.CBOR),
    "long map": (bytes.fromhex("bb00000000ffffffff"), MIME.CBOR),
    "long bytes": (bytes.fromhex("5bffffffffffffffff"), MIME.CBOR),
    "long text": (bytes.fromhex("7b00000000ffffffff"), MIME.CBOR),
    "large bigfloat": (bytes.fromhex("c5821b7fffffffffffffff01"), MIME.CBOR),
    "far date": (bytes.fromhex("c11bffffffffffffffff"), MIME.CBOR),
    "cycle": (bytes.fromhex("d81c81d81d00"), MIME.CBOR),
    "cycle, long tags": (bytes.fromhex("d9001c81da0000001d00"), MIME.CBOR),
    "regular expression": (cbor2.dumps(cbor2.CBORTag(35, "a")), MIME.CBOR),
    "MIME message": (cbor2.dumps(cbor2.CBORTag(36, "a: b")), MIME.CBOR),
    "two items": (b"\1\2", MIME.CBOR),
    "fraction of a large decimal": (bytes.fromhex("d81e82c4821a3b9aca0003f6"), MIME.CBOR),
    "fraction of a small decimal": (bytes.fromhex("d81e82c4823a3b9aca0003f6"), MIME.CBOR),
    "fraction of text": (b"\xd8\x1e\x82\x6c1e1000000000\xf6", MIME.CBOR),
    "fraction without a denominator": (bytes.fromhex("d81e8101"), MIME.CBOR),
    "fraction by zero": (bytes.fromhex("d81e820100"), MIME.CBOR),
    "large fraction": (b"\xd8\x1e\x82" + bignum(10**6) + bignum(10**6), MIME.CBOR),
    "large decimal": (b"\xc4\x82\x01" + bignum(10**6), MIME.CBOR),
    "large mantissa": (b"\xc5\x82\x01" + bignum(10**6, b"\xc3"), MIME.CBOR),
    "large integer": (bignum(1025), MIME.CBOR),
    "integer of text": (b"\xc2\x61a", MIME.CBOR),
    "references to text": (bytes.fromhex("d9010082656865 6c6c6fd81900"), MIME.CBOR),
    "large float": (b"[1e309]", MIME.JSON),
    "large negative float": (b"-" + b"9" * 310 + b".0", MIME.JSON),
    "nothing": (b"", MIME.CBOR),
    "no JSON at all": (b"", MIME.JSON),
    "deep JSON lists": (b"[" * 100_000, MIME.JSON),
    "deep JSON objects": (b'{"a":' * 100_000, MIME.JSON),
    "long JSON number": (b"1" * 5000, MIME.JSON),
    "NaN": (b"[NaN]", MIME.JSON),
    "infinity": (b"-Infinity", MIME.JSON),
    "UTF-16": ("1".encode("utf-16"), MIME.JSON),
    "two JSON values": (b"1 2", MIME.JSON),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("annotation", [object, Tree, list[int]])
def test_hostile_data_are_codec_errors(name, annotation):
    """Depth, promised lengths, cycles, costly tags: each is a CodecError, at once."""
    data, mime_type = HOSTILE[name]
    with pytest.raises(CodecError, match=f"{len(data)} bytes of {mime_type} cannot be read as"):
        DEFAULT_CODECS.decode(data, annotation, mime_type)


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


def test_keys_with_chosen_hashes_are_refused_in_large_data():
    """Numbers with one hash make a map slow to read, so only small data may have such keys."""
    table = {(2**61 - 1) * (n + 2**10): 0 for n in range(10)}
    data = DEFAULT_CODECS.encode(table, dict, MIME.CBOR)
    assert len({hash(key) for key in table}) == 1
    for size, refused in ((len(data), False), (len(data) - 1, True)):
        codecs = Codecs({MIME.CBOR: CborCodec(any_keys_size=size)})
        with pytest.raises(CodecError) if refused else nullcontext():
            assert codecs.decode(data, dict[int, int], MIME.CBOR) == table
    large = DEFAULT_CODECS.encode({"x" * 70_000: 1, b"y": 2}, dict, MIME.CBOR)
    assert len(DEFAULT_CODECS.decode(large, dict, MIME.CBOR)) == 2


@pytest.mark.parametrize("size", [64 * 2**10, 64 * 2**10 + 1])
def test_the_size_limit_of_data_with_any_keys(size):
    """The default is 64 KiB, to the byte."""
    data = DEFAULT_CODECS.encode({1: bytes(size - 5)}, dict, MIME.CBOR)
    assert len(data) == size
    with pytest.raises(CodecError) if size > 64 * 2**10 else nullcontext():
        assert DEFAULT_CODECS.decode(data, dict, MIME.CBOR) == {1: bytes(size - 5)}


@pytest.mark.parametrize("depth", [200, 201])
def test_the_limit_of_nesting(depth):
    """200 nested containers are accepted, and no more."""
    data = b"\x81" * depth + b"\0"
    with pytest.raises(CodecError) if depth > 200 else nullcontext():
        value = DEFAULT_CODECS.decode(data, list[Any], MIME.CBOR)
        for _ in range(depth):
            [value] = value
        assert value == 0


def test_errors_show_no_values():
    """Data of a peer may be long or secret; the text of the error leaves them out."""
    data = json.dumps(["terces"[::-1]]).encode()
    with pytest.raises(CodecError) as caught:
        DEFAULT_CODECS.decode(data, list[int], MIME.JSON)
    assert str(caught.value) == (
        "10 bytes of application/json cannot be read as list[int]: [0]: expected int, got str"
    )
    assert "secret" not in "".join(traceback.format_exception(caught.value))


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


@given(
    st.binary(max_size=60),
    st.sampled_from(
        [object, int, str, Tree, Point, list[int | str], dict[str, Any], datetime, None]
    ),
    st.sampled_from([*BOTH, MIME.TEXT, MIME.OCTET_STREAM]),
)
def test_any_bytes_are_a_value_or_a_codec_error(data, annotation, mime_type):
    """No bytes lead to another exception."""
    with suppress(CodecError):
        DEFAULT_CODECS.decode(data, annotation, mime_type)


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


@attrs.frozen
class Positive:
    n: int = attrs.field()

    @n.validator
    def _check(self, _, value):
        if value <= 0:
            raise Invalid("n must be positive")


@pytest.mark.parametrize("annotation", [Positive, list[Positive], Positive | None])
@pytest.mark.parametrize("mime_type", ["application/json", "text/plain"])
def test_a_class_may_refuse_with_its_own_error(annotation, mime_type):
    """A StreamError of a validator is for the peer, and comes out unchanged."""
    data = b'[{"n":0}]' if annotation == list[Positive] else b'{"n":0}'
    with pytest.raises(Invalid, match="n must be positive"):
        Codecs().decode(data, annotation, mime_type)


@pytest.mark.parametrize(
    ("annotation", "mime_type", "can"),
    [(int, "application/json", True), (int, "APPLICATION/CBOR;x=y", True),
     (bytes, "application/json", False), (int, "image/png", False),
     (str, "application/octet-stream", True), (int, "application/octet-stream", False)],
)  # fmt: skip
def test_types_that_can_be_encoded(annotation, mime_type, can):
    """It is known in advance which types can be encoded."""
    assert Codecs().can_encode(annotation, mime_type) is can
