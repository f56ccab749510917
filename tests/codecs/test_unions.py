"""Unions whose members look alike: the right member, or an error, in any order of the members."""

from __future__ import annotations

import enum
import itertools
import typing
from collections import UserList, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path, PurePath
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar, Union
from uuid import UUID

import attrs
import pytest

from rsocket_trio.codecs import CborCodec, CodecError, Codecs, JsonCodec
from rsocket_trio.codecs.mismatch import Mismatch

from .annotated import BOTH, Level, Name, Rights
from .test_written import Item, Options, Secret

ITEM = {"name": "x", "quantity": None, "kind": "a"}
T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Mood(enum.StrEnum):
    BLUE = "blue"
    GLAD = "glad"


class Lenient(enum.Enum):
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> Lenient:
        return cls.OTHER


@attrs.frozen
class One:
    x: int


@dataclass(frozen=True)
class Same:
    x: int


@dataclass(frozen=True)
class More:
    x: int
    z: str


@dataclass(frozen=True)
class Other:
    y: int


@dataclass(frozen=True)
class Red:
    tag: Literal[Colour.RED]
    x: int


@dataclass(frozen=True)
class Blue:
    tag: Literal[Colour.BLUE]
    x: int


class OneDict(TypedDict):
    x: int


class MoreDict(TypedDict):
    x: int
    z: str


class LooseDict(TypedDict, total=False):
    x: int
    y: int


@attrs.frozen
class Box(Generic[T]):
    content: T


class Pair(NamedTuple):
    x: int
    y: int


class Twin(NamedTuple):
    a: str
    b: int


SAMPLES: dict[Any, list[Any]] = {
    str: ["a", "red", "2024-05-06", "YWJj", "1"],
    int: [1, 13],
    float: [1.0, 1.5],
    bool: [True],
    bytes: [b"abc", b"\x69\xb7\x1d" * 8],
    Colour: [Colour.RED, Colour.BLUE],
    Mood: [Mood.GLAD, Mood.BLUE],
    Level: [Level.LOW],
    Rights: [Rights.READ, Rights.READ | Rights.WRITE],
    Lenient: [Lenient.OTHER],
    datetime: [datetime(2024, 5, 6, tzinfo=UTC)],
    date: [date(2024, 5, 6)],
    Decimal: [Decimal("1.5"), Decimal(20240506)],
    UUID: [UUID(int=5)],
    Path: [Path("a")],
    PurePath: [PurePath("a")],
    IPv4Address: [IPv4Address("1.2.3.4")],
    Name: [Name("a")],
    Literal["red"]: ["red"],
    Literal["a", 1]: ["a", 1],
    Literal[True]: [True],
    Literal[Colour.RED]: [Colour.RED],
    One: [One(1)],
    Same: [Same(1)],
    More: [More(1, "z")],
    Other: [Other(1)],
    Pair: [Pair(1, 2)],
    Twin: [Twin("a", 2)],
    list[int]: [[1]],
    list[str]: [["a"], []],
    tuple[int, int]: [(1, 2)],
    set[int]: [{1}],
    dict[str, int]: [{"x": 1}],
}


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def listed(annotation: Any, value: Any) -> bool:
    """Whether an enum or a Literal has a value that is written like this one."""
    options: tuple[Any, ...] = typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        options = tuple(annotation)
    plain = [each.value if isinstance(each, enum.Enum) else each for each in options]
    return any(same(str(value) if isinstance(value, PurePath | Name) else value, p) for p in plain)


@pytest.mark.parametrize("codec", [JsonCodec, CborCodec])
def test_each_value_of_each_union_of_two(codec: Any) -> None:
    """It survives writing and reading, or the union is refused, in both orders alike."""
    checked = 0
    for one, other in itertools.combinations(SAMPLES, 2):
        outcomes = []
        for annotation in (Union[one, other], Union[other, one]):  # noqa: UP007 - of variables
            fresh = codec()
            try:
                fresh.check_decode(annotation)
            except TypeError:
                outcomes.append("refused")
                continue
            read = []
            for member, foreign in ((one, other), (other, one)):
                for value in SAMPLES[member]:
                    try:
                        fresh.encode(value, member)
                    except TypeError:
                        continue  # this format has no such values
                    try:
                        data = fresh.encode(value, annotation)
                    except Mismatch:  # it would be read as another value
                        assert listed(foreign, value)
                        continue
                    made = fresh.decode(data, annotation)
                    assert same(made, value) or made == value, (annotation, value, made)
                    read.append((type(made), made))
                    checked += 1
            outcomes.append(read)
        assert sorted(map(repr, outcomes[0])) == sorted(map(repr, outcomes[1]))
    assert checked > 1000


