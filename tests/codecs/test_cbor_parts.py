"""Lists, maps and tags of CBOR are counted before anything is built."""

import re
import tracemalloc
from contextlib import nullcontext
from enum import Enum
from typing import Any
from unittest import mock

import cbor2
import pytest

from rsocket_trio.codecs import CborCodec, CodecError, Codecs
from rsocket_trio.codecs.cbor import _check_parts
from rsocket_trio.codecs.mismatch import Mismatch
from rsocket_trio.metadata.mime_types import MIME

from .annotated import Point
from .typed_values import random_of

KIB = 2**10
SIZE = 4 * KIB**2
COSTLY = {
    "empty lists": b"\x80",
    "empty maps": b"\xa0",
    "maps of one key": b"\xa1\x60\x00",
    "lists without a length": b"\x9f\xff",
    "decimals": b"\xc4\x82\x00\x00",
    "epochs": b"\xc1\x00",
    "sets": b"\xd9\x01\x02\x80",
}


def lists_of(part, size=SIZE):
    """A list of equal parts, of about that size."""
    count = size // len(part)
    return b"\x9a" + count.to_bytes(4, "big") + part * count


@pytest.mark.parametrize("name", COSTLY)
def test_many_parts_cost_no_memory(name):
    """4 MiB of empty maps would be 290 MiB of Python's; they are refused before they are built."""
    data = lists_of(COSTLY[name])
    decode = Codecs().decoder(object, MIME.CBOR)
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="more than 100000 lists, maps and tags"):
            decode(data)
        assert tracemalloc.get_traced_memory()[1] < KIB**2
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("extra", [0, 1])
def test_the_limit_of_parts(extra):
    """100 000 by default, the outermost list included."""
    data = lists_of(b"\x80", 100_000 - 1 + extra)
    with pytest.raises(CodecError) if extra else nullcontext():
        assert len(Codecs().decode(data, list, MIME.CBOR)) == 100_000 - 1


@pytest.mark.parametrize("extra", [0, 1])
def test_small_data_are_not_counted(extra):
    """Up to 64 KiB a value is small enough, whatever its parts."""
    codecs = Codecs({MIME.CBOR: CborCodec(max_parts=10)})
    data = lists_of(b"\x80", 64 * KIB - 5 + extra)
    assert len(data) == 64 * KIB + extra
    with pytest.raises(CodecError, match="more than 10 lists") if extra else nullcontext():
        assert len(codecs.decode(data, list, MIME.CBOR)) == 64 * KIB - 5


ITEMS = [
    *(b"\x01", b"\x18\xff", b"\x19\xa0\xa0", b"\x1a\xa0\xa0\xa0\xa0", b"\x3b" + b"\xa0" * 8),
    *(b"\x42\xa0\xa0", b"\x58\x20" + b"\xa0" * 32, b"\x78\x03abc", b"\x63\xe2\x82\xac", b"\x40"),
    *(b"\x5f\x41\xa0\x42\xa0\xa0\xff", b"\x7f\x61a\x60\xff", b"\xf4", b"\xf6", b"\xf8\xa0"),
    *(
        b"\xf9\xa0\xa0",
        b"\xfa\xa0\xa0\xa0\xa0",
        b"\xfb" + b"\xa0" * 8,
        b"\x59\x00\x01\x9f",
        b"\x60",
    ),
]


def an_item(rng, depth=0):
    """A random item of CBOR, and the number of its lists, maps and tags."""
    kind = rng.random()
    if depth < 5 and kind < 0.45:
        is_map = kind > 0.25
        items = [an_item(rng, depth + 1) for _ in range(rng.randrange(4))]
        keys = [bytes([0x61, 97 + place]) if is_map else b"" for place in range(len(items))]
        inner = b"".join(key + item for key, (item, _) in zip(keys, items, strict=True))
        head = 0xA0 if is_map else 0x80
        endless = rng.random() < 0.4
        data = (
            bytes([head + 31]) + inner + b"\xff" if endless else bytes([head + len(items)]) + inner
        )
        return data, 1 + sum(count for _, count in items)
    if depth < 5 and kind < 0.5:
        data, count = an_item(rng, depth + 1)
        return b"\xd9\xd9\xf7" + data, count + 1
    return rng.choice(ITEMS), 0


@pytest.mark.parametrize("number", [3, None])
def test_the_count_is_exact(number):
    """With all kinds of heads, lengths and chunks."""
    rng = random_of(number)
    for _ in range(2000):
        data, count = an_item(rng)
        cbor2.loads(data)
        _check_parts(data, count)
        if count:
            with pytest.raises(Mismatch):
                _check_parts(data, count - 1)
                pytest.fail(f"{data.hex()} has {count} parts")


@pytest.mark.parametrize("number", [5, None])
def test_damaged_data_end_the_count(number):
    """A head that is cut off or reserved is the decoder's to refuse; the count only has to end."""
    rng = random_of(number)
    for _ in range(2000):
        data = bytearray(an_item(rng)[0])
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        _check_parts(bytes(data), 10**6)


class Loose(Enum):
    """It reads what its values do not tell."""

    ONE = 1

    @classmethod
    def _missing_(cls, value):
        return cls.ONE if isinstance(value, list) else None


@pytest.mark.parametrize(
    ("value", "annotation", "text"),
    [
        ([[]] * 90_000, dict[str, int], "expected dict[str, int], got list"),
        (
            {str(n): None for n in range(20_000)},
            list[int] | None,
            "expected list[int] | None, got dict",
        ),
        ("\u20ac" * 30_000, Point, "expected Point, got str"),
        (bytes(70_000), int, "expected int, got bytes"),
    ],
)
def test_large_data_of_a_wrong_type_are_not_built(value, annotation, text):
    """The first byte tells the type; the text is that of small data of this type."""
    codecs, data = Codecs(), cbor2.dumps(value)
    with pytest.raises(CodecError):
        codecs.decode(cbor2.dumps(type(value)()), annotation, MIME.CBOR)
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match=re.escape(text)):
            codecs.decode(data, annotation, MIME.CBOR)
        assert tracemalloc.get_traced_memory()[1] < 64 * KIB
    finally:
        tracemalloc.stop()


def test_code_of_the_application_sees_large_data_of_any_type():
    """What it accepts cannot be told by the annotation."""
    data = cbor2.dumps([0] * 70_000)
    assert Codecs().decode(data, Loose, MIME.CBOR) is Loose.ONE


def outcome(data, annotation=Any):
    try:
        return repr(CborCodec().decode(data, annotation))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("number", [7, None])
def test_small_data_are_read_as_large_ones(number):
    """Damaged, cut off, or with more behind them: values and errors are those of the slower way."""
    rng = random_of(number)
    for _ in range(3000):
        data = bytearray(an_item(rng)[0])
        for _ in range(rng.randrange(3)):
            place = rng.randrange(len(data) + 1)
            data[place : place + rng.randrange(2)] = rng.randbytes(rng.randrange(3))
        found = outcome(bytes(data))
        with mock.patch("rsocket_trio.codecs.cbor._SMALL", -1):
            assert found == outcome(bytes(data)), data.hex()
