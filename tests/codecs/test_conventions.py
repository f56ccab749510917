"""The options of `Codecs`: raw text, names in camel case, enums by name."""

import enum
from collections.abc import AsyncIterator
from dataclasses import InitVar, dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import attrs
import cbor2
import msgspec
import pytest

from rsocket_trio import Caller, Codecs, Invalid, Router
from rsocket_trio.codecs import CborCodec, CodecError, JsonCodec
from rsocket_trio.codecs.conventions import Conventions
from rsocket_trio.codecs.registry import explain
from rsocket_trio.codecs.same_to_msgspec import same_to_msgspec
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.testing.in_memory import connected_pair

BOTH = {
    MIME.CBOR: (cbor2.dumps, cbor2.loads),
    MIME.JSON: (msgspec.json.encode, msgspec.json.decode),
}
SPRING = Codecs.for_spring()
PLAIN = Codecs()


class Colour(enum.Enum):
    RED = 1
    DARK_RED = 2
    CRIMSON = 2  # noqa: PIE796 - an alias


class Level(enum.IntEnum):
    LOW = 1


class Tone(enum.StrEnum):
    SOFT = "soft"


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@attrs.frozen
class Line:
    unit_price: int
    line_note: str | None = None


@dataclass
class Order:
    order_id: int
    order_lines: list[Line]
    from_: str = "here"
    a_b_c: int = 0
    known: bool = False
    at: int = field(default=0, metadata={"rsocket_trio.name": "placedAt"})


@attrs.define
class Private:
    _access_token: str
    other_name: int = attrs.field(default=0, alias="n", metadata={"rsocket_trio.name": "x-name"})


@dataclass
class Given:
    base_price: InitVar[int]
    price: int = field(init=False, default=0)

    def __post_init__(self, base_price):
        self.price = 2 * base_price


class Typed(TypedDict):
    snake_case: Line


class Pair(NamedTuple):
    first_line: Line
    second_line: Line | None = None


@pytest.fixture(params=BOTH)
def mime_type(request):
    return request.param


def written(value, annotation, mime_type, codecs=SPRING):
    """What a value is in data; and reading the data gives it back."""
    data = codecs.encode(value, annotation, mime_type)
    assert codecs.decode(data, annotation, mime_type) == value
    return BOTH[mime_type][1](data)


def read(plain, annotation, mime_type, codecs=SPRING):
    """The value that plain data are read as, or where and why they are refused."""
    try:
        return codecs.decode(BOTH[mime_type][0](plain), annotation, mime_type)
    except CodecError as error:
        return explain(error, "it")


ORDER = Order(1, [Line(2), Line(3, "x")], "there", 4, True, 5)
IN_CAMEL_CASE = {
    "orderId": 1,
    "orderLines": [{"unitPrice": 2, "lineNote": None}, {"unitPrice": 3, "lineNote": "x"}],
    "from": "there",
    "aBC": 4,
    "known": True,
    "placedAt": 5,
}


def test_names_in_camel_case(mime_type):
    """In classes within classes, with metadata first; and Python's names are not read then."""
    assert written(ORDER, Order, mime_type) == IN_CAMEL_CASE
    assert written(ORDER, list[Order] | Order, mime_type) == IN_CAMEL_CASE
    assert read({"order_id": 1, "orderLines": []}, Order, mime_type) == (
        "it.orderId: expected int, got nothing"
    )
    wrong = {**IN_CAMEL_CASE, "orderLines": [{"unitPrice": "x"}]}
    assert read(wrong, Order, mime_type) == "it.orderLines[0].unitPrice: expected int, got str"
    assert SPRING.encode(ORDER, Any, mime_type) == SPRING.encode(ORDER, Order, mime_type)


def test_names_without_the_option(mime_type):
    """Fields have their own names, but the metadata of a field holds."""
    plain = written(ORDER, Order, mime_type, PLAIN)
    assert list(plain) == ["order_id", "order_lines", "from_", "a_b_c", "known", "placedAt"]
    assert read({"order_id": 1, "order_lines": [], "at": 5}, Order, mime_type, PLAIN).at == 0


def test_names_of_private_fields_and_of_arguments(mime_type):
    """The leading underscore stays; neither the argument's name nor its alias is in data."""
    assert written(Private("s", 1), Private, mime_type) == {"_accessToken": "s", "x-name": 1}
    assert read({"basePrice": 2}, Given, mime_type) == Given(2)


def test_keys_of_typed_dicts_stay(mime_type):
    """They are the keys of the data by themselves. What is in them is renamed."""
    renamed = {"snake_case": {"unitPrice": 1, "lineNote": None}}
    assert written({"snake_case": Line(1)}, Typed, mime_type, Codecs(rename="camel")) == renamed
    assert read([{"unitPrice": 1}], Pair, mime_type) == Pair(Line(1))
    wrong = read([{"unitPrice": 1}, {}], Pair, mime_type)
    assert wrong == "it.second_line.unitPrice: expected int, got nothing"


