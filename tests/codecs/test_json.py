"""What JSON accepts: depth, text, numbers; and what refused data cost."""

import json
import sys
import threading
import tracemalloc
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal

import attrs
import pytest

from rsocket_trio.codecs import DEFAULT_CODECS, CodecError
from rsocket_trio.codecs import json as json_codec
from rsocket_trio.codecs.json import _has_far_exponents
from rsocket_trio.codecs.registry import explain
from rsocket_trio.metadata.mime_types import MIME

KIB = 2**10


def decode(data, annotation):
    return DEFAULT_CODECS.decode(data, annotation, MIME.JSON)


def refused(data, annotation):
    with pytest.raises(CodecError) as caught:
        decode(data, annotation)
    return explain(caught.value, "v")


NESTED = {
    "lists": (b"[", b"", b"]"),
    "objects": (b'{"a":', b"1", b"}"),
    "both": (b'[{"a":', b"1", b"}]"),
    "beside text": (b'["[[[",', b"1", b"]"),
    "quotes in text": (b'["\\"[\\\\",', b"1", b"]"),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("extra", [0, 1])
def test_the_limit_of_levels(name, extra):
    """200 levels are read, and 201 are not, whatever stands in between."""
    start, middle, end = NESTED[name]
    levels = 100 if name == "both" else 200
    data = start * levels + b"[" * extra + middle + b"]" * extra + end * levels
    with pytest.raises(CodecError, match="more than 200 levels") if extra else nullcontext():
        decode(data, Any)


def test_wide_data_are_not_deep():
    decode(json.dumps([{"a": [1, "[[", {}]}] * 5000).encode(), list[dict[str, Any]])


def depth(value):
    """The levels of objects and lists with one member each."""
    levels = 0
    while isinstance(value, dict | list):
        levels += 1
        value = next(iter(value.values() if isinstance(value, dict) else value), None)
    return levels


def in_a_small_thread(function):
    """Run a function in a thread with a stack of 256 KiB, as some systems have."""
    outcome = []
    before = threading.stack_size(256 * KIB)
    try:
        thread = threading.Thread(target=lambda: outcome.append(function()))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return outcome[0]


@pytest.mark.parametrize("part", [b"[", b'{"a":'])
@pytest.mark.parametrize("annotation", [Any, list[Any], int])
def test_depth_is_no_crash(part, annotation):
    """Neither with a recursion limit that a program has raised, nor with a small stack."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        assert in_a_small_thread(lambda: refused(part * 10**6, annotation)).endswith("objects")
        deepest = part * 199 + b"[]" + (b"]" if part == b"[" else b"}") * 199
        if annotation is not int:
            read = in_a_small_thread(lambda: decode(deepest, Any))
            assert depth(read) == 200
    finally:
        sys.setrecursionlimit(limit)


@dataclass
class Named:
    name: str
    price: Decimal | None = None


@attrs.define
class Checked:
    """The readers read it, as it has a validator."""

    rate: float
    price: Decimal = attrs.field(validator=attrs.validators.instance_of(Decimal))
    rest: Any = None
    either: float | Decimal | None = None


@pytest.mark.parametrize("half", [rb'"\ud800"', rb'"\udc00\ud800"', rb'"a\ud83d"'])
@pytest.mark.parametrize("annotation", [str, Any, Named, Checked])
def test_half_a_surrogate_pair_is_refused(half, annotation):
    """It is no text: it could not be written again, nor stored."""
    data = b'{"name":%s,"rate":1,"price":"1","rest":%s}' % (half, half)
    assert "not JSON" in refused(half if annotation is str else data, annotation)


def test_damaged_text_is_refused_where_it_is_ignored():
    data = b'{"name":"a","unknown":"\xff"}'
    assert refused(data, Named) == "v: not readable (UnicodeDecodeError)"
    assert decode('{"name":"ü","unknown":"\U0001f600"}'.encode(), Named) == Named("ü")


@pytest.mark.parametrize(
    "text", ["12.50", "1E+3", "0.1000000000000000055511151231257827", "-7", '"1.5"']
)
def test_decimals_are_exact(text):
    """A number is read by its digits, not by way of a float, with msgspec and without."""
    price = Decimal(text.strip('"'))
    named = decode(f'{{"name":"a","price":{text}}}'.encode(), Named)
    assert str(named.price) == str(price)
    checked = decode(
        f'{{"rate":1.5,"price":{text},"rest":[{{"a":2.5}}],"either":0.5}}'.encode(), Checked
    )
    assert str(checked.price) == str(price)
    assert checked == Checked(1.5, price, [{"a": 2.5}], 0.5)
    assert [type(checked.rate), type(checked.rest[0]["a"]), type(checked.either)] == [float] * 3


@pytest.mark.parametrize("annotation", [int, str, Named, list[int], datetime, Literal["a"]])
def test_a_float_is_named_one_beside_a_decimal(annotation):
    """Whoever has written it knows no Decimal."""

    @attrs.define
    class Beside:
        price: Decimal = attrs.field(validator=attrs.validators.instance_of(Decimal))
        other: annotation

    text = refused(b'{"price":1.5,"other":2.5}', Beside)
    assert text.startswith("v.other: expected ")
    assert text.endswith("float")


def test_a_decimal_beyond_the_range():
    """The error has a place and no name of an exception of Python."""
    data = b'{"rate":1,"price":1e9999999999999999999}'
    assert refused(data, Checked) == "v.price: expected Decimal, got a number too large for one"


TIMES = [
    ("2024-05-06T07:08:09.1234567Z", datetime(2024, 5, 6, 7, 8, 9, 123457, tzinfo=UTC)),
    ("2024-05-06T07:08", datetime(2024, 5, 6, 7, 8)),
    ("07:08:09", time(7, 8, 9)),
    ("07:08", time(7, 8)),
    ("07:08:09.5Z", time(7, 8, 9, 500_000, tzinfo=UTC)),
    ("PT1H30M", timedelta(hours=1.5)),
    ("P2DT0.000001S", timedelta(2, 0, 1)),
    ("-PT1M", -timedelta(minutes=1)),
    ("PT-1H-30M", -timedelta(hours=1.5)),
    ("PT-6H+3M", -timedelta(hours=5, minutes=57)),
]


@pytest.mark.parametrize(("text", "value"), TIMES)
@pytest.mark.parametrize("mime_type", [MIME.JSON, MIME.CBOR])
def test_times_and_durations(text, value, mime_type):
    """As Java writes them, in both formats; fractions of a microsecond are rounded."""
    data = DEFAULT_CODECS.encode(text, str, mime_type)
    read = DEFAULT_CODECS.decode(data, type(value), mime_type)
    assert (read, type(read)) == (value, type(value))
    assert read.utcoffset() == value.utcoffset() if hasattr(value, "utcoffset") else True
    again = DEFAULT_CODECS.encode(value, type(value), mime_type)
    assert DEFAULT_CODECS.decode(again, type(value), mime_type) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *[(each, timedelta) for each in ("P", "PT", "P1Y", "PT1", "1H", "PT1H1H", "P9999999999D")],
        *[(each, time) for each in ("0708", "24:00", "7:08", "2024-05-06", "T07:08")],
        ("2024-05-06T25:00:00Z", datetime),
    ],
)
def test_what_is_no_time(text, kind):
    assert (
        refused(json.dumps(text).encode(), kind) == f"v: expected {kind.__name__}, got another str"
    )


@dataclass
class Orders:
    orders: list[Named]
    note: str = ""


@attrs.define
class Doubled:
    """It has code of its own, so msgspec does not read it."""

    number: int = attrs.field(converter=lambda number: 2 * number)


LARGE = (
    b'{"orders":[' + b'{"name":"a"},' * 5 + b'{"name":%s},' + b'{"name":"b"},' * 200_000 + b"{}]}"
)
REFUSED = [
    (LARGE % b"7", Orders, "v.orders[5].name: expected str, got int"),
    (LARGE % b"[]", Orders, "v.orders[5].name: expected str, got list"),
    (LARGE.replace(b'"name":%s', b""), Orders, "v.orders[5].name: expected a value, got nothing"),
    (b"[" + b"{}," * 10**6 + b"{}]", str, "v: expected str, got list"),
    (b"[" + b"{}," * 10**6 + b"{}]", list[int], "v[0]: expected int, got dict"),
    (
        b"[" + b'"secret - at `$.secret`",' * 3 + b"1," * 10**6 + b"1]",
        list[Literal["a", "b"]],
        "v[0]: expected a value of the enum or literal, got another",
    ),
    (b" [" + b"{}," * 10**6 + b"{}]", Doubled, "v: expected Doubled, got list"),
    (b'"' + b"x" * 10**6 + b'"', Doubled | None, "v: expected Doubled | None, got str"),
    (b'{"secret":["' + b"x" * 10**6 + b'"]}', dict[str, int], "v[...]: expected int, got list"),
]


@pytest.mark.parametrize(("data", "annotation", "place"), REFUSED, ids=range(len(REFUSED)))
def test_large_data_of_a_wrong_type_are_not_built(data, annotation, place):
    """Refused at the first value of a wrong type: a megabyte of empty objects would be 24 MiB."""
    refused(b"?", annotation)  # to compile everything first
    tracemalloc.start()
    try:
        text = refused(data, annotation)
        assert tracemalloc.get_traced_memory()[1] < 1.2 * len(data)
    finally:
        tracemalloc.stop()
    assert text.startswith(place)
    assert "secret" not in text


@dataclass
class Mixed:
    """Floats beside a Decimal are read from their digits."""

    exact: Decimal
    near: float = 0.0
    any_of: Any = None

    def __post_init__(self):
        pass


FAR = ["1e308", "9e290", "-5E-324", "1.7976931348623157e+308", "1e0308", "2e-0000308"]


@pytest.mark.parametrize("annotation", [Any, list[float], list[Any], list[float | str], set[float]])
@pytest.mark.parametrize("text", FAR)
@pytest.mark.parametrize("between", [",", ", ", " ,\r\n\t"])
def test_floats_with_far_exponents(annotation, text, between, monkeypatch):
    """Many of them are read by `float`: msgspec takes 90 ms for 64 KiB of them."""
    data = f"[{between.join([text] * 100)}]".encode()
    assert _has_far_exponents(data)
    decode(data, annotation)  # what is compiled knows the parser of msgspec
    monkeypatch.setattr(json_codec, "_parsed", lambda _: pytest.fail("parsed by msgspec"))
    found = decode(data, annotation)
    assert len(found) == (1 if annotation == set[float] else 100)
    assert set(found) == {float(text)}


@pytest.mark.parametrize(
    "text", ["1e30", "1.5", "0.5e-10", '"1e308"', '"7e0308"', "100000.0", "17"]
)
def test_other_data_are_parsed_by_msgspec(text):
    assert not _has_far_exponents(f"[{','.join([text] * 1000)}]".encode())
    assert not _has_far_exponents(b"[" + b"1e308," * 48 + b"1]")
    assert _has_far_exponents(b"[" + b"1e308," * 50 + b"1]")


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize(
    "annotation", [Any, float, dict[str, float], dict[str, float | Decimal], Mixed]
)
def test_floats_that_are_too_large(annotation, count):
    """They are not infinite numbers, whatever parses them."""
    texts = [f"{sign}1e400" for sign in ("", "-")]
    for text in texts:
        pairs = [f'"a{number}":1e300' for number in range(count)]
        data = f'{{"exact":1,{",".join(pairs)},"near":{text}}}'
        data = text if annotation is float else data
        assert "inf" not in refused(data.encode(), annotation)
        if annotation is Mixed:
            data = f'{{"exact":1,{",".join(pairs)},"any_of":[{text}]}}'
            assert "too large" in refused(data.encode(), annotation)
