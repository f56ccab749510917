"""Errors name the place in the data and the expected type, but no value."""

import json
import traceback
from collections import deque

import attrs
import cbor2
import pytest

from rsocket_trio.codecs import DEFAULT_CODECS, CodecError, Codecs
from rsocket_trio.codecs.registry import explain
from rsocket_trio.errors import Invalid
from rsocket_trio.metadata.mime_types import MIME

from .annotated import Cat, Circle, Colour, Dog, MoreOptions, Node, Options, Place, Square

SECRET = "terces"[::-1]


@attrs.frozen
class Item:
    quantity: int
    colour: Colour = Colour.RED


@attrs.frozen
class Order:
    items: list[Item]
    ship: Place | None = None
    pets: dict[str, Dog | Cat] = attrs.field(factory=dict)
    options: MoreOptions | None = None
    counts: dict[int, tuple[int, str]] = attrs.field(factory=dict)


@attrs.frozen
class Fussy:
    """Validators of attrs, one behind another and one within another."""

    word: str = attrs.field(
        validator=[attrs.validators.min_len(1), attrs.validators.matches_re("[a-z]+")]
    )
    ages: list[int] = attrs.field(
        factory=list, validator=attrs.validators.deep_iterable(attrs.validators.gt(0))
    )


@attrs.frozen
class Converting:
    """A converter is given no field, so the class is named alone."""

    number: int = attrs.field(converter=lambda value: 1 // (value - value))


PLACES = [
    ({"word": "7" + SECRET}, Fussy, "order.word: Fussy refuses the value (ValueError)"),
    ({"word": "a", "ages": [1, -1]}, Fussy, "order.ages: Fussy refuses the value (ValueError)"),
    (
        {"number": 5},
        Converting,
        "order: expected Converting, got a value that it refuses (ZeroDivisionError)",
    ),
    ([], Order, "order: expected Order, got list"),
    ({}, Order, "order.items: expected list[Item], got nothing"),
    ({"items": 7}, Order, "order.items: expected list[Item], got int"),
    ({"items": [{"quantity": 1}, {}]}, Order, "order.items[1].quantity: expected int, got nothing"),
    (
        {"items": [{"quantity": 1}, {"quantity": 1}, {"quantity": SECRET}]},
        Order,
        "order.items[2].quantity: expected int, got str",
    ),
    (
        {"items": [{"quantity": 1, "colour": SECRET}]},
        Order,
        "order.items[0].colour: expected Colour, got another str",
    ),
    (
        {"items": [], "ship": [1, 2, SECRET]},
        Order,
        "order.ship.when: expected date, got another str",
    ),
    ({"items": [], "ship": SECRET}, Order, "order.ship: expected Place | None, got str"),
    (
        {"items": [], "pets": {"a": {"bark": 1}, SECRET: {"meow": SECRET}}},
        Order,
        "order.pets[value 1].meow: expected int, got str",
    ),
    (
        {"items": [], "pets": {SECRET: {"moo": 1}}},
        Order,
        "order.pets[value 0]: expected Dog | Cat, got a map without a key that only one",
    ),
    (
        {"items": [], "options": {"deep": True}},
        Order,
        "order.options.name: expected str, got nothing",
    ),
    ({"items": [], "counts": {"1": [1]}}, Order, "order.counts[value 0]: expected tuple[int, str]"),
    (
        {"items": [], "counts": {"1": [1, 2]}},
        Order,
        "order.counts[value 0][1]: expected str, got int",
    ),
    ({"items": [], "counts": {SECRET: [1, ""]}}, Order, "order.counts[key 0]: expected int, got"),
    (
        {"kind": SECRET},
        Circle | Square,
        "order.kind: expected the tag of a member of Circle | Square,",
    ),
    (
        {"side": 1},
        Circle | Square,
        "order.kind: expected the tag of a member of Circle | Square, got no",
    ),
    ([1, None], list[int], "order[1]: expected int, got None"),
    ([[SECRET]], list[deque[int]], "order[0][0]: expected int, got str"),
    ([{"word": ""}], list[Fussy], "order[0].word: Fussy refuses the value (ValueError)"),
    ({"deep": SECRET}, Options, "order.deep: expected bool, got str"),
]


@pytest.mark.parametrize(("value", "annotation", "text"), PLACES)
def test_the_error_has_the_place_and_not_the_value(value, annotation, text):
    """Names go from outermost to innermost; keys of a mapping are values, and have numbers."""
    data = json.dumps(value).encode()
    with pytest.raises(CodecError) as caught:
        DEFAULT_CODECS.decode(data, annotation, MIME.JSON)
    explained = explain(caught.value, "order")
    assert explained.startswith(text)
    assert explained.removeprefix("order").removeprefix(".").removeprefix(": ") in str(caught.value)
    assert SECRET not in explained
    assert SECRET not in str(caught.value)
    if annotation is not Fussy:
        # (The error text of an application's class is in the cause of the exception.)
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def deep(levels):
    value = {"value": "?"}
    for _ in range(levels):
        value = {"value": 1, "left": value}
    return value


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        (11, "n" + ".left" * 11 + ".value"),
        (12, "n" + ".left" * 6 + "..." + ".left" * 5 + ".value"),
        (150, "n" + ".left" * 6 + "..." + ".left" * 5 + ".value"),
    ],
)
def test_a_deep_place_is_shortened(levels, text):
    """Twelve steps are named, outermost and innermost."""
    data = cbor2.dumps(deep(levels))
    with pytest.raises(CodecError) as caught:
        DEFAULT_CODECS.decode(data, Node, MIME.CBOR)
    assert explain(caught.value, "n") == f"{text}: expected int, got str"


