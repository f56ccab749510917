"""What msgspec may read: each rule, with the value that it would read in another way."""

import abc
import enum
import typing
from collections import OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, MutableMapping, MutableSet, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field, make_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import attrs
import msgspec
import pytest

from rsocket_trio.codecs import CborCodec, JsonCodec
from rsocket_trio.codecs.conventions import Conventions
from rsocket_trio.codecs.models import Models
from rsocket_trio.codecs.same_to_msgspec import same_to_msgspec

from . import annotated
from .annotated import Level, Name, Point, Rights, Tree
from .test_unions import Lenient

AS_WRITTEN = Conventions()
AT_LEAST_1 = msgspec.Meta(ge=1)
T = TypeVar("T")


def is_same(annotation, conventions=AS_WRITTEN):
    return same_to_msgspec(annotation, conventions, decimals=True)


def run(*_, **__):
    """Code of the application, which msgspec would not call."""


def as_dataclass(name="number", body=None, more=(), **options):
    return make_dataclass("Made", [(name, int, field(**options)), *more], namespace=body)


def by_attrs(name="number", body=None, more=None, of_class=None, **options):
    fields = {name: attrs.field(type=int, **options), **(more or {})}
    return attrs.make_class("Made", fields, class_body=body, **(of_class or {}))


class Setting:
    """A descriptor."""

    __get__ = __set__ = run


@dataclass
class Line:
    sku: str
    quantity: int = 1
    kind: ClassVar[str] = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order(Generic[T]):
    lines: "list[Line]"
    note: str | None = None
    extra: T | None = None


@attrs.frozen
class Frozen:
    number: int


@attrs.define
class Defined:
    line: Line
    tags: dict[str, list[int]] = attrs.field(factory=dict)
    after: "Defined | None" = None


class Undecorated(Line):
    """It inherits the generated constructor and all its fields."""


class Unset(msgspec.Struct):
    number: int | msgspec.UnsetType = msgspec.UNSET


class Tagged(msgspec.Struct, tag="tagged", rename="camel", forbid_unknown_fields=True):
    of_x: int
    line: Line | None = None
    numbers: list[int] = []  # msgspec copies it


@dataclass
class Lacking:
    """What it has by its class has to be in its ``vars()``, at every place where it is."""

    line: Line | None = None
    by_name: dict[str, tuple[Line, ...]] = field(default_factory=dict)
    more: "Lacking | None" = None


class LackingWithin(TypedDict, total=False):
    pair: tuple[Line, int]
    line: Line


class Bounded(msgspec.Struct):
    number: Annotated[int, msgspec.Meta(ge=0)]


