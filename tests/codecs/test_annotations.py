"""Kinds of classes and annotations: each is written and read again, and never coerced."""

import typing
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from fractions import Fraction
from ipaddress import IPv4Address
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NewType,
    NotRequired,
    TypedDict,
    TypeVar,
)
from uuid import UUID

import attrs
import pytest
import typing_extensions
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.codecs import DEFAULT_CODECS, CodecError
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.protocol.interaction import Interaction
from rsocket_trio.routing.signature import read_signature

from .annotated import (
    BOTH,
    Animal,
    Box,
    BoxOfColours,
    Cage,
    Cat,
    Cell,
    Circle,
    Colour,
    Day,
    Dog,
    Labelled,
    Level,
    Loose,
    LooseAndMore,
    Measured,
    MoreOptions,
    Name,
    Node,
    Number,
    Options,
    Pair,
    Ping,
    Place,
    Point,
    Pong,
    Rights,
    Shade,
    Square,
    Tree,
)

T = TypeVar("T")
UserId = NewType("UserId", int)
Boxes = NewType("Boxes", Box[UserId])


class Word(StrEnum):
    YES = "yes"


class Corner(Enum):
    TOP = (0, 1)


class Lenient(Enum):
    ON = "on"

    @classmethod
    def _missing_(cls, value):
        return cls.ON if value is True else None


class Eager(TypedDict):
    """A class of a module whose annotations are not text."""

    deep: bool
    wide: NotRequired[int]


class Extended(typing_extensions.TypedDict):
    deep: bool
    wide: typing_extensions.NotRequired[int]


class Fixed(typing_extensions.TypedDict, total=False):
    a: typing.Required[typing_extensions.ReadOnly[int]]
    b: typing_extensions.ReadOnly[list["Fixed"]]


Json = typing.Union[dict[str, "Json"], list["Json"], str, int, None]  # noqa: UP007 - before 3.10
Nested = dict[str, "Nested"]
Paths = typing_extensions.TypeAliasType("Paths", dict[str, "Paths"] | list["Paths"] | int)


def as_annotated(annotation):
    """Return an annotation as it is read from a function of this module."""

    async def handler(value: annotation) -> None: ...

    [parameter] = read_signature(handler, Interaction.REQUEST_RESPONSE).parameters
    return parameter.annotation


Json, Nested, TextAlone = as_annotated(Json), as_annotated(Nested), as_annotated("Json")
ListOf = typing_extensions.TypeAliasType("ListOf", list[T], type_params=(T,))

NODE = Node(1, Node(2), Node(3, Node(4)), (Node(5),), {"a": [Node(6)]})

