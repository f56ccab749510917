"""EXT frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.frames import ExtFrame, decode

U31 = st.integers(0, 2**31 - 1)


@given(
    st.builds(
        ExtFrame,
        U31,
        U31,
        st.booleans(),
        st.none() | st.binary(max_size=50),
        st.binary(max_size=50),
    )
)
def test_round_trip(frame):
    """All fields of an EXT come back, extended type 0 too."""
    assert decode(frame.encode()) == frame


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(
    ("body", "what"),
    [("000000", "cut off"), ("80000001", "reserved bit"), ("00000001 0000", "metadata")],
)
def test_malformed(ignore, body, what):
    """A broken EXT says whether it may be skipped."""
    head = bytes.fromhex("00000005" + ("ff00" if ignore else "fd00"))
    with pytest.raises(MalformedFrame, match=what) as info:
        decode(head + bytes.fromhex(body))
    assert (info.value.ignorable, info.value.stream_id) == (ignore, 5)


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (ExtFrame(2**31, 1), "stream id"),
        (ExtFrame(1, 2**31), "extended type"),
        (ExtFrame(1, 1, data=bytes(0xFFFFFF)), "frame length"),
    ],
    ids=["stream-id", "type", "size"],
)
def test_values_that_do_not_fit(frame, what):
    """A value that is too large for its field or frame is a local error."""
    with pytest.raises(LocalProtocolError, match=what):
        frame.encode()