class Boxed(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    item: T
    after: "Boxed[T] | None" = None


SAME = [
    *(int, float, str, bool, None, bytes, date, datetime, time, timedelta, UUID, Decimal, Any),
    *(list, list[int], Sequence[int], Collection[str], tuple, tuple[int, ...], tuple[int, str]),
    *(set[str], MutableSet[str], frozenset[str], dict[str, Any], Mapping[str, list[int]]),
    *(MutableMapping[str, int], int | None, int | float | None, list[Line | None]),
    *(NewType("UserId", int), Annotated[int, "a note"], Literal["a", "b"], Literal[1, 2]),
    *(annotated.Colour, Level, Line, Order[int], Order[Line], Frozen, Defined, Undecorated),
    *(Point, Tree, annotated.Options, annotated.MoreOptions, annotated.Loose, annotated.Place),
    *(annotated.Pair[int], annotated.Box[int], annotated.Ping, annotated.Circle),
    *(annotated.Absent[int], Lacking, LackingWithin),
    *(as_dataclass(), by_attrs(), Unset, Tagged, Boxed[int], list[Boxed[str]]),
    *(Bounded, Annotated[list[int], msgspec.Meta(max_length=1)], Annotated[int, AT_LEAST_1] | None),
    Annotated[float, AT_LEAST_1, msgspec.Meta(lt=2.5)],
    NewType("Id", Annotated[float, AT_LEAST_1]),
    *(Annotated[str, msgspec.Meta(min_length=1, max_length=3, pattern="a")],),
    *(Annotated[bytes, msgspec.Meta(max_length=3)], Annotated[datetime, msgspec.Meta(tz=True)]),
    *(Annotated[dict[str, int], msgspec.Meta(min_length=2)],),
]


@pytest.mark.parametrize("annotation", SAME, ids=str)
def test_what_msgspec_reads(annotation):
    """Without these nothing would be read fast."""
    assert is_same(annotation)


class Meta(type):
    def __call__(cls, **given):
        return super().__call__(**given)


@dataclass
class OwnCall(metaclass=Meta):
    number: int


@dataclass
class Abstract(abc.ABC):
    number: int

    @abc.abstractmethod
    def run(self): ...


@dataclass
class Checked:
    number: int

    def __post_init__(self):
        assert self.number


@attrs.define(init=False)
class InitAlone:
    number: int

    def __init__(self, number: int) -> None:
        self.__attrs_init__(number)


@attrs.frozen
class Validated:
    number: int = attrs.field(validator=attrs.validators.gt(0))


@attrs.frozen
class Converted:
    number: int = attrs.field(converter=int)


@dataclass
class Base:
    number: int = 1


@dataclass(init=False)
class OtherDefault(Base):
    """The constructor is that of the base, with the default of the base."""

    number: int = 2


@dataclass(init=False)
class MoreFields(Base):
    other: int = 3


@attrs.define
@dataclass
class Both:
    number: int = 1


@dataclass
class Within:
    checked: list[Checked]


class OwnPair(annotated.Place):
    def __new__(cls, *given):
        return super().__new__(cls, *given)


class Even(enum.StrEnum):
    A = "a"

    @classmethod
    def _missing_(cls, value):
        return cls.A


class EnumOfMeta(enum.EnumMeta):
    def __call__(cls, *given):
        return super().__call__(*given)


class Called(enum.Enum, metaclass=EnumOfMeta):
    A = "a"


class Valued(enum.Enum):
    A = "a"

    @property
    def value(self):
        return "b"


class Half(enum.Enum):
    A = 0.5


class Checking(msgspec.Struct):
    """What it raises would be another error, and it would run twice."""

    number: int

    def __post_init__(self) -> None:
        self.number += 1


class InitPair(annotated.Place):
    __init__ = run


class Listed(msgspec.Struct, array_like=True):
    number: int


class Keyed(msgspec.Struct):
    """A peer could choose keys with equal hashes."""

    names: dict[int, str]


class Extra(TypedDict):
    checked: Checked


class Holds(NamedTuple):
    checked: Checked


DIFFERENT = [
    # Constructors that are not only the setting of fields.
    *[as_dataclass(body={name: run}) for name in ("__init__", "__new__", "__setattr__")],
    *[by_attrs(body={f"__attrs_{name}_init__": run}) for name in ("pre", "post")],
    make_dataclass("Made", [("number", int)], namespace={"number": Setting()}),
    *(OwnCall, Abstract, Checked, InitAlone, Validated, Converted),
    by_attrs(of_class={"unsafe_hash": True, "cache_hash": True}),
    by_attrs(more={"other": attrs.field(default=attrs.Factory(id, takes_self=True), type=int)}),
    # Fields that no constructor takes, or under another name.
    *(by_attrs(alias="count"), by_attrs("_number"), as_dataclass("_number")),
    by_attrs(more={"is_admin": attrs.field(default=False, init=False, type=bool)}),
    as_dataclass(more=[("is_admin", bool, field(default=False, init=False))]),
    as_dataclass(more=[("given", InitVar[int])]),
    # Constructors of a base.
    *(OtherDefault, MoreFields, Both),
    # Any of them as a part.
    *(Within, list[Checked], dict[str, Validated], Checked | None, tuple[int, Checked]),
    *(tuple[Checked, ...], Sequence[Validated], Mapping[str, list[Converted]]),
    *(Extra, Holds, Order[Checked], OwnPair, InitPair),
    # Enums with code of their own, or values that are no text and no numbers.
    *(
        Even,
        Called,
        Valued,
        Half,
        Rights,
        Lenient,
        Literal[True],
        Literal["a", 1],
        Literal["a", 2] | None,
    ),
    *(Literal[Level.LOW],),
    # Hashes that a peer can choose.
    *(set[int], set, frozenset[UUID], set[Any], dict[int, str], dict, dict[Any, int], Mapping),
    *(dict[Decimal, int], dict[Level, int], set[str | None], set[Name]),
    # Another type than what the readers make.
    *(deque[int], OrderedDict[str, int], defaultdict[str, int], AbstractSet[str], Iterable[int]),
    *(Name, Path, object, complex),
    msgspec.defstruct("Made", [("number", int)], namespace={"__setattr__": run}),
    *(Checking, Listed, Keyed),
    # Unions with a choice.
    *(annotated.Dog | annotated.Cat, date | datetime, str | list[str], int | list[int] | None),
    *(Name | Literal["a"], bytes | UUID),
    # Bounds that are tested in another way: large ints as floats, multiples of more than 64 bits.
    *(Annotated[float, msgspec.Meta(le=2**63 - 1)], Annotated[int, msgspec.Meta(multiple_of=3)]),
    *(
        Annotated[int, msgspec.Meta(ge=0)] | str,
        dict[Annotated[str, msgspec.Meta(max_length=1)], int],
    ),
    # Names that are resolved in another way, or not at all.
    *(annotated.Day, annotated.LooseAndMore, annotated.Node, "int", list["Line"]),
]


@pytest.mark.parametrize("annotation", DIFFERENT, ids=str)
def test_what_msgspec_does_not_read(annotation):
    """It would bypass a constructor, choose in another way, or read what the readers refuse."""
    try:
        assert not is_same(annotation)
    except TypeError:  # the readers have refused it before
        with pytest.raises(TypeError):
            JsonCodec().check_decode(annotation)


def test_a_class_that_converts_itself_is_not_read_by_its_fields():
    """Also as a part; with other codecs, the same class is read by msgspec."""
    conventions = Conventions(models=Models({Line: (lambda cls, plain: cls(plain), str)}))
    for annotation in (Line, list[Line], Undecorated, Order[Line]):
        assert is_same(annotation)
        assert not is_same(annotation, conventions)


Small = Annotated[int, msgspec.Meta(ge=0)]


@dataclass
class Crashing:
    number: tuple[int, int] | Small = field(default=0, init=False)


class Chained(msgspec.Struct):
    more: "Chained | None" = None
    crashing: "list[Crashing] | None" = None


@pytest.mark.parametrize(
    "annotation",
    [
        tuple[int, int] | Small,
        dict[str, list[tuple[()] | Annotated[str, msgspec.Meta(max_length=3)]]],
        dict[str, int] | Small | Annotated[str, msgspec.Meta(pattern="a")],
        NewType("Both", tuple[int, str] | Small | None),
        Crashing,
        Chained,
    ],
)
@pytest.mark.parametrize("ask", ["json", "cbor"])
def test_msgspec_is_not_asked_about_bounds_in_unions(annotation, ask, monkeypatch):
    """msgspec 0.22 writes beyond its memory when it only looks at such a union."""
    monkeypatch.setattr(msgspec.inspect, "type_info", lambda _: pytest.fail("asked"))
    codec = {"json": JsonCodec, "cbor": CborCodec}[ask]()
    codec.decode({"json": b"null", "cbor": b"\xf6"}[ask], annotation | None)
    assert not is_same(annotation)


def test_decimals_are_the_choice_of_the_format():
    """CBOR has NaN, so what has a Decimal in it is read by the readers there."""
    for annotation in (Decimal, list[Decimal], Decimal | None, tuple[int, Decimal]):
        assert same_to_msgspec(annotation, AS_WRITTEN, decimals=True)
        assert not same_to_msgspec(annotation, AS_WRITTEN, decimals=False)


def test_the_constructor_of_a_patched_class_is_called():
    """A library may put its own in the place of the generated one, as pydantic does."""

    @dataclass
    class Patched:
        number: int

    assert is_same(Patched)
    generated = Patched.__init__

    def checking(self, number):
        generated(self, -number)

    Patched.__init__ = checking
    assert not is_same(Patched)
    assert JsonCodec().decode(b'{"number":1}', Patched).number == -1


MADE_OF_TEXT = """
@dataclass(init=False)
class Made:
    number: int

    def __init__(self, number):
        self.number = -number


class Numbers(NamedTuple):
    number: int


class Negative(Numbers):
    def __new__(cls, number):
        return super().__new__(cls, -number)
"""


def test_constructors_in_programs_that_are_text_are_called():
    """`exec` and ``python -c`` give code the name of a file that dataclasses give theirs, too."""
    names = {"dataclass": dataclass, "NamedTuple": NamedTuple, "__name__": __name__}
    exec(MADE_OF_TEXT, names)
    assert JsonCodec().decode(b'{"number":1}', names["Made"]).number == -1
    assert JsonCodec().decode(b"[1]", names["Negative"]).number == -1
    assert is_same(names["Numbers"])


class Sentinel:
    """A default that no data are read as."""


def test_defaults_of_other_types_are_left_as_they_are():
    """msgspec sets them as they are, but they are not made by it."""
    sentinel = Sentinel()

    @dataclass
    class Loose:
        line: Line = sentinel
        lines: list[Line] = field(default_factory=int)
        pair: tuple[Line, Line] = ()
        by_name: dict[str, Line] = field(default_factory=int)

    assert is_same(Loose)
    for codec, data in ((JsonCodec(), b"{}"), (CborCodec(), b"\xa0")):
        assert vars(codec.decode(data, Loose)) == vars(Loose())
    assert vars(sentinel) == {}


def test_the_same_name_may_be_another_type():
    """msgspec resolves annotations by itself: what it has found is compared, not assumed."""

    @dataclass
    class Local:
        line: "Line"

    assert is_same(Local)
    Local.__module__ = typing.__name__
    assert not is_same(Local)