VALUES = [
    (1, int),
    (1.5, float),
    (True, bool),
    ("ü", str),
    (None, None),
    (None, int | None),
    (3, int | None),
    ([1, "a", None], list[int | str | None]),
    ([1, 2], list[int]),
    ((1, 2), tuple[int, ...]),
    ((1, 2), tuple),
    ({1, 2}, set[int]),
    ({"a": 1}, dict),
    ({7: "x"}, dict[int, str]),
    ({"a": 1}, object),
    ({"a": 1}, Any),
    ({"a": 1}, dict[str, object]),
    ("a", Literal["a", "b"]),
    ([Point(1)], list[Point]),
    (Tree("a", [Tree("b"), Tree("c", [Tree("d")])]), Tree),
    (datetime(2024, 5, 6, 7, 8, tzinfo=UTC), datetime),
    (Decimal("1.50"), Decimal),
    ({"deep": True}, Options),
    ({"deep": True, "wide": 1}, Options),
    ({"deep": True}, Eager),
    ({"deep": True, "wide": 1}, Eager),
    ({"deep": True}, Extended),
    ({"deep": True, "name": "a"}, MoreOptions),
    ({"deep": True, "name": "a", "wide": 3, "high": [Colour.RED]}, MoreOptions),
    ({"key": 1}, Loose),
    ({"key": 1, "value": 2}, Loose),
    ({"a": 1, "b": [{"a": 2}]}, Fixed),
    ({"key": 1, "must": "a"}, LooseAndMore),
    ({"key": 1, "must": "a", "value": 2, "may": Colour.GREEN}, LooseAndMore),
    ({"content": Colour.RED}, Cell[Colour]),
    ({"content": [1], "note": []}, Cell[list[int]]),
    (Place(1), Place),
    (Place(1, 2.0, date(2024, 5, 6)), Place),
    ([Place(1)], list[Place]),
    (Pair(Colour.RED, Colour.GREEN), Pair[Colour]),
    (Box(1, [2]), Box[int]),
    (Box(Colour.RED), Box[Colour]),
    (Box(Box(1.5)), Box[Box[float]]),
    (Box({"any": [1]}), Box),
    (BoxOfColours(Colour.RED, [Colour.GREEN], 2), BoxOfColours),
    (Labelled(Colour.RED, [Colour.RED], 7), Labelled[Colour, int]),
    (Labelled(1, [], Colour.RED), Labelled[int, Colour]),
    (Cage("bird", since=3, guard="me"), Cage[str]),
    (Shade(colour=Colour.RED), Shade),
    (NODE, Node),
    ([NODE], list[Node]),
    (Ping(Pong(Ping())), Ping),
    (Day(date(2024, 5, 6), int=4), Day),
    (Circle("circle", 1.5), Circle | Square),
    (Square("box", 1.5), Circle | Square),
    ([Dog(1, "a"), Cat(2), Animal("b")], list[Dog | Cat | Animal]),
    (Dog(1), Dog | int | None),
    (5, Dog | int | None),
    (None, Dog | int | None),
    ("a", Dog | str | list[Dog]),
    ([Dog(1)], Dog | str | list[Dog]),
    ({"deep": True}, Options | int),
    (UserId(3), UserId),
    (Box(3), Boxes),
    (Name("a"), Name),
    (Level.HIGH, Level),
    (Rights.READ | Rights.WRITE, Rights),
    (Word.YES, Word),
    (Corner.TOP, Corner),
    (Lenient.ON, Lenient),
    (Level.LOW, Literal[Level.LOW, "x"]),
    ("x", Literal[Level.LOW, "x"]),
    (True, Literal[True]),
    (None, Literal["a", None]),  # noqa: PYI061 - a user may write it
    (1, Annotated[int, "one", {}]),
    ([1], Annotated[list[Annotated[int, "one"]], []]),
    (1, Final[int]),
    (1, Number),
    (1.5, Number),
    ({"a": [{"b": None}, 1]}, Json),
    ({"a": [{"b": None}, 1]}, TextAlone),
    ({"a": {"b": {}}}, Nested),
    ({"a": [{"b": 1}]}, Paths),
    ([Colour.RED], ListOf[Colour]),
    (deque([1, 2]), deque[int]),
    (OrderedDict(a=1), OrderedDict[str, int]),
    (defaultdict(list, a=[1]), defaultdict[str, list[int]]),
    (Counter("aab"), Counter[str]),
    ({Colour.RED: 1}, dict[Colour, int]),
    ({UUID(int=1): 1}, dict[UUID, int]),
    ({date(2024, 5, 6): 1}, dict[date, int]),
    ({Word.YES: 1}, dict[Word, int]),
    ({Level.LOW: 1}, dict[Level, int]),
    ({1: 2}, dict[Literal[1, 2], int]),
    ({7: {8: 9}}, dict[int, dict[UserId, int]]),
    ({"a": {1, 2}}, dict[str, set[int]]),
    (frozenset({Colour.RED}), frozenset[Colour]),
    ({Dog(1)}, set[Dog]),
    ({(1, "a")}, set[tuple[int, str]]),
    ((), tuple[()]),
    ((1, "a", [2]), tuple[int, str, list[int]]),
    ((1, 2), typing.Tuple[int, ...]),  # noqa: UP006 - a user may write it
    ([1], typing.List[int]),  # noqa: UP006
    (date(2024, 5, 6), datetime | date),
    (datetime(2024, 5, 6, tzinfo=UTC), date | datetime),
    (Path("a/b"), Path),
    ([b"a", None], list[bytes | None]),
    ({"a": datetime(2024, 5, 6, tzinfo=UTC)}, dict[str, datetime]),
]


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize(("value", "annotation"), VALUES, ids=lambda v: str(v)[:50])
def test_values_survive_writing_and_reading(value, annotation, mime_type):
    """A written value is read as the same value and type; its type is known to be convertible."""
    DEFAULT_CODECS.check_decode(annotation)
    DEFAULT_CODECS.check_encode(annotation)
    data = DEFAULT_CODECS.encode(value, annotation, mime_type)
    again = DEFAULT_CODECS.decode(data, annotation, mime_type)
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        (Sequence, list),
        (MutableSequence, list),
        (Iterable, list),
        (Collection, list),
        (AbstractSet, frozenset),
    ],
)
def test_abstract_kinds_of_items(kind, made):
    """Every iterable is written, and read as the plainest type of its kind."""
    for values in ([Level.LOW], (Level.LOW,), deque([Level.LOW]), {Level.LOW: 0}.keys()):
        for mime_type in BOTH:
            data = DEFAULT_CODECS.encode(values, kind[Level], mime_type)
            again = DEFAULT_CODECS.decode(data, kind[Level], mime_type)
            assert (again, type(again)) == (made([Level.LOW]), made)
    assert DEFAULT_CODECS.encode((n for n in (1, 2)), Iterable[int], MIME.JSON) == b"[1,2]"


