"""LEASE frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.frames import LeaseFrame, decode

U31 = st.integers(0, 2**31 - 1)


@given(st.builds(LeaseFrame, U31, U31, st.none() | st.binary(max_size=50), U31))
def test_round_trip(frame):
    """All fields of a LEASE come back: zeros, empty metadata, an illegal stream id."""
    assert decode(frame.encode()) == frame


def test_metadata_is_the_rest_of_the_frame():
    """There is no metadata length."""
    frame = LeaseFrame(1, 2, b"abc").encode()
    assert frame == bytes.fromhex("000000000900 00000001 00000002 616263")


def test_bytes_after_the_fields_are_ignored_without_the_metadata_flag():
    """Without M there are no metadata, also if bytes follow."""
    assert decode(LeaseFrame(1, 2).encode() + b"abc") == LeaseFrame(1, 2)


@pytest.mark.parametrize("size", range(6, 14))
def test_fields_cut_off(size):
    """A LEASE without both numbers is malformed."""
    with pytest.raises(MalformedFrame, match="fields of the lease are cut off"):
        decode(LeaseFrame(1, 2).encode()[:size])


@pytest.mark.parametrize("fields", ["80000001 00000002", "00000001 80000002"])
def test_the_reserved_bits(fields):
    """The highest bit of either number is not part of it."""
    with pytest.raises(MalformedFrame, match="reserved bit"):
        decode(bytes.fromhex("000000000800" + fields))


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (LeaseFrame(-1, 1), "time to live"),
        (LeaseFrame(2**31, 1), "time to live"),
        (LeaseFrame(1, -1), "number of requests"),
        (LeaseFrame(1, 2**31), "number of requests"),
        (LeaseFrame(1, 1, stream_id=2**31), "stream id"),
        (LeaseFrame(1, 1, bytes(0xFFFFFF - 13)), "frame length"),
    ],
    ids=["ttl-below", "ttl-above", "n-below", "n-above", "stream-id", "size"],
)
def test_values_that_do_not_fit(frame, what):
    """A value that is too large for its field or frame is a local error."""
    with pytest.raises(LocalProtocolError, match=what):
        frame.encode()
