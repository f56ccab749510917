"""Annotations that can never be converted are found in advance, with the reason."""

import typing
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, Literal, NamedTuple, NoReturn, TypedDict, TypeVar

import attrs
import pytest

from rsocket_trio.codecs import DEFAULT_CODECS, CborCodec, CodecError, Codecs, JsonCodec
from rsocket_trio.metadata.mime_types import MIME

from .annotated import Animal, Box, Cat, Dog, Holder, Node, Plain, Seeded, Speaks

T = TypeVar("T")


class Odd(Enum):
    TEN = timedelta(10)


@dataclass
class Growing(Generic[T]):
    more: "Growing[list[T]] | None" = None


@dataclass
class Mutable:
    x: int


@dataclass
class Missing:
    other: "NotThere"  # noqa: F821


class Wrapped(Enum):
    ONE = Plain(1)


class Keys(TypedDict):
    plain: Plain


@attrs.frozen
class Chain:
    node: Node
    last: "Holder | None" = None


NO_TYPE = "is not a type that data can be converted to"
READ_AND_WRITE = [
    (Plain, f"Plain {NO_TYPE}: make it an attrs class"),
    (complex, f"complex {NO_TYPE}"),
    (list[Plain], rf"\[\]: Plain {NO_TYPE}"),
    (dict[str, Plain], rf"\[value\]: Plain {NO_TYPE}"),
    (dict[str, list[Plain | None]], rf"\[value\]\[\]: Plain {NO_TYPE}"),
    (tuple[int, Plain], rf"\[1\]: Plain {NO_TYPE}"),
    (Holder, rf"plain\[\]: Plain {NO_TYPE}"),
    (Box[Holder], rf"item.plain\[\]: Plain {NO_TYPE}"),
    (Chain, rf"last.plain\[\]: Plain {NO_TYPE}"),
    (Keys, f"plain: Plain {NO_TYPE}"),
    (int | Plain, f"Plain {NO_TYPE}"),
    (Callable[[], int], "Callable"),
    (type, NO_TYPE),
    (type[int], NO_TYPE),
    (typing.Self, NO_TYPE),
    ("int", "'int' cannot be resolved at run time"),
    (list["Elsewhere"], r"\[\]: 'Elsewhere' cannot be resolved"),  # noqa: F821
    (Missing, "Missing is annotated with 'NotThere', which cannot be resolved"),
    (Growing[int], "contains a new type at each level"),
    (5, NO_TYPE),
    (AsyncIterator[int], NO_TYPE),
]
READ_ONLY = [
    (Seeded, "Seeded cannot be made of its fields: its constructor needs 'seed'"),
    (Odd, "Odd has values that are neither text nor numbers"),
    (Literal[Odd.TEN], "has values that are neither text nor numbers"),
    (Speaks, NO_TYPE),
    (NoReturn, NO_TYPE),
    (Iterator[int], NO_TYPE),
    (set[Mutable], "Mutable cannot be in a set, nor be a key"),
    (dict[Mutable, int], "Mutable cannot be in a set, nor be a key"),
    (set[list[int]], "cannot be in a set"),
    (frozenset[dict[str, int]], "cannot be in a set"),
    (list[int] | list[str], "cannot be told apart"),
    (list[int] | tuple[int, int], "cannot be told apart"),
    (Dog | dict[str, int], "cannot be told apart"),
    (Animal | Box[int] | dict[str, int], "cannot be told apart"),
    (Mutable | Missing, "NotThere"),
    (tuple[int, *tuple[str, ...]], NO_TYPE),
]


@pytest.mark.parametrize(("annotation", "reason"), READ_AND_WRITE + READ_ONLY)
def test_types_that_cannot_be_read(annotation, reason):
    """This is known without data; with data it is an error like others."""
    for _ in range(2):
        with pytest.raises(TypeError, match=reason):
            DEFAULT_CODECS.check_decode(annotation)
    for mime_type in (MIME.CBOR, MIME.JSON, MIME.TEXT):
        with pytest.raises(CodecError):
            DEFAULT_CODECS.decode(b"1", annotation, mime_type)


@pytest.mark.parametrize(("annotation", "reason"), [*READ_AND_WRITE, (Wrapped, NO_TYPE)])
def test_types_that_cannot_be_written(annotation, reason):
    """This is known without a value."""
    for _ in range(2):
        with pytest.raises(TypeError, match=reason):
            DEFAULT_CODECS.check_encode(annotation)


@pytest.mark.parametrize(
    "annotation", [Seeded, Speaks, NoReturn, list[int] | list[str], Dog | dict[str, int], Dog | Cat]
)
def test_types_that_can_only_be_written(annotation):
    """A type that cannot be told apart, or made, when read may still be a result."""
    DEFAULT_CODECS.check_encode(annotation)


def test_parts_of_an_unconvertible_type_are_not_remembered():
    """A part that was checked before the fault was found has to be checked again."""
    codec = JsonCodec()
    for check in (codec.check_decode, codec.check_encode):
        for annotation in (Chain, list[Chain], Holder, list[Plain]):
            with pytest.raises(TypeError):
                check(annotation)
        check(Node)
    assert codec.decode(b'{"value": 1, "left": {"value": 2}}', Node) == Node(1, Node(2))


def test_a_value_without_an_annotation_is_written_by_its_type():
    """The format knows its type, or refuses it."""
    assert DEFAULT_CODECS.encode([Dog(1)], "Unknown", MIME.JSON) == b'[{"bark":1,"name":""}]'
    with pytest.raises(CodecError, match="Plain cannot be written as application/json"):
        DEFAULT_CODECS.encode(Plain(1), Plain, MIME.JSON)


class Own:
    """A codec for plain objects that does not declare its types."""

    def encode(self, value, annotation):
        return str(value.x).encode()

    def decode(self, data, annotation):
        return annotation(int(data))


class OwnAndChecked(Own):
    def check_decode(self, annotation):
        if annotation is not Plain:
            raise TypeError("only Plain")

    check_encode = check_decode


def test_custom_codecs():
    """One that declares no types may convert all; the declaration of another one is used."""
    trusted, checked = Codecs({"x/own": Own()}), Codecs({"x/own": OwnAndChecked()})
    for annotation in (Plain, complex):
        trusted.check_decode(annotation)
        trusted.check_encode(annotation)
    checked.check_decode(Plain)
    checked.check_encode(Plain)
    with pytest.raises(TypeError, match=NO_TYPE):
        checked.check_decode(complex)
    with pytest.raises(TypeError, match=NO_TYPE):
        checked.check_encode(complex)


class Pair(NamedTuple):
    left: int
    right: int


class Half(Enum):
    HALF = 0.5


@pytest.mark.parametrize("key", [Dog, frozenset | Dog])
def test_classes_are_no_keys(key):
    """What they are written as is none, in both formats."""
    for codec in (CborCodec(), JsonCodec()):
        with pytest.raises(TypeError, match="cannot be written as a key"):
            codec.check_encode(list[dict[key, int]])


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


@pytest.mark.parametrize("annotation", [bytes, bytes | None, Any, object, None, Node, Dog | Cat])
def test_convertible_types_have_no_error(annotation):
    DEFAULT_CODECS.check_decode(annotation)
    DEFAULT_CODECS.check_encode(annotation)