@pytest.mark.parametrize("kind", [Mapping, MutableMapping])
def test_abstract_kinds_of_mappings(kind):
    """They are read as dicts."""
    data = DEFAULT_CODECS.encode(OrderedDict(a=Level.LOW), kind[str, Level], MIME.JSON)
    assert DEFAULT_CODECS.decode(data, kind[str, Level], MIME.JSON) == {"a": Level.LOW}


@pytest.mark.parametrize("mime_type", BOTH)
def test_unknown_keys_are_dropped(mime_type):
    """Keys that a class or a TypedDict does not have are not in the value that is read."""
    data = DEFAULT_CODECS.encode({"deep": True, "new": {"a": 1}}, dict, mime_type)
    assert DEFAULT_CODECS.decode(data, Options, mime_type) == {"deep": True}
    data = DEFAULT_CODECS.encode({"bark": 1, "counted": 5}, dict, mime_type)
    assert DEFAULT_CODECS.decode(data, Dog, mime_type) == Dog(1)


def test_a_class_within_a_function():
    """Its names cannot be found at run time, except its own."""

    @dataclass
    class Inner:
        more: "list[Inner]"

    data = DEFAULT_CODECS.encode(Inner([Inner([])]), Inner, MIME.JSON)
    assert data == b'{"more":[{"more":[]}]}'
    assert DEFAULT_CODECS.decode(data, Inner, MIME.JSON) == Inner([Inner([])])

    @dataclass
    class Outer:
        inner: "Inner"

    with pytest.raises(TypeError, match=r"Outer is annotated with 'Inner', which cannot be res"):
        DEFAULT_CODECS.check_decode(Outer)


Unit = str


@dataclass
class Weighed(Measured):
    other: "Unit" = ""