@pytest.mark.parametrize(
    ("data", "mime_type", "text"),
    [
        (b'{"a": ?}', MIME.JSON, "order: not JSON, at byte 6"),
        (b"hello", MIME.JSON, "order: not JSON, but it looks like plain text"),
        ("h\u00e4llo".encode(), MIME.CBOR, "order: not CBOR, but it looks like plain text"),
        (("\u00e4" * 33).encode(), MIME.CBOR, "order: not CBOR, but it looks like plain text"),
        (b"[hello", MIME.JSON, "order: not JSON, at byte 1"),
        (b"\xff", MIME.JSON, "order: not readable (UnicodeDecodeError)"),
        (b"\x82\x01", MIME.CBOR, "order: not readable (CBORDecodeEOF)"),
        (b"\xc0\x66secret", MIME.CBOR, "order: not readable (CBORDecodeError)"),
        (b"", MIME.CBOR, "order: no data"),
        (b"", MIME.JSON, "order: no data"),
        (b"", "text/plain", "order: no data"),
        (b"\1\2", MIME.CBOR, "order: not readable (ValueError)"),
        (b"1", "image/png", "order: there is no codec for 'image/png'"),
        (b"1", "text/plain; charset=x", "order: text must be UTF-8, not 'x'"),
    ],
)
def test_data_that_cannot_be_parsed(data, mime_type, text):
    """The error names the type of a parser's exception: its text may contain a value."""
    with pytest.raises(CodecError) as caught:
        DEFAULT_CODECS.decode(data, list[int], mime_type)
    assert explain(caught.value, "order").startswith(text)
    assert "secret" not in explain(caught.value, "order")


def test_an_error_for_the_peer_comes_out_unchanged():
    """This holds within a list, a union or a field."""

    @attrs.frozen
    class Strict:
        n: int

        def __attrs_post_init__(self):
            raise Invalid("no such n")

    @attrs.frozen
    class Around:
        stricts: dict[str, list[Strict | int]]

    with pytest.raises(Invalid, match="no such n"):
        Codecs().decode(b'{"stricts": {"a": [1, {"n": 1}]}}', Around, MIME.JSON)
