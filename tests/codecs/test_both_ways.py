"""What msgspec reads is what the readers read: values, types, refusals and their places."""

import json
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from unittest import mock

import attrs
import cbor2
import pytest
from hypothesis import assume
from hypothesis import strategies as st

from rsocket_trio.codecs import CborCodec, CodecError, Codecs, JsonCodec
from rsocket_trio.codecs.conventions import Conventions
from rsocket_trio.codecs.registry import explain
from rsocket_trio.codecs.same_to_msgspec import same_to_msgspec
from rsocket_trio.metadata.mime_types import MIME

from .test_same_to_msgspec import SAME
from .typed_values import drawn, random_of, same, typed

MODULES = {MIME.CBOR: "cbor", MIME.JSON: "json"}
CODECS = {MIME.CBOR: CborCodec, MIME.JSON: JsonCodec}
TEXTS = r"""
null true false 0 1 -1 7 1.0 1.5 -0.0 1e2 1e400 18446744073709551616 1180591620717411303424 "a"
"" "1" "1.5" "true" "red" "2024-05-06" "2024-05-06T07:08:09Z" "2024-05-06T07:08:09"
"2024-05-06T07:08:09.1234567890Z" "20240506" "2024-W19-1" "2024-05-06T24:00:00"
"2024-05-06T07:08:09+02:00" "2024-05-06T07:08:09+00:00:30" "0001-01-01T00:00:00+23:59"
"9999-12-31T23:59:59.9999999Z" "07:08" "07:08:09" "07:08:09.123456789Z" "24:00:00"
"07:08:09+24:00" "PT1H30M" "PT-1H-30M" "P1W" "P1Y" "PT1.123456789S" "P" "PT" "P999999999D"
"P9999999999D" "YQ==" "YQ" "YR==" "YQ==\n" "Y-_=" "00000000-0000-0000-0000-000000000005"
"{00000000-0000-0000-0000-000000000005}" "00000000000000000000000000000005"
"urn:uuid:00000000-0000-0000-0000-000000000005" "0000-0000000000000000000000000005" "1_000"
"NaN" "sNaN" "Infinity" "1e5" "1E+1000" "\ud800" "\ud83d\ude00" "\u0000" [] [1] [1,2]
[1,"a"] ["a"] ["a","a"] [true] [1.0] [null] [[1]] [{}] {} {"a":1} {"a":"b"} {"a":[1]}
{"a":1,"a":2} {"x":1} {"x":1.0} {"x":null} {"x":1,"x":"2"}
{"x":1,"z":{"deep":[1,{"a":"\ud800"}]}} {"f0":1} {"f0":1,"f1":"a"} {"f0":null,"f1":1.5}
{"f0":[]} {"sku":"a"} {"sku":"a","quantity":2} {"sku":1} {"lines":[{"sku":"a"}]}
{"lines":[{"sku":"a"}],"note":null} {"lines":[{"sku":"a","quantity":"b"}]} {"number":1}
{"line":{"sku":"a"},"tags":{"a":[1]}} {"line":{"sku":"a"},"after":{"line":{"sku":"b"}}}
{"name":"a","children":[{"name":"b"}]} [1,0.5] [1,0.5,null] {"deep":true}
{"deep":true,"name":"a","high":["red"]} {"item":1,"more":[1]} {"kind":"circle","radius":1}
{"pong":{"ping":null}} {"pair":[{"sku":"a"},1],"line":{"sku":"a"}}
{"by_name":{"a":[{"sku":"a"}]},"more":{"line":{"sku":"a"}}}
[1,] {"a":1,} 01 +1 .5 1. nul 1] ["a NaN [Infinity]
""".split()  # noqa: SIM905 - a table


NOT_JSON = "refused: value: not JSON, at byte "


@contextmanager
def by_readers_alone(mime_type):
    name = f"rsocket_trio.codecs.{MODULES[mime_type]}.same_to_msgspec"
    with mock.patch(name, return_value=False):
        yield


def read(codec, data, annotation, mime_type):
    """The value, or where and why the data are refused."""
    try:
        return Codecs({mime_type: codec}).decode(data, annotation, mime_type)
    except CodecError as error:
        return f"refused: {explain(error, 'value')}"