def test_names_belong_to_their_module():
    """The same name may stand for two types, in a class and in its base."""
    value = DEFAULT_CODECS.decode(b'{"unit":1,"other":"kg"}', Weighed, MIME.JSON)
    assert value == Weighed(1, "kg")
    for wrong in (b'{"unit":"1"}', b'{"unit":1,"other":2}'):
        with pytest.raises(CodecError, match="expected"):
            DEFAULT_CODECS.decode(wrong, Weighed, MIME.JSON)


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
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
        ("ab", tuple[str, str]),
        (["a"], tuple[str, str]),
        ("ab", set[str]),
        ([["a", 1]], dict[str, int]),
        ({" 7": "x"}, dict[int, str]),
        ({}, Point),
        ({"children": [[]]}, Tree),
        ("green", Literal["a", "b"]),
        ("?", list[bytes]),
        (["?"], list[bytes]),
        (1.5, int | str),
        ({"a": 1, "b": [{}]}, Fixed),
        ({}, Options),
        ({"deep": True, "wide": "1"}, Options),
        ({"deep": True}, MoreOptions),
        ({"value": 1}, Loose),
        ({"key": 1}, LooseAndMore),
        ({"x": 1}, Place),
        ([], Place),
        ([1, 2.0, None, 3], Place),
        (["red", 1], Pair[Colour]),
        ({"item": 1, "more": ["2"]}, Box[int]),
        ({"item": "blue"}, BoxOfColours),
        ({"item": "red", "label": "7"}, Labelled[Colour, int]),
        ({"inmate": "a", "since": 1}, Cage[str]),
        ({"value": 1, "right": {"value": "2"}}, Node),
        ({"kind": "circle", "side": 1.0}, Circle | Square),
        ({"kind": "line"}, Circle | Square),
        ({"kind": []}, Circle | Square),
        ({"radius": 1.0}, Circle | Square),
        ({"moo": 1}, Dog | Cat),
        ({"bark": "1"}, Dog | Cat | Animal),
        ([1], Dog | Cat),
        (2, Level),
        (True, Level),
        (1.0, Level),
        (4, Rights),
        ("off", Lenient),
        ([0, 2], Corner),
        (1, Literal[True]),
        (True, Literal[1]),
        (1.0, Literal[1]),
        ([], Literal[1]),
        ("x", Number),
        ({"a": [{"b": 1.5}]}, Json),
        ("ab", deque[str]),
        ({"a": "1"}, Counter[str]),
        ([[1, 2]], set[tuple[int, str]]),
        ([[]], set),
        ([1, 2], tuple[()]),
        (5, Path),
        ("2024-05-06T00:00:00", date),
    ],
)
@pytest.mark.parametrize("mime_type", BOTH)
def test_values_are_not_coerced(value, annotation, mime_type):
    """Checks are strict, for every kind of class."""
    data = DEFAULT_CODECS.encode(value, object, mime_type)
    with pytest.raises(CodecError, match=r"cannot be read as .*: .*(expected|more than)"):
        DEFAULT_CODECS.decode(data, annotation, mime_type)


def test_an_enum_may_accept_other_values():
    """Its `_missing_` is called."""
    assert DEFAULT_CODECS.decode(b"true", Lenient, MIME.JSON) is Lenient.ON


def test_an_int_is_a_float():
    """1 is valid where 1.0 is expected: JSON writers do not tell them apart."""
    value = DEFAULT_CODECS.decode(b"1", float, MIME.JSON)
    assert (value, type(value)) == (1.0, float)


@pytest.mark.parametrize(
    "value",
    [
        *(2**64, -(2**64) - 1, 2**8192 - 1, -(2**8192), Decimal(2**90), Decimal("1E+5")),
        *(Fraction(-1, 3), IPv4Address("10.0.0.1"), 1e308, 5e-324),
    ],
)
def test_numbers_and_types_that_only_cbor_has(value):
    data = DEFAULT_CODECS.encode(value, type(value), MIME.CBOR)
    assert DEFAULT_CODECS.decode(data, type(value), MIME.CBOR) == value
    if isinstance(value, float):
        data = DEFAULT_CODECS.encode(value, float, MIME.JSON)
        assert DEFAULT_CODECS.decode(data, float, MIME.JSON) == value


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
