"""CANCEL frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.frames import CancelFrame, decode, encode_cancel


@given(st.builds(CancelFrame, st.integers(0, 2**31 - 1)))
def test_round_trip(frame):
    """The stream id, its only field, comes back."""
    assert decode(frame.encode()) == frame


def test_flags_and_bytes_after_the_header_are_ignored():
    """CANCEL defines no flag, not even M, and no body."""
    assert decode(bytes.fromhex("0000000127ff ffffff")) == CancelFrame(1)


@pytest.mark.parametrize("stream_id", [-1, 2**31])
def test_values_that_do_not_fit(stream_id):
    """A stream id beyond 31 bits is our own error."""
    with pytest.raises(LocalProtocolError, match="stream id must be between"):
        encode_cancel(stream_id)
