"""Annotations that used to pass at registration, and to fail with each value."""

import enum
import typing
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime
from typing import ClassVar, Literal, NamedTuple
from uuid import UUID

import attrs
import pytest
import typing_extensions

from rsocket_trio.codecs import DEFAULT_CODECS, CborCodec, CodecError, Codecs, JsonCodec
from rsocket_trio.metadata.mime_types import MIME

BOTH = [MIME.CBOR, MIME.JSON]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def unresolved(text: "Absent"):  # noqa: F821 - that is the point
    return text


@attrs.frozen
class Converted:
    when: datetime = attrs.field(converter=moment)
    number: int = attrs.field(converter=int, default=1)
    plain: int = attrs.field(converter=unresolved, default=1)
    pair: tuple[int, ...] = attrs.field(converter=lambda items: tuple(items), default=())
    more: datetime | None = attrs.field(converter=attrs.Converter(moment), default="2024-05-06")


@pytest.mark.parametrize("mime_type", BOTH)
def test_a_field_with_a_converter(mime_type):
    """Data are converted to what the converter takes, as its annotation says."""
    plain = {"when": "2024-05-06T12:00:00+00:00", "number": 3, "plain": 4, "pair": [1]}
    data = DEFAULT_CODECS.encode(plain, dict, mime_type)
    assert DEFAULT_CODECS.decode(data, Converted, mime_type) == Converted(
        "2024-05-06T12:00:00+00:00", 3, 4, (1,)
    )


def test_a_field_with_a_converter_is_written_as_it_is_annotated():
    value = Converted("2024-05-06T12:00:00+00:00", more="2024-05-06T00:00:00+00:00")
    data = DEFAULT_CODECS.encode(value, Converted, MIME.JSON)
    assert DEFAULT_CODECS.decode(data, Converted, MIME.JSON) == value
    assert value.when == datetime(2024, 5, 6, 12, tzinfo=UTC)


class Plain:
    pass


class Odd(enum.Enum):
    ONE = Plain()


class Number(enum.IntEnum):
    ONE = 1


class Half(enum.Enum):
    HALF = 0.5


class Word(enum.StrEnum):
    ONE = "one"


class Pair(NamedTuple):
    left: int
    right: int


@attrs.frozen
class Point:
    x: int


@pytest.mark.parametrize("codec", [CborCodec(), JsonCodec()])
@pytest.mark.parametrize("annotation", [Odd, dict[Point, int], list[dict[frozenset | Point, int]]])
def test_what_can_never_be_written(codec, annotation):
    with pytest.raises(TypeError, match=r"is not a type that data|cannot be written as a key"):
        codec.check_encode(annotation)


@pytest.mark.parametrize("key", [bool, float, None, str | None, str | int, Half, tuple[int, int]])
def test_keys_that_are_never_read_from_json(key):
    """Nor are they written: as text, 1 and "1" are the same key."""
    with pytest.raises(TypeError, match=r"keys are text, and .* is not read from text"):
        JsonCodec().check_decode(dict[key, int])
    with pytest.raises(TypeError, match=r"keys are text, and|cannot be written as a key"):
        JsonCodec().check_encode(dict[key, int])
    with pytest.raises(CodecError):
        DEFAULT_CODECS.encode({}, dict[key, int], MIME.JSON)
    CborCodec().check_decode(dict[key, int])


@pytest.mark.parametrize("key", [Pair, tuple[int, int]])
def test_keys_of_several_parts(key):
    """CBOR has them; JSON does not."""
    with pytest.raises(TypeError, match="cannot be written as a key"):
        JsonCodec().check_encode(dict[key, int])
    value = {Pair(1, 2): 3}
    data = DEFAULT_CODECS.encode(value, dict[key, int], MIME.CBOR)
    assert DEFAULT_CODECS.decode(data, dict[key, int], MIME.CBOR) == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (Word, {Word.ONE: 1}),
        (Number, {Number.ONE: 1}),
        (Literal[1, 2], {1: 2}),
        (int, {1: 1}),
        (str, {"": 1}),
        (UUID, {UUID(int=5): 1}),
        (date, {date(2024, 5, 6): 1}),
    ],
)
@pytest.mark.parametrize("mime_type", BOTH)
def test_keys_that_both_have(key, value, mime_type):
    data = DEFAULT_CODECS.encode(value, dict[key, int], mime_type)
    assert DEFAULT_CODECS.decode(data, dict[key, int], mime_type) == value


@dataclass
class Price:
    amount: int
    tax: InitVar[int]
    discount: InitVar[int] = 0
    kind: ClassVar[str] = "price"
    total: int = field(init=False, default=0)

    def __post_init__(self, tax, discount):
        self.total = self.amount + tax - discount


@pytest.mark.parametrize("mime_type", BOTH)
def test_arguments_that_are_not_kept(mime_type):
    """An InitVar is read, and cannot be written."""
    data = DEFAULT_CODECS.encode({"amount": 1, "tax": 2, "discount": 1}, dict, mime_type)
    price = DEFAULT_CODECS.decode(data, Price, mime_type)
    assert price.total == 2
    written = DEFAULT_CODECS.encode(price, Price, mime_type)
    assert DEFAULT_CODECS.decode(written, dict, mime_type) == {"amount": 1}
    with pytest.raises(CodecError, match=r"tax: expected .*int.*, got nothing"):
        DEFAULT_CODECS.decode(written, Price, mime_type)


@pytest.mark.parametrize("codec", [JsonCodec, "json", None])
def test_what_is_no_codec(codec):
    with pytest.raises(
        TypeError, match="the codec for 'x/y' is not an object with encode and decode"
    ):
        Codecs({"x/y": codec})


class Fixed(typing_extensions.TypedDict, total=False):
    a: typing.Required[typing_extensions.ReadOnly[int]]
    b: typing_extensions.ReadOnly[list["Fixed"]]


@pytest.mark.parametrize("mime_type", BOTH)
def test_read_only_keys(mime_type):
    """ReadOnly of typing_extensions says nothing of the values."""
    value = {"a": 1, "b": [{"a": 2}]}
    data = DEFAULT_CODECS.encode(value, Fixed, mime_type)
    assert DEFAULT_CODECS.decode(data, Fixed, mime_type) == value
    with pytest.raises(CodecError, match=r"b\[0\].a: expected int, got nothing"):
        DEFAULT_CODECS.encode({"a": 1, "b": [{}]}, Fixed, mime_type)
