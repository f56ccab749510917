"""Numbers from bytes and to bytes: the golden vectors, and any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.rsio.wire.varint import (
    MAX_VARINT,
    MalformedVarint,
    encode_varint,
    read_varint,
)
from tests.rsio.golden import VARINTS

GOOD = [each for each in VARINTS if "value" in each]
BAD = [each for each in VARINTS if "expect" in each]


@pytest.mark.parametrize("vector", GOOD, ids=lambda each: each["hex"])
def test_golden(vector):
    """A number has the bytes of the vector, both ways."""
    number, octets = int(vector["value"]), bytes.fromhex(vector["hex"])
    assert encode_varint(number) == octets
    assert read_varint(octets) == (number, len(octets))


@pytest.mark.parametrize("vector", BAD, ids=lambda each: each["hex"])
def test_malformed(vector):
    """Bytes that are not a number are refused."""
    with pytest.raises(MalformedVarint) as refused:
        read_varint(bytes.fromhex(vector["hex"]))
    assert refused.value.handling == vector["expect"]


@given(st.integers(0, MAX_VARINT), st.binary(max_size=3), st.binary(max_size=3))
def test_any_number(number, before, behind):
    """A number is read between other bytes, and each shorter piece needs more."""
    octets = encode_varint(number)
    at, end = len(before), len(before) + len(octets)
    assert read_varint(before + octets + behind, at) == (number, end)
    for cut in range(len(octets)):
        assert read_varint(octets[:cut]) is None


@given(st.binary(max_size=12))
def test_any_bytes(data):
    """Bytes are a number with exactly these bytes, or need more, or are refused."""
    try:
        found = read_varint(data)
    except MalformedVarint:
        return
    if found is None:
        assert len(data) < 9
        assert all(octet > 127 for octet in data)
    else:
        number, end = found
        assert encode_varint(number) == data[:end]


@pytest.mark.parametrize(("octets", "earliest"), [("8100", 2), ("808000", 3), ("ff" * 10, 9)])
def test_the_earliest_octet(octets, earliest):
    """A malformed number is refused as soon as it can be known."""
    data = bytes.fromhex(octets)
    assert read_varint(data[: earliest - 1]) is None
    with pytest.raises(MalformedVarint):
        read_varint(data[:earliest])


@pytest.mark.parametrize("number", [-1, MAX_VARINT + 1])
def test_numbers_that_cannot_be_encoded(number):
    """Only 0 to 2^63-1 can be encoded."""
    with pytest.raises(ValueError, match="is not from 0"):
        encode_varint(number)
