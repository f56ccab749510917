"""KEEPALIVE frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.frames import KeepaliveFrame, decode, encode_keepalive


@given(
    st.builds(
        KeepaliveFrame,
        st.booleans(),
        st.integers(0, 2**63 - 1),
        st.binary(max_size=50),
        st.integers(0, 2**31 - 1),
    )
)
def test_round_trip(frame):
    """All fields of a KEEPALIVE come back, an illegal stream id too."""
    assert decode(frame.encode()) == frame


def test_the_plain_function_is_on_stream_0():
    """``encode_keepalive`` and the class agree."""
    frame = encode_keepalive(True, 7, b"d")
    assert frame == KeepaliveFrame(True, 7, b"d").encode()
    assert decode(frame).stream_id == 0


def test_the_metadata_flag_is_ignored():
    """KEEPALIVE has no metadata: M takes no bytes of its data."""
    frame = bytes.fromhex("000000000d00 0000000000000000 ffffff")
    assert decode(frame) == KeepaliveFrame(False, 0, b"\xff\xff\xff")


@pytest.mark.parametrize("size", range(6, 14))
def test_a_position_cut_off(size):
    """A KEEPALIVE without its whole position is malformed."""
    with pytest.raises(MalformedFrame, match="position is cut off"):
        decode(encode_keepalive(True, 0, b"")[:size])


def test_the_reserved_bit():
    """The highest bit of the position is not part of it."""
    with pytest.raises(MalformedFrame, match="reserved bit"):
        decode(bytes.fromhex("000000000c80 8000000000000000"))


def test_values_that_do_not_fit():
    """A position beyond 63 bits, a stream id beyond 31 or too much data is a local error."""
    for position in (-1, 2**63):
        with pytest.raises(LocalProtocolError, match="position must be between"):
            encode_keepalive(True, position, b"")
    with pytest.raises(LocalProtocolError, match="stream id"):
        KeepaliveFrame(True, stream_id=2**31).encode()
    with pytest.raises(LocalProtocolError, match="frame length"):
        encode_keepalive(True, 0, bytes(0xFFFFFF - 13))