def test_unions_are_told_apart_by_names_in_data(mime_type):
    """By those of the peer, in the choice by keys and in that by tags."""

    @attrs.frozen
    class Card:
        card_number: int
        kind_of: Literal[Colour.RED] = Colour.RED

    @attrs.frozen
    class Cash:
        bank_notes: int
        kind_of: Literal[Colour.DARK_RED] = Colour.DARK_RED

    assert read({"cardNumber": 1, "kindOf": "RED"}, Card | Cash, mime_type) == Card(1)
    assert written(Cash(2), Card | Cash, mime_type) == {"bankNotes": 2, "kindOf": "DARK_RED"}

    @attrs.frozen
    class One:
        one_key: int

    @attrs.frozen
    class Other:
        other_key: int

    assert read({"otherKey": 1}, One | Other, mime_type) == Other(1)


def test_the_place_of_a_validator_has_the_name_in_data(mime_type):
    """As other places have: the peer knows this name."""

    @attrs.frozen
    class Checked:
        line_count: int = attrs.field(validator=attrs.validators.gt(0))

    assert read({"lineCount": 0}, Checked, mime_type).startswith("it.lineCount: Checked refuses")


@pytest.mark.parametrize("codecs", [PLAIN, SPRING], ids=["plain", "spring"])
def test_two_fields_of_one_name_are_refused(codecs):
    """When the handler is registered. One of the two would be lost."""

    @attrs.frozen
    class Twice:
        first: int
        second: int = attrs.field(metadata={"rsocket_trio.name": "first"})

    for check in (codecs.check_decode, codecs.check_encode):
        with pytest.raises(TypeError, match="'first' and 'second' are both 'first' in data"):
            check(Twice)

    @attrs.frozen
    class Unnamed:
        first: int = attrs.field(metadata={"rsocket_trio.name": 1})

    with pytest.raises(TypeError, match="in the metadata of 'first' is no text"):
        codecs.check_decode(Unnamed)


def test_enums_by_name(mime_type):
    """Names are written and read, whatever the values are; values are not read."""
    for value, name in [
        (Colour.RED, "RED"),
        (Colour.CRIMSON, "DARK_RED"),
        (Level.LOW, "LOW"),
        (Tone.SOFT, "SOFT"),
    ]:
        annotation = type(value)
        assert written(value, annotation, mime_type) == name
        assert written(value, annotation | None, mime_type) == name
        assert written([value], list[annotation], mime_type) == [name]
        assert written({value: 1}, dict[annotation, int], mime_type) == {name: 1}
        assert SPRING.encode(value, Any, mime_type) == SPRING.encode(value, annotation, mime_type)
        refused = read(value.value, annotation, mime_type)
        assert refused.startswith(f"it: expected {annotation.__name__}, got another ")
    assert read("CRIMSON", Colour, mime_type) is Colour.DARK_RED
    assert written(Rights.READ | Rights.WRITE, Rights, mime_type) == 3
    assert written(Colour.RED, Literal[Colour.RED], mime_type) == "RED"
    assert written(Colour.RED, Colour, mime_type, PLAIN) == 1


def test_enums_by_name_in_unions(mime_type):
    """A text that is a name is the member, as with values."""
    assert read("RED", list[int] | Colour | str, mime_type) is Colour.RED
    assert read("red", Colour | str, mime_type) == "red"
    assert written(1, Level | int, mime_type) == 1
    with pytest.raises(CodecError):
        SPRING.encode("RED", list[int] | Colour | str, mime_type)


@pytest.mark.parametrize("of_json", [True, False])
def test_msgspec_reads_what_is_not_renamed(of_json):
    """What means the same in spite of the options is read as fast; the rest by the readers."""

    class Same(enum.Enum):
        RED = "RED"

    @attrs.frozen
    class Short:
        name: str
        colour: Same

    @attrs.frozen
    class Swapped:
        b: int = attrs.field(alias="b_", metadata={"rsocket_trio.name": "a"})
        a: int = attrs.field(alias="a_", metadata={"rsocket_trio.name": "b"})

    @attrs.frozen
    class Crossed:
        b: int = attrs.field(alias="a", metadata={"rsocket_trio.name": "a"})
        a: int = attrs.field(alias="b", metadata={"rsocket_trio.name": "b"})

    conventions = Conventions("camel", "name")
    for annotation, same in [
        (Short, True),
        (Line, False),
        (Level, False),
        (Tone, False),
        (Same, True),
        (Swapped, False),
        (Crossed, False),
    ]:
        assert same_to_msgspec(annotation, conventions, decimals=of_json) is same
    assert same_to_msgspec(Line, Conventions(enums="name"), decimals=of_json)
    codec = JsonCodec() if of_json else CborCodec()
    data = codec.encode({"a": 1, "b": 2}, dict)
    assert codec.decode(data, Swapped) == Swapped(a_=2, b_=1)
    assert codec.decode(data, Crossed) == Crossed(a=1, b=2)


