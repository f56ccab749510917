"""Fields of protobuf messages: the forms that are legal, and those that are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.ttrpc.wire.any_form import MAX_FIELDS
from rsocket_trio.ttrpc.wire.protobuf import (
    MAX_DEPTH,
    FieldReader,
    field,
    only_field,
    read_varint,
    varint,
)


def skip_all(data, max_fields=1000):
    """Skip all the fields; return their numbers."""
    reader = FieldReader(data, "X", max_fields)
    numbers = []
    while number := reader.next():
        numbers.append(number)
        reader.skip()
    return numbers


def first(data):
    reader = FieldReader(data, "X", 10)
    assert reader.next() == 1
    return reader


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**35, "808080808001"),
        (2**63 - 1, "ffffffffffffffff7f"),
        (2**64 - 1, "ffffffffffffffffff01"),
    ],
)
def test_varints(value, text):
    assert varint(value).hex() == text
    assert read_varint(bytes.fromhex(text), 0) == (value, len(text) // 2)
    assert read_varint(b"\xff" + bytes.fromhex(text) + b"\xff", 1) == (value, 1 + len(text) // 2)


def test_negative_varints_have_ten_bytes():
    assert varint(-1).hex() == "ffffffffffffffffff01"
    assert varint(-(2**63)).hex() == "80808080808080808001"


def test_longer_varints_than_necessary_are_legal():
    assert read_varint(b"\x85\x80\x00", 0) == (5, 3)
    assert read_varint(b"\x85" + b"\x80" * 8 + b"\x00", 0) == (5, 10)


@given(st.integers(0, 2**64 - 1))
def test_each_number_returns(value):
    assert read_varint(varint(value), 0) == (value, len(varint(value)))


@pytest.mark.parametrize("data", [b"\x80" * 10 + b"\0", b"\xff" * 9 + b"\x02", b"\xff" * 20])
def test_varints_of_more_than_64_bits(data):
    with pytest.raises(ValueError, match="longer than 64 bits"):
        read_varint(data, 0)
    for body in (data, b"\x08" + data, b"\x0a" + data):
        with pytest.raises(MalformedFrame, match="a varint is longer than 64 bits"):
            skip_all(body)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 9])
def test_varints_that_are_cut_off(data):
    with pytest.raises(IndexError):
        read_varint(data, 0)
    with pytest.raises(MalformedFrame, match="a varint is cut off"):
        skip_all(b"\x08" + data)


@pytest.mark.parametrize(
    ("value", "signed"),
    [
        (0, (0, 0)),
        (2**31 - 1, (2**31 - 1, 2**31 - 1)),
        (2**31, (-(2**31), 2**31)),
        (2**32 + 5, (5, 2**32 + 5)),
        (2**63 - 1, (-1, 2**63 - 1)),
        (2**64 - 1, (-1, -1)),
        (2**63, (0, -(2**63))),
    ],
)
def test_signed_numbers(value, signed):
    """Of a number that is too long for its type, the upper bits are cut off."""
    data = b"\x08" + varint(value)
    assert first(data).varint("x") == value
    assert (first(data).int32("x"), first(data).int64("x")) == signed


@pytest.mark.parametrize(
    ("data", "numbers"),
    [
        (b"", []),
        (b"\x08\x01\x12\x00", [1, 2]),
        (b"\x09" + bytes(8) + b"\x0d" + bytes(4), [1, 1]),
        (b"\xa2\x06\x01x", [100]),
        (b"\xf8\xff\xff\xff\x0f\x00", [2**29 - 1]),
        (b"\x88\x80\x00\x00", [1]),  # a tag with more bytes than necessary
        (b"\x0b\x0c", [1]),
        (b"\x0b\x10\x05\x1a\x01x\x21" + bytes(8) + b"\x2b\x2c\x0c\x10\x00", [1, 2]),
        (b"\x0b" * MAX_DEPTH + b"\x0c" * MAX_DEPTH, [1]),
    ],
)
def test_unknown_fields_are_skipped(data, numbers):
    assert skip_all(data) == numbers


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"\x00\x00", "X, byte 1: 0 is no field number"),
        (b"\x80\x80\x80\x80\x10\x00", "536870912 is no field number"),
        (b"\x0e", "6 is no wire type"),
        (b"\x0f", "7 is no wire type"),
        (b"\x08\x00\x09" + bytes(7), "X, byte 3: field 1 is cut off"),
        (b"\x0d" + bytes(3), "field 1 is cut off"),
        (b"\x0a\x02x", "field 1 has 2 bytes, but 1 are left"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "field 1 has 18446744073709551615 bytes"),
        (b"\x0a", "a varint is cut off"),
        (b"\x0c", "a group ends that did not begin"),
        (b"\x0b", "the group 1 has no end"),
        (b"\x0b\x14", "a group ends that did not begin"),
        (b"\x0b\x13\x0c\x14", "a group ends that did not begin"),
        (b"\x0b\x0e", "6 is no wire type"),
        (b"\x0b" * (MAX_DEPTH + 1), "groups are nested deeper than 100"),
    ],
)
def test_malformed_fields(data, match):
    with pytest.raises(MalformedFrame, match=match):
        skip_all(data)


def test_the_number_of_fields_is_limited():
    """Also that of the fields in groups, and in messages."""
    assert len(skip_all(b"\x08\x00" * 9, 9)) == 9
    for data in (b"\x08\x00" * 10, b"\x0b" + b"\x10\x00" * 8 + b"\x0c"):
        with pytest.raises(MalformedFrame, match="too many fields"):
            skip_all(data, 9)
    reader = FieldReader(field(1, b"\x08\x00" * 9), "X", 9)
    reader.next()
    reader.enter("a")
    with pytest.raises(MalformedFrame, match="too many fields"):
        while reader.next():
            reader.skip()


def test_groups_at_their_deepest_are_within_the_number_of_fields():
    """Otherwise the limit of their depth would never be reached."""
    assert 2 * MAX_DEPTH < MAX_FIELDS


@pytest.mark.parametrize("read", ["blob", "text", "enter"])
def test_a_known_field_of_another_wire_type(read):
    with pytest.raises(MalformedFrame, match="name has the wire type 0 instead of 2"):
        getattr(first(b"\x08\x00"), read)("name")
    with pytest.raises(MalformedFrame, match="name has the wire type 2 instead of 0"):
        first(b"\x0a\x00").varint("name")


@pytest.mark.parametrize(
    "data", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"]
)
def test_strings_that_are_not_utf8(data):
    with pytest.raises(MalformedFrame, match="name is a string that is not UTF-8"):
        first(field(1, data)).text("name")


def test_a_message_in_a_message():
    """What is in it cannot run past its end, although the outer message goes on."""
    reader = FieldReader(b"\x0a\x02\x10\x05\x18\x06", "X", 10)
    assert reader.next() == 1
    outer = reader.enter("a")
    assert reader.size == 2
    assert (reader.next(), reader.varint("b"), reader.next()) == (2, 5, 0)
    reader.leave(outer)
    assert (reader.next(), reader.varint("c"), reader.next()) == (3, 6, 0)


@pytest.mark.parametrize(
    ("inner", "match"),
    [
        (b"\x10", "a varint is cut off"),
        (b"\x10\x85", "a varint is cut off"),
        (b"\x85", "a varint is cut off"),
        (b"\x12", "a varint is cut off"),
        (b"\x12\x02x", "field 2 has 2 bytes, but 1 are left"),
        (b"\x11" + bytes(7), "field 2 is cut off"),
        (b"\x13", "the group 2 has no end"),
    ],
)
def test_a_field_that_runs_past_its_message(inner, match):
    reader = first(field(1, inner) + b"\x14\x01" + bytes(20))
    reader.enter("a")
    with pytest.raises(MalformedFrame, match=match):
        while reader.next():
            reader.skip()


def read_only_field(data: bytes, number: int) -> bytes | None:
    """What `only_field` does, by the reader that knows every form."""
    reader = FieldReader(data, "Message", 2)
    try:
        if not (found := reader.next()):
            return b""
        contents = reader.blob("contents")
        return contents if found == number and not reader.next() else None
    except MalformedFrame:
        return None


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 129, 130, 16_382, 16_383, 16_384, 70_000])
def test_the_only_field_is_found(size):
    """What is longer than 16383 bytes is left to the other way."""
    data = b"before" + field(2, b"x" * size)
    found = only_field(data, 6, 0x12)
    assert found == (b"x" * size if size < 16_384 else None)
    assert only_field(data, 6, 0x1A) is None
    assert only_field(data + b"\x00", 6, 0x12) is None
    assert only_field(data[:-1], 6, 0x12) is None
    assert only_field(data, len(data), 0x12) == b""


@given(st.binary(max_size=6), st.integers(0, 400))
def test_the_only_field_is_that_of_the_reader(head, size):
    """Whatever the bytes are, it is the same field, or none; a wrong one never."""
    for data in (head + bytes(size), b"\x12" + head + bytes(size), field(2, head + bytes(size))):
        found = only_field(data, 0, 0x12)
        assert found is None or found == read_only_field(data, 2)
