"""Classes that several files of tests use; their annotations are text, by the import below."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import date
from typing import (
    Annotated,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NotRequired,
    Protocol,
    Required,
    Self,
    TypedDict,
    TypeVar,
)

import attrs

from rsocket_trio.metadata.mime_types import MIME

BOTH = [MIME.CBOR, MIME.JSON]

T = TypeVar("T")
K = TypeVar("K")
Number = TypeVar("Number", int, float)


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Name(str):
    __slots__ = ()


class Options(TypedDict):
    deep: bool
    wide: NotRequired[int]


class MoreOptions(Options):
    high: NotRequired[list[Colour]]
    name: str


class Loose(TypedDict, total=False):
    key: Required[Annotated[int, "a key"]]
    value: int


class LooseAndMore(Loose):
    must: str
    may: Annotated[NotRequired[Colour], "a colour"]


class Cell(TypedDict, Generic[T]):
    content: T
    note: NotRequired[T]


class Place(NamedTuple):
    x: int
    y: float = 0.5
    when: date | None = None


class Pair(NamedTuple, Generic[T]):
    one: T
    other: T


@dataclass
class Box(Generic[T]):
    item: T
    more: list[T] = field(default_factory=list)


@dataclass
class Absent(Generic[T]):
    """Defaults that are not of the types of their fields."""

    box: Box[T] = None
    circles: list[Circle] = None


@dataclass
class Labelled(Box[K], Generic[K, T]):
    """A class whose T is another than the T of its base."""

    label: T | None = None


@dataclass
class BoxOfColours(Box[Colour]):
    size: int = 1


@attrs.define
class Cage(Generic[T]):
    inmate: T
    _since: int
    keeper: str = attrs.field(alias="guard", default="nobody")
    counted: int = attrs.field(init=False, default=0)


@attrs.define(kw_only=True)
class Shade:
    colour: Colour
    name: Final[str] = "plain"
    kinds: ClassVar[int] = 2


@dataclass(frozen=True)
class Node:
    value: int
    left: Node | None = None
    right: Self | None = None
    children: tuple[Node, ...] = ()
    by_name: Mapping[str, list[Self]] = field(default_factory=dict)


@dataclass
class Point:
    x: int
    y: float = 0.0


@attrs.frozen
class Tree:
    name: str = ""
    children: list[Tree] = attrs.field(factory=list)


@dataclass
class Ping:
    pong: Pong | None = None


@dataclass
class Pong:
    ping: Ping | None = None


@dataclass
class Day:
    """A class with a field that has the name of its type."""

    date: date
    _: KW_ONLY
    int: int = 3


Unit = int


@dataclass
class Measured:
    unit: Unit


@dataclass
class Circle:
    kind: Literal["circle"]
    radius: float


@dataclass
class Square:
    kind: Literal["square", "box"]
    side: float


@attrs.frozen
class Dog:
    bark: int
    name: str = ""


@attrs.frozen
class Cat:
    meow: int
    name: str = ""


@attrs.frozen
class Animal:
    name: str = ""


class Plain:
    def __init__(self, x: int) -> None:
        self.x = x


@dataclass
class Holder:
    plain: list[Plain]


@dataclass(init=False)
class Seeded:
    value: int

    def __init__(self, value, seed):
        self.value = value * seed


class Speaks(Protocol):
    def speak(self) -> str: ...
