"""METADATA_PUSH frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.frames import MetadataPushFrame, decode, encode_metadata_push


@given(st.builds(MetadataPushFrame, st.binary(max_size=50), st.integers(0, 2**31 - 1)))
def test_round_trip(frame):
    """The metadata comes back, empty or not, with an illegal stream id too."""
    assert decode(frame.encode()) == frame


def test_metadata_is_the_rest_of_the_frame():
    """There is no metadata length, and no data; M is set."""
    assert encode_metadata_push(b"abc") == bytes.fromhex("000000003100 616263")


def test_the_metadata_flag_is_not_needed():
    """M is always 1 in this frame; a frame without it is read in the same way."""
    assert decode(bytes.fromhex("000000003000 616263")) == MetadataPushFrame(b"abc")


def test_values_that_do_not_fit():
    """A stream id beyond 31 bits or too much metadata is a local error."""
    with pytest.raises(LocalProtocolError, match="stream id"):
        MetadataPushFrame(b"", stream_id=-1).encode()
    with pytest.raises(LocalProtocolError, match="frame length"):
        encode_metadata_push(bytes(0xFFFFFF - 5))
