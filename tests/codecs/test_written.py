"""A value is written only if it is what its annotation says, in every format and at every depth."""

import enum
from collections import UserList, deque
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple, Protocol, TypedDict, TypeVar

import attrs
import pytest

from rsocket_trio.codecs import DEFAULT_CODECS, CborCodec, CodecError, JsonCodec
from rsocket_trio.metadata.mime_types import MIME

from .annotated import BOTH, Level, Name

T = TypeVar("T")
NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)


@attrs.frozen
class Item:
    name: str
    quantity: int | None = None
    kind: Literal["a", Level.HIGH] = "a"


class Options(TypedDict, total=False):
    depth: int


class Named(TypedDict):
    name: str


class Pair(NamedTuple):
    left: int
    right: str


class Sized(Protocol):
    size: int


async def lookup() -> int:
    return 1


async def numbers():
    yield 1


REFUSED = [
    ("x", int, "expected int, got str"),
    (True, int, "expected int, got bool"),
    (1.5, int, "expected int, got float"),
    (True, float, "expected float, got bool"),
    (1, bool, "expected bool, got int"),
    (1, str, "expected str, got int"),
    (b"x", str, "expected str, got bytes"),
    (1, None, "expected None, got int"),
    (NOON, Decimal, "expected Decimal, got datetime"),
    (date(2024, 5, 6), datetime, "expected datetime, got date"),
    ([1, "x"], list[int], r"\[1\]: expected int, got str"),
    (["x"] * 3, set[int], r"\[0\]: expected int, got str"),
    ((1, 2), Pair, r"right: expected str, got int"),
    ((1, "x"), tuple[int, int], r"\[1\]: expected int, got str"),
    ({"a": "b"}, dict[str, int], r"\[value 0\]: expected int, got str"),
    ({1: 1}, dict[str, int], r"\[key 0\]: expected str, got int"),
    (Item(3), Item, r"name: expected str, got int"),
    (Item("x", "3"), Item, r"quantity: expected int, got str"),
    (Item("x", 1, "b"), Item, r"kind: expected .*, got another str"),
    ([Item("x"), Item(None)], list[Item], r"\[1\]\.name: expected str, got None"),
    ([Item(Name("x")), 3], list[Item], r"\[1\]: expected Item, got int"),
    ([Item("x"), 3], list[Item | Pair], r"\[1\]: expected .*, got int"),
    ({"depth": "1"}, Options, r"depth: expected int, got str"),
    (1.5, int | str, "expected .*, got float"),
    (True, int | str, "expected .*, got bool"),
    ("x", list[int] | int, "expected .*, got str"),
    (b"x", list[int] | int | None, "expected .*, got bytes"),
    ("b", Literal["a", 1], "expected .*, got another str"),
    (True, Literal["a", 1], "expected .*, got another bool"),
    ([], Literal["a"], "expected .*, got another list"),
    (3, Level, "expected Level, got int"),
    ({"x": 1}, Item, "expected Item, got dict"),
    ({}, Named, "name: expected str, got nothing"),
    ((1,), tuple[int, str], r"expected tuple\[int, str\], got 1 items"),
    (1, tuple[int, str], r"expected tuple\[int, str\], got int"),
    ("ab", list[str], r"expected list\[str\], got str"),
    ({"a": 1}, list[str], r"expected list\[str\], got dict"),
    ([1], dict[str, int], r"expected dict\[str, int\], got list"),
    ({"a": 1}, dict[str, Item], r"\[value 0\]: expected Item, got int"),
    ([1], Options, "expected Options, got list"),
]


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize(("value", "annotation", "reason"), REFUSED)
def test_what_is_not_as_annotated_is_refused(value, annotation, reason, mime_type):
    with pytest.raises(CodecError, match=f"cannot be written as {mime_type}: {reason}$"):
        DEFAULT_CODECS.encode(value, annotation, mime_type)


@pytest.mark.parametrize(
    ("value", "annotation", "text"),
    [
        (1, float, "1"),
        (Level.HIGH, int, "3"),
        (Name("ada"), str, '"ada"'),
        (Level.HIGH, Literal[Level.HIGH], "3"),
        ([1, 2.5], list[float], "[1,2.5]"),
        ((Level.HIGH, 4), list[int], "[3,4]"),
        (deque([1]), list[int], "[1]"),
        (UserList([1]), list[int] | int, "[1]"),
        ({"a": None}, dict[str, int | None], '{"a":null}'),
        (None, int | str | None, "null"),
        ({"depth": 1}, Options | int, '{"depth":1}'),
        (Pair(1, "x"), Pair | int, '[1,"x"]'),
        (Item("x"), Item | int, '{"name":"x","quantity":null,"kind":"a"}'),
        (["x", 1], list[Any], '["x",1]'),
        ({"size": 1}, Sized | int, '{"size":1}'),
        (True, Literal[True] | str, "true"),
        (bytearray(b"a"), list[bytes] | bytes | int, '"YQ=="'),
        ([memoryview(b"a")], list[bytes], '["YQ=="]'),
        (NOON, date, '"2024-05-06"'),
    ],
)
def test_what_is_as_annotated_is_written(value, annotation, text):
    assert DEFAULT_CODECS.encode(value, annotation, MIME.JSON).decode() == text


