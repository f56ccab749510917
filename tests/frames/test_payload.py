"""PAYLOAD frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.frames import PayloadFrame, decode, encode_payload
from rsocket_trio.frames.header import COMPLETE, FOLLOWS, METADATA, NEXT

BODY = st.binary(max_size=80)


@given(
    st.builds(
        PayloadFrame,
        st.integers(0, 2**31 - 1),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.none() | BODY,
        BODY,
    )
)
def test_round_trip(frame):
    """All fields of a PAYLOAD come back."""
    assert decode(frame.encode()) == frame


@pytest.mark.parametrize("metadata", [None, b"", b"m", bytes(0x10203)])
def test_the_plain_function_makes_the_same_frame(metadata):
    """``encode_payload`` and the class agree, and M follows from the metadata."""
    frame = PayloadFrame(9, next=True, complete=True, follows=True, metadata=metadata, data=b"d")
    assert encode_payload(9, NEXT | COMPLETE | FOLLOWS, metadata, b"d") == frame.encode()
    assert bool(frame.encode()[4] & 1) == (metadata is not None)
    assert decode(frame.encode()) == frame


def test_undefined_flags_are_ignored():
    """Bits that PAYLOAD does not define change nothing."""
    plain = encode_payload(1, NEXT, None, b"x")
    assert decode(encode_payload(1, NEXT | 0x21F, None, b"x")) == decode(plain)


@pytest.mark.parametrize("metadata", [None, b"m"])
@pytest.mark.parametrize(
    ("stream_id", "flags"), [(-1, 0), (2**31, 0), (2**40, 0), (1, 0x400), (1, -1)]
)
def test_values_that_do_not_fit(stream_id, flags, metadata):
    """A stream id or flags out of range are a local error."""
    with pytest.raises(LocalProtocolError, match="stream id"):
        encode_payload(stream_id, flags, metadata, b"")


def test_the_metadata_flag_needs_metadata():
    """M without metadata would turn data into metadata, so it is refused."""
    with pytest.raises(LocalProtocolError, match="M without metadata"):
        encode_payload(1, METADATA, None, b"")
    assert encode_payload(1, METADATA, b"m", b"") == encode_payload(1, 0, b"m", b"")


@pytest.mark.parametrize(
    ("metadata", "data"),
    [
        (None, bytes(0xFFFFFF - 5)),
        (b"", bytes(0xFFFFFF - 8)),
        (bytes(0xFFFFFF - 8), b""),
        (bytes(0x1000000), b""),
    ],
    ids=["data", "data-and-metadata", "metadata", "metadata-over-24-bits"],
)
def test_a_payload_that_no_frame_can_hold(metadata, data):
    """A payload longer than 16,777,215 bytes is a local error."""
    with pytest.raises(LocalProtocolError, match="length must be between 0 and 16777215"):
        encode_payload(1, NEXT, metadata, data)
