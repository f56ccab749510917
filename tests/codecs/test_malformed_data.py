"""Data that are malformed, or made to cost memory, time or depth, are codec errors."""

import traceback
from contextlib import nullcontext, suppress
from datetime import datetime
from typing import Any, Literal

import cbor2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.codecs import DEFAULT_CODECS, CborCodec, CodecError, Codecs
from rsocket_trio.metadata.mime_types import MIME

from .annotated import BOTH, Colour, Point, Tree


def bignum(size, tag=b"\xc2"):
    return tag + b"\x5a" + size.to_bytes(4, "big") + b"\xf1" * size


HOSTILE = {
    "deep lists": (b"\x81" * 100_000, MIME.CBOR),
    "deep maps": (b"\xa1" * 100_000, MIME.CBOR),
    "deep tags": (b"\xc1" * 100_000, MIME.CBOR),
    "deeper than 200": (b"\x81" * 201 + b"\0", MIME.CBOR),
    "long list": (bytes.fromhex("9bffffffffffffffff"), MIME.CBOR),
    "long map": (bytes.fromhex("bb00000000ffffffff"), MIME.CBOR),
    "long bytes": (bytes.fromhex("5bffffffffffffffff"), MIME.CBOR),
    "long text": (bytes.fromhex("7b00000000ffffffff"), MIME.CBOR),
    "large bigfloat": (bytes.fromhex("c5821b7fffffffffffffff01"), MIME.CBOR),
    "far date": (bytes.fromhex("c11bffffffffffffffff"), MIME.CBOR),
    "cycle": (bytes.fromhex("d81c81d81d00"), MIME.CBOR),
    "cycle, long tags": (bytes.fromhex("d9001c81da0000001d00"), MIME.CBOR),
    "regular expression": (cbor2.dumps(cbor2.CBORTag(35, "a")), MIME.CBOR),
    "MIME message": (cbor2.dumps(cbor2.CBORTag(36, "a: b")), MIME.CBOR),
    "two items": (b"\1\2", MIME.CBOR),
    "fraction of a large decimal": (bytes.fromhex("d81e82c4821a3b9aca0003f6"), MIME.CBOR),
    "fraction of a small decimal": (bytes.fromhex("d81e82c4823a3b9aca0003f6"), MIME.CBOR),
    "fraction of text": (b"\xd8\x1e\x82\x6c1e1000000000\xf6", MIME.CBOR),
    "fraction without a denominator": (bytes.fromhex("d81e8101"), MIME.CBOR),
    "fraction by zero": (bytes.fromhex("d81e820100"), MIME.CBOR),
    "large fraction": (b"\xd8\x1e\x82" + bignum(10**6) + bignum(10**6), MIME.CBOR),
    "large decimal": (b"\xc4\x82\x01" + bignum(10**6), MIME.CBOR),
    "large mantissa": (b"\xc5\x82\x01" + bignum(10**6, b"\xc3"), MIME.CBOR),
    "large integer": (bignum(1025), MIME.CBOR),
    "integer of text": (b"\xc2\x61a", MIME.CBOR),
    "references to text": (bytes.fromhex("d9010082656865 6c6c6fd81900"), MIME.CBOR),
    "large float": (b"[1e309]", MIME.JSON),
    "large negative float": (b"-" + b"9" * 310 + b".0", MIME.JSON),
    "nothing": (b"", MIME.CBOR),
    "no JSON at all": (b"", MIME.JSON),
    "deep JSON lists": (b"[" * 100_000, MIME.JSON),
    "deep JSON objects": (b'{"a":' * 100_000, MIME.JSON),
    "long JSON number": (b"1" * 5000, MIME.JSON),
    "NaN": (b"[NaN]", MIME.JSON),
    "infinity": (b"-Infinity", MIME.JSON),
    "UTF-16": ("1".encode("utf-16"), MIME.JSON),
    "two JSON values": (b"1 2", MIME.JSON),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("annotation", [object, Tree, list[int]])
def test_hostile_data_are_codec_errors(name, annotation):
    """Depth, promised lengths, cycles, costly tags: each is a CodecError, at once."""
    data, mime_type = HOSTILE[name]
    with pytest.raises(CodecError, match=f"{len(data)} bytes of {mime_type} cannot be read as"):
        DEFAULT_CODECS.decode(data, annotation, mime_type)


def test_keys_with_chosen_hashes_are_refused_in_large_data():
    """Numbers with one hash make a map slow to read, so only small data may have such keys."""
    table = {(2**61 - 1) * (n + 2**10): 0 for n in range(10)}
    data = DEFAULT_CODECS.encode(table, dict, MIME.CBOR)
    assert len({hash(key) for key in table}) == 1
    for size, refused in ((len(data), False), (len(data) - 1, True)):
        codecs = Codecs({MIME.CBOR: CborCodec(any_keys_size=size)})
        with pytest.raises(CodecError) if refused else nullcontext():
            assert codecs.decode(data, dict[int, int], MIME.CBOR) == table
    large = DEFAULT_CODECS.encode({"x" * 70_000: 1, b"y": 2}, dict, MIME.CBOR)
    assert len(DEFAULT_CODECS.decode(large, dict, MIME.CBOR)) == 2


@pytest.mark.parametrize("size", [8 * 2**10, 8 * 2**10 + 1])
def test_the_size_limit_of_data_with_any_keys(size):
    """The default is 8 KiB, to the byte."""
    data = DEFAULT_CODECS.encode({1: bytes(size - 5)}, dict, MIME.CBOR)
    assert len(data) == size
    with pytest.raises(CodecError) if size > 8 * 2**10 else nullcontext():
        assert DEFAULT_CODECS.decode(data, dict, MIME.CBOR) == {1: bytes(size - 5)}


@given(
    st.binary(max_size=60),
    st.sampled_from(
        [object, int, str, Tree, Point, list[int | str], dict[str, Any], datetime, None]
    ),
    st.sampled_from([*BOTH, MIME.TEXT, MIME.OCTET_STREAM]),
)
def test_any_bytes_are_a_value_or_a_codec_error(data, annotation, mime_type):
    """No bytes lead to another exception."""
    with suppress(CodecError):
        DEFAULT_CODECS.decode(data, annotation, mime_type)


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    colour: Colour = Colour.RED
    kind: Literal["a", "b"] = "a"


@pytest.mark.parametrize("mime_type", [MIME.CBOR, MIME.JSON, MIME.TEXT])
@pytest.mark.parametrize("size", [0, 70_000])
@pytest.mark.parametrize("key", ["colour", "kind", "secret"])
def test_the_traceback_shows_no_value(key, size, mime_type):
    """The error of msgspec has the value, and is no context of the error: logs show contexts."""
    data = DEFAULT_CODECS.encode({key: "secret" + "x" * size}, dict, mime_type)
    with pytest.raises(CodecError) as caught:
        DEFAULT_CODECS.decode(data, Strict, mime_type)
    assert "secret" not in "".join(traceback.format_exception(caught.value))
