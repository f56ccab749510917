"""REQUEST_N frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.frames import RequestNFrame, decode, encode_request_n

U31 = st.integers(0, 2**31 - 1)


@given(st.builds(RequestNFrame, U31, U31))
def test_round_trip(frame):
    """Every number comes back, 0 too: layers above judge whether it is legal."""
    assert decode(frame.encode()) == frame


def test_bytes_after_the_number_are_ignored():
    """REQUEST_N has no body after its number."""
    assert decode(encode_request_n(1, 5) + b"more") == RequestNFrame(1, 5)


@pytest.mark.parametrize("size", range(6, 10))
def test_a_number_cut_off(size):
    """A REQUEST_N without its whole number is malformed."""
    with pytest.raises(MalformedFrame, match="request n is cut off"):
        decode(encode_request_n(1, 5)[:size])


def test_the_reserved_bit():
    """The highest bit of the number is not part of it."""
    with pytest.raises(MalformedFrame, match="reserved bit before the request n") as info:
        decode(bytes.fromhex("000000012000 80000005"))
    assert info.value.stream_id == 1


@pytest.mark.parametrize(("stream_id", "n"), [(-1, 1), (2**31, 1), (1, -1), (1, 2**31)])
def test_values_that_do_not_fit(stream_id, n):
    """A value beyond 31 bits is a local error."""
    with pytest.raises(LocalProtocolError, match="must be between 0 and 2147483647"):
        encode_request_n(stream_id, n)
