"""CBOR that is written by generated code is that of the writers and cbor2."""

import keyword
from collections.abc import Iterable
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, Any
from unittest import mock

import attrs
import cbor2
import msgspec
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from rsocket_trio.codecs import CborCodec, CodecError, Codecs
from rsocket_trio.codecs.registry import explain
from rsocket_trio.metadata.mime_types import MIME

from .typed_values import drawn, typed

NEVER = mock.patch("rsocket_trio.codecs.cbor.packer_of", return_value=None)


def written(value, annotation, **options):
    """The data, or where and why the value is refused."""
    codecs = Codecs({MIME.CBOR: CborCodec(**options)})
    try:
        return codecs.encode(value, annotation, MIME.CBOR)
    except CodecError as error:
        return explain(error, "value")


def check(value, annotation, **options):
    found = written(value, annotation, **options)
    with NEVER:
        assert found == written(value, annotation, **options), (annotation, value)
    return found


@dataclass
class Line:
    sku: str
    quantity: int = 1
    price: float = 0.0


@attrs.define
class Order:
    number: int = attrs.field(metadata={"rsocket_trio.name": "orderNo"})
    line_list: list[Line]
    note: str | None = None
    first: Line | None = None
    paid: bool = False
    extra: dict[str, int] = attrs.field(factory=dict)
    bounded: Annotated[int, msgspec.Meta(lt=10)] = 0


class Text(str):
    __slots__ = ()


class Discount(Line):
    """A subclass, whose further fields are not written."""

    secret = "no"


NAN = float("nan")
VALUES = {
    int: [0, 23, 24, 255, 256, -1, 2**64, -(2**64) - 1, 2**9000, True, 1.0, "1", None],
    str: ["", "a" * 23, "b" * 24, "c" * 255, "d" * 256, "ä" * 70_000, "\ud800", Text("e"), 1, b"f"],
    float: [0.0, -0.0, 1.5, 1e300, NAN, -NAN, float("inf"), float("-inf"), 1, 2**53 + 1, True, "1"],
    bool: [True, False, 1, 0, None],
    str | None: ["a", None, Text("b"), 1],
    list[int]: [[], [1], (1,), {1}, ["a"], None],
    list[Line]: [[], [Line("a")] * 30, (Line("a"),), [Discount("a")], [None], [Line(1)], "abc", {}],
    list[Line | None]: [[None, Line("a", 2**20)], [1]],
    Line | None: [None, Line("a"), Discount("b"), Line("a", "b"), {"sku": "a"}],
}


@pytest.mark.parametrize("annotation", VALUES, ids=str)
def test_each_kind_of_field(annotation):
    """Usual values, unusual ones, and those of another type: alone, and as a field."""
    holder = make_dataclass("Holder", [("before", int), ("value", annotation), ("after", str)])
    for value in VALUES[annotation]:
        check(value, annotation)
        check(holder(1, value, "a"), holder)
        check([holder(1, value, "a")] * 2, list[holder])


def test_an_order():
    """Names, parts without code, and places of mistakes are those of the writers."""
    order = Order(7, [Line("a"), Line("b", 300, 1)], None, Line("c"), True, {"a": 1}, 9)
    assert isinstance(check(order, Order), bytes)
    assert isinstance(check(order, Order, rename="camel", enums="name"), bytes)
    order.line_list[1].quantity = "many"
    assert check([order], list[Order]).startswith("value[0].line_list[1].quantity: expected int")
    order = Order(7, [], bounded=10)
    assert check(order, Order).startswith("value.bounded")
    with mock.patch.object(Order, "number", 1), pytest.raises(CodecError):
        Codecs().encode(object(), Order, MIME.CBOR)


@pytest.mark.parametrize(
    "name", ["名", "from_", "__a", "nonlocal", 'a"b', "a\nb", "part0", "value"]
)
def test_names_are_data(name):
    """None of them is code, nor hides what the code uses."""
    named = attrs.field(type=int, metadata={"rsocket_trio.name": name})
    odd = attrs.make_class("Odd", {"a": named, "dumps": attrs.field(type=str)})
    assert name.encode() in check(odd(1, "a"), odd)
    if name.isidentifier() and not keyword.iskeyword(name):
        odd = make_dataclass("Odd", [(name, int), ("dumps", str)])
        assert name.encode() in check(odd(1, "a"), odd)


def test_a_property_that_fails():
    """Its error is that of the writers, and its text is not shown."""

    class Failing(Line):
        @property
        def price(self):
            raise RuntimeError("secret")

        @price.setter
        def price(self, _): ...

    assert "secret" not in check(Failing("a"), Line)


def a_holder(data):
    fields = data.draw(st.lists(typed, min_size=1, max_size=4))
    names = [f"f{place}" for place in range(len(fields))]
    holder = make_dataclass(
        "Holder",
        [
            (name, annotation, field(default=None))
            for name, (annotation, _) in zip(names, fields, strict=True)
        ],
    )
    try:
        CborCodec().check_encode(holder)
    except TypeError:
        assume(False)
    values = [data.draw(values) for _, values in fields]
    if data.draw(st.booleans()):  # one of another type
        values[data.draw(st.integers(0, len(values) - 1))] = data.draw(data.draw(typed)[1])
    whole = holder(*values)
    check(whole, holder)
    check([whole, whole], list[holder])
    check(values[0], fields[0][0])


@pytest.mark.parametrize("number", [13, None])
def test_generated_types_and_values(number):
    """The same types and values in each run, and others."""
    drawn(a_holder, number, 100)


def test_values_of_any_type_are_written_by_cbor2():
    """There is no code for them."""
    for annotation in (Any, dict[str, Any], list[Any]):
        check({"a": [1, None, {"b": 2.5}]} if annotation is not list[Any] else [1], annotation)


def test_iterators_are_read_once():
    """A value with another unusual part was written again, without the items read before."""

    @dataclass
    class Report:
        rows: Iterable[int]
        lines: list[Line]
        first: Line | None = None
        note: str | None = None

    codec, lines = CborCodec(), (Line("a"),)  # no list
    written = cbor2.loads(codec.encode(Report(iter([1, 2]), lines, None, Text("b")), Report))
    assert written["rows"] == [1, 2]
    assert written["note"] == "b"
    assert [line["sku"] for line in written["lines"]] == ["a"]


def test_what_is_left_of_a_refused_iterator_is_not_written():
    @dataclass
    class Report:
        rows: list[int]
        number: int = 1

    with pytest.raises(CodecError):
        Codecs().encode(Report(iter(["a", 2]), 1), Report, MIME.CBOR)