def test_a_datetime_is_written_as_the_date_that_is_annotated():
    data = DEFAULT_CODECS.encode([NOON], list[date], MIME.CBOR)
    assert DEFAULT_CODECS.decode(data, list[date], MIME.CBOR) == [date(2024, 5, 6)]


@pytest.mark.parametrize("mime_type", [*BOTH, MIME.TEXT, MIME.OCTET_STREAM])
@pytest.mark.parametrize("annotation", [int, str, Any, None, Item, bytes, int | str])
def test_a_missing_await(annotation, mime_type):
    value = lookup()
    with pytest.raises(CodecError, match="`await` is missing before the call of lookup"):
        DEFAULT_CODECS.encode(value, annotation, mime_type)
    value.close()
    with pytest.raises(CodecError, match="take the items of numbers with `async for`"):
        DEFAULT_CODECS.encode(numbers(), annotation, mime_type)


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize("annotation", [list[int], list[Any], Any, list[int | str]])
def test_a_missing_await_within(annotation, mime_type):
    value = lookup()
    reason = r"\[1\]: expected .*, got a coroutine: an `await` is missing before the call of lookup"
    with pytest.raises(CodecError, match=reason):
        DEFAULT_CODECS.encode([1, value], annotation, mime_type)
    value.close()


@attrs.frozen
class Secret(Item):
    password: str = "hunter2"


def test_fields_with_names_of_the_code():
    """The writer of a class is made as code; names of fields and of that code do not meet."""
    names = ["\u00e4", "name", "key", "write0", "part1", "value", "cls", "Mismatch", "type"]
    made = attrs.make_class("Made", {name: attrs.field(type=int) for name in names})
    value = made(*range(len(names)))
    data = DEFAULT_CODECS.encode(value, made, MIME.CBOR)
    wanted = {name: number for number, name in enumerate(names)}
    assert DEFAULT_CODECS.decode(data, dict, MIME.CBOR) == wanted
    value.key = "x"
    with pytest.raises(CodecError, match=r"key: expected int, got str"):
        DEFAULT_CODECS.encode(value, made, MIME.CBOR)


class Shown(list):
    """A list that shows other items than it has; a C function would take those that it has."""

    def __iter__(self):
        return iter([Item("a")])


class Words(Shown):
    def __iter__(self):
        return iter(["a", "b"])


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize(
    ("annotation", "value", "plain"),
    [
        (list[Item], Shown([Secret("x")]), [{"name": "a", "quantity": None, "kind": "a"}]),
        (list[str], Words([Secret("x")]), ["a", "b"]),
        (list[Any], Words([Secret("x")]), ["a", "b"]),
        (Any, Words([Secret("x")]), ["a", "b"]),
        (list[str] | int, Words([Secret("x")]), ["a", "b"]),
    ],
)
def test_what_is_checked_is_what_is_written(annotation, value, plain, mime_type):
    """The items of a list of one's own are those that it gives, not those that it hides."""
    data = DEFAULT_CODECS.encode(value, annotation, mime_type)
    assert DEFAULT_CODECS.decode(data, Any, mime_type) == plain


class Plain(enum.Enum):
    THREE = 3
    TEXT = "x"


class Word(enum.StrEnum):
    X = "x"


class Amount(int):
    pass


USUAL = {int: 7, str: "a", float: 0.5, bool: False, int | None: None, float | None: 0.25}
ODD = [
    *(True, None, 1, 2**53 + 1, 2**70, Level.HIGH, Amount(3), Plain.THREE, Plain.TEXT, Word.X),
    *(
        Name("ada"),
        "\ud800",
        b"x",
        1.5,
        float("nan"),
        float("inf"),
        1e308,
        Decimal(1),
        NOON,
        [],
    ),
]


@pytest.mark.parametrize("mime_type", BOTH)
@pytest.mark.parametrize("size", [0, 1, 200])
@pytest.mark.parametrize("annotation", USUAL, ids=str)
def test_a_list_is_checked_as_its_items_are(annotation, size, mime_type):
    """Lists are looked at as a whole, in ways that are wrong for items that are alike only."""

    def written(values):
        try:
            return DEFAULT_CODECS.encode(values, list[annotation], mime_type)
        except CodecError as error:
            return str(error).removeprefix(f"{type(values).__name__} ")

    for odd in ODD:
        values = [USUAL[annotation]] * size + [odd, odd]
        assert written(values) == written(deque(values)), (odd, size)  # item by item


@attrs.frozen
class Reading:
    value: float | None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "1.5", 2**53 + 1])
def test_an_optional_float_is_checked_as_a_float(value):
    for holder, annotation in [(Reading(value), Reading), ([1.5, value], list[float | None])]:
        with pytest.raises(CodecError, match="expected float"):
            DEFAULT_CODECS.encode(holder, annotation, MIME.JSON)


def test_sets_can_be_keys_and_members_of_sets():
    """The annotation was accepted, and each value refused when it was written."""
    for annotation, value in (
        (dict[frozenset[int], int], {frozenset([1, 2]): 3}),
        (set[frozenset[str]], {frozenset(["a"]), frozenset(["b"])}),
    ):
        data = CborCodec().encode(value, annotation)
        assert CborCodec().decode(data, annotation) == value


def test_octets_with_gaps_are_written_in_json():
    assert JsonCodec().encode(memoryview(b"a-b-c-")[::2], bytes) == b'"YWJj"'