def check(annotation, mime_type, *several, **options):
    fast, alone = CODECS[mime_type](**options), CODECS[mime_type](**options)
    for data in several:
        found = read(fast, data, annotation, mime_type)
        with by_readers_alone(mime_type):
            wanted = read(alone, data, annotation, mime_type)
        compare(found, wanted, annotation, data)


def compare(found, wanted, annotation, data):
    if str(found).startswith("refused: value: not JSON") and str(wanted).startswith(
        "refused: value: not JSON"
    ):
        return
    assert type(found) is type(wanted), (annotation, data, found, wanted)
    assert same(found, wanted), (annotation, data, found, wanted)


def written(text, mime_type):
    """A text of JSON as data; in CBOR only if it is JSON."""
    if mime_type == MIME.JSON:
        return text.encode()
    try:
        return cbor2.dumps(json.loads(text))
    except (ValueError, OverflowError):
        return None


def damaged(data, rng):
    """The data with a few bytes changed, inserted or left out."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(data) + 1)
        kind = rng.randrange(3)
        if kind == 0:
            data[place:place] = bytes([rng.choice(b'"[]{}:,\\0-9eE.tfn\xff\xc3\xa9 ')])
        elif data:
            place %= len(data)
            data[place : place + 1] = bytes([rng.randrange(256)]) if kind == 1 else b""
    return bytes(data)


@pytest.mark.parametrize("mime_type", MODULES)
@pytest.mark.parametrize("annotation", SAME, ids=str)
def test_every_text_for_every_type(annotation, mime_type):
    """Each kind of type with each kind of value, well-formed or not."""
    check(annotation, mime_type, *filter(None, [written(text, mime_type) for text in TEXTS]))


def both_ways(data, mime_type):
    annotation, values = data.draw(typed)
    options = data.draw(st.sampled_from([{}, {"rename": "camel", "enums": "name"}]))
    codec = CODECS[mime_type](**options)
    try:
        codec.check_decode(annotation)
    except TypeError:
        assume(False)
    decimals = mime_type == MIME.JSON
    assume(same_to_msgspec(annotation, Conventions(**options), decimals=decimals))
    rng = data.draw(st.randoms(use_true_random=False))
    source = annotation
    if rng.random() < 0.3:  # of another type
        source, values = data.draw(typed)
    try:
        whole = codec.encode(data.draw(values), source)
    except Exception:  # there are no such values in this format
        assume(False)
    check(annotation, mime_type, whole, *[damaged(whole, rng) for _ in range(4)], **options)


@pytest.mark.parametrize("mime_type", MODULES)
@pytest.mark.parametrize("number", [11, None])
def test_generated_types_and_data(number, mime_type):
    """The same types, values and damages in each run, and others."""
    drawn(lambda data: both_ways(data, mime_type), number, 100)


@pytest.mark.parametrize("number", [17, None])
@pytest.mark.parametrize("mime_type", MODULES)
def test_damaged_texts(mime_type, number):
    """Damage in all places of an order, with all its types."""
    rng = random_of(number)
    wholes = list(filter(None, [written(text, mime_type) for text in TEXTS]))
    for annotation in SAME:
        check(annotation, mime_type, *[damaged(rng.choice(wholes), rng) for _ in range(10)])


def test_validators_run_once():
    """Data that msgspec refuses are read again; what has code of the application is read once."""
    seen = []

    @attrs.define
    class Counted:
        number: int = attrs.field(validator=lambda _, __, value: seen.append(value))

    @attrs.define
    class Holder:
        counted: list[Counted]
        when: datetime

    data = b'{"counted":[{"number":1},{"number":2}],"when":"20240506"}'  # in no form of msgspec's
    assert Codecs().decode(data, Holder, MIME.JSON).when == datetime(2024, 5, 6)
    with pytest.raises(CodecError):
        Codecs().decode(data.replace(b"2024", b"x"), Holder, MIME.JSON)
    assert seen == [1, 2, 1, 2]


@pytest.mark.parametrize("digits", [4300, 4301])
@pytest.mark.parametrize("text", ["{}", "[{}]", "-{}", "{}.5", "1.{}", '"{}"'])
def test_long_numbers(text, digits):
    """msgspec makes a Decimal of an int that Python refuses to read."""
    data = text.format("9" * digits).encode()
    check(Decimal, MIME.JSON, data)
    check(list[Decimal], MIME.JSON, data)
    for place in (1, 2149, 2150, 4299):
        check(list[Decimal], MIME.JSON, b"[" + b" " * place + data + b"]")