@pytest.mark.parametrize(
    "annotation",
    [
        str | bytes,
        str | datetime,
        bytes | UUID,
        date | Decimal,
        Path | PurePath,
        str | Name,
        str | Lenient,
        int | Rights,
    ],
)
def test_types_of_the_same_text(annotation: Any) -> None:
    """They are refused in JSON, so nothing is read as another type in silence."""
    with pytest.raises(TypeError, match="cannot be told apart"):
        JsonCodec().check_decode(annotation)


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [
        (One | Same, "give each class a required field of its own, or a Literal"),
        (OneDict | LooseDict, "give each class a required field of its own, or a Literal"),
        (list[int] | list[str], "put the union inside"),
        (Colour | Mood, "Colour and Mood cannot be told apart"),
        (Literal["red"] | Colour, "cannot be told apart"),
    ],
)
@pytest.mark.parametrize("codec", [JsonCodec, CborCodec])
def test_the_error_says_what_to_do(codec: Any, annotation: Any, hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        codec().check_decode(annotation)


@pytest.mark.parametrize("mime_type", BOTH)
def test_literals_of_enum_members_are_tags(mime_type: str) -> None:
    for value in (Red(Colour.RED, 1), Blue(Colour.BLUE, 2)):
        data = Codecs().encode(value, Red | Blue, mime_type)
        assert Codecs().decode(data, Red | Blue, mime_type) == value


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize("annotation", [One | Other, Other | One])
def test_a_map_with_keys_of_several_classes(mime_type: str, annotation: Any) -> None:
    data = Codecs().encode({"x": 1, "y": 2}, Any, mime_type)
    with pytest.raises(CodecError, match="got a map with keys of several of them"):
        Codecs().decode(data, annotation, mime_type)


def test_a_lenient_enum_may_be_optional() -> None:
    """It takes every value, but not those of another member."""
    codec = JsonCodec()
    assert codec.decode(b"null", Lenient | None) is None
    assert codec.decode(b"7", Lenient | None) is Lenient.OTHER
    assert codec.decode(b"7", Lenient | int) == 7


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize(
    ("annotation", "value", "plain"),
    [
        (OneDict | MoreDict, {"x": 1, "z": "z"}, {"x": 1, "z": "z"}),
        (MoreDict | OneDict, {"x": 1, "password": "p"}, {"x": 1}),
        (OneDict | dict[str, int], {"x": 1}, {"x": 1}),
        (list[int] | list[str], ["a"], ["a"]),
        (list[int] | list[str], [], []),
        (tuple[int, int] | list[str], ["a"], ["a"]),
        (tuple[int, int] | list[str], (1, 2), [1, 2]),
        (tuple[int, int] | str, deque([1, 2]), None),
        (tuple[int, int] | str, [1, 2], [1, 2]),
        (Pair | Twin, Twin("a", 1), ["a", 1]),
        (Box[int] | Box[str], Box("a"), {"content": "a"}),
        (One | Same, Same(1), {"x": 1}),
        (int | float, 1, 1),
        (int | bool, True, True),
        (Item | Level, Secret("x"), ITEM),
        (Item | Box[int], Secret("x"), ITEM),
        (Item | Secret, Secret("x"), attrs.asdict(Secret("x"))),
        (list[Item | str], [Secret("x")], [ITEM]),
        (Options | Item, {"depth": 1, "password": "hunter2"}, {"depth": 1}),
        (Pair | tuple[int, int], Pair(1, 2), [1, 2]),
        (Literal["a"] | Name, "b", "b"),
        (Level | str, Level.LOW, 1),
        (list[int] | dict[str, int], UserList([1]), [1]),
    ],
)
def test_a_value_of_several_members_is_written(
    annotation: Any, value: Any, plain: Any, mime_type: str
) -> None:
    """By the members that it fits, as outside a union; None stands for an error.

    A subclass may have fields that the peer must not see.
    """
    if plain is None:
        with pytest.raises(CodecError):
            Codecs().encode(value, annotation, mime_type)
        return
    data = Codecs().encode(value, annotation, mime_type)
    assert Codecs().decode(data, Any, mime_type) == plain


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize(
    ("annotation", "value", "reason"),
    [
        (OneDict | MoreDict, {"x": "secret"}, "x: expected int, got str"),
        (OneDict | dict[str, int], {"x": 1, "y": 2}, "several of them write differently"),
        (OneDict | LooseDict, {"x": 1, "y": 2}, "several of them write differently"),
        (list[int] | list[str], [1, "a"], "got another list"),
        (set[int] | list[str], {"a"}, "expected int, got str"),
        (Pair | Twin, Twin(1, 2), "expected str, got int"),
        (Box[int] | Box[str], Box(1.5), "got another Box"),
        (Literal["a"] | Literal["b"], "c", "got another str"),  # noqa: PYI030 - a user may write it
        (int | float, True, "got bool"),
        (tuple[int, int] | dict[str, int], b"ab", "got bytes"),
        (list[int] | dict[str, int], ["x"], r": \[0\]: expected int, got str$"),
        (list[int] | dict[str, int], {"a": "x"}, r": \[value 0\]: expected int, got str$"),
        (Box[int] | Item, Box("x"), ": content: expected int, got str$"),
        (Options | Item, {"depth": "x"}, ": depth: expected int, got str$"),
        (Literal["a"] | int, "b", r": expected Literal\['a'\], got another str$"),
    ],
)
def test_a_value_of_no_member_is_not_written(
    annotation: Any, value: Any, reason: str, mime_type: str
) -> None:
    """Nor one that the members write differently."""
    with pytest.raises(CodecError, match=reason):
        Codecs().encode(value, annotation, mime_type)
