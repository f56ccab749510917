"""ERROR frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.frames import ErrorFrame, decode, encode_error


@given(
    st.builds(
        ErrorFrame, st.integers(0, 2**31 - 1), st.integers(0, 2**32 - 1), st.binary(max_size=50)
    )
)
def test_round_trip(frame):
    """Any code of 32 bits comes back, and data that is not UTF-8 too."""
    assert decode(frame.encode()) == frame


def test_the_metadata_flag_is_ignored():
    """ERROR has no metadata: M takes no bytes of its data."""
    assert decode(bytes.fromhex("000000012d00 00000201 ffffff")) == ErrorFrame(
        1, 0x201, b"\xff\xff\xff"
    )


@pytest.mark.parametrize("size", range(6, 10))
def test_a_code_cut_off(size):
    """An ERROR without its whole code is malformed."""
    with pytest.raises(MalformedFrame, match="error code is cut off") as info:
        decode(encode_error(5, 0x201, b"")[:size])
    assert info.value.stream_id == 5


@pytest.mark.parametrize(
    ("stream_id", "code", "what"),
    [(-1, 1, "stream id"), (2**31, 1, "stream id"), (1, -1, "code"), (1, 2**32, "code")],
)
def test_values_that_do_not_fit(stream_id, code, what):
    """A stream id beyond 31 bits or a code beyond 32 is a local error."""
    with pytest.raises(LocalProtocolError, match=what):
        encode_error(stream_id, code, b"")


def test_data_that_no_frame_can_hold():
    """Data longer than 16,777,215 bytes is a local error."""
    with pytest.raises(LocalProtocolError, match="frame length"):
        encode_error(1, 0x201, bytes(0xFFFFFF - 9))