@pytest.mark.parametrize("text", ["", "x", "hällo", '"a"', "42", "null", "foreign", "\n\0"])
@pytest.mark.parametrize("mime", [*BOTH, MIME.TEXT, MIME.OCTET_STREAM, "image/svg+xml", "x/y"])
def test_raw_text(text, mime):
    """Under any MIME type the data are the text; empty data only are None, if that is allowed."""
    data = text.encode()
    for annotation in (str, str | None):
        assert SPRING.encode(text, annotation, mime) == data
        assert SPRING.decode(data, annotation, mime) == (text or (None, "")[annotation is str])
    assert SPRING.encode(None, str | None, mime) == b""
    if mime in SPRING.mime_types:
        assert SPRING.encode(text, Any, mime) == data


def test_raw_text_is_utf_8(mime_type):
    """Other octets and other charsets are refused, and so are other values than text."""
    with pytest.raises(CodecError, match=r"2 bytes of .* cannot be read as str"):
        SPRING.decode(b"\xff\xfe", str, mime_type)
    with pytest.raises(CodecError, match="text must be UTF-8, not 'utf-16'"):
        SPRING.decode(b"a", str, f"{mime_type}; charset=utf-16")
    with pytest.raises(CodecError, match="int cannot be written"):
        SPRING.encode(1, str, mime_type)


def test_texts_within_values_are_not_raw(mime_type):
    """Nor is a value that is not annotated, or may be something else."""
    assert written(["a", "b"], list[str], mime_type) == ["a", "b"]
    assert written(UUID(int=1), UUID, mime_type)
    assert written("a", str | int, mime_type) == "a"
    assert read({"a": 1}, Any, mime_type) == {"a": 1}


def test_text_that_looks_raw_names_the_option(mime_type):
    """For a text only: for another type the option would change nothing."""
    hint = "but it looks like plain text, which Codecs(raw_text=True) reads"
    for data in (b"tea time", b"42", b"null", "hällo".encode()):
        for annotation in (str, str | None):
            if data == b"null" and mime_type == MIME.JSON and annotation is not str:
                continue
            with pytest.raises(CodecError) as caught:
                PLAIN.decode(data, annotation, mime_type)
            assert explain(caught.value, "it").endswith(hint)
    with pytest.raises(CodecError) as caught:
        PLAIN.decode(b"tea time", int, mime_type)
    assert "raw_text" not in explain(caught.value, "it")
    for data in (b"", b"\xff\xfe"):
        with pytest.raises(CodecError) as caught:
            PLAIN.decode(data, str, mime_type)
        assert "looks like" not in explain(caught.value, "it")


def test_options_are_checked():
    """A wrong one is an error that names it."""
    for codec in (Codecs, CborCodec, JsonCodec):
        with pytest.raises(ValueError, match="rename must be 'camel'"):
            codec(rename="kebab")
        with pytest.raises(ValueError, match="enums must be 'value' or 'name'"):
            codec(enums="names")
    with pytest.raises(TypeError, match="raw_text"):
        Codecs(raw_text=1)


def test_codecs_of_the_program_keep_their_options():
    """for_spring changes those that are built in."""
    codecs = Codecs.for_spring({MIME.JSON: JsonCodec()})
    assert codecs.encode(Line(1), Line, MIME.JSON) == b'{"unit_price":1,"line_note":null}'
    assert b"unitPrice" in codecs.encode(Line(1), Line, MIME.CBOR)


@pytest.mark.parametrize("mime", [*BOTH, "image/svg+xml"])
async def test_handlers_and_callers(mime):
    """Both ends with the options: a text, a class, a stream; also under a type without a codec."""
    router = Router(codecs=SPRING, explain=True)

    @router.request_response("upper")
    async def upper(text: str) -> str:
        return text.upper()

    @router.request_stream("letters")
    async def letters(text: str) -> AsyncIterator[str]:
        for letter in text:
            yield letter

    @router.request_response("total")
    async def total(order: Order) -> Line:
        return Line(sum(line.unit_price for line in order.order_lines))

    async with connected_pair(router, data_mime_type=mime) as requester:
        caller = Caller(requester, codecs=SPRING)
        assert await caller.request_response("upper", "foreign", returns=str) == "FOREIGN"
        async with caller.request_stream("letters", "höl", returns=str) as stream:
            assert [item async for item in stream] == ["h", "ö", "l"]
        if mime in BOTH:
            assert await caller.request_response("total", ORDER, returns=Line) == Line(5)
            with pytest.raises(Invalid, match=r"order\.orderId: expected int, got nothing"):
                await caller.request_response("total", {"order_id": 1})
