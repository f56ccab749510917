"""The four request frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.frames import (
    FrameType,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    decode,
    encode_request,
)
from rsocket_trio.frames.header import COMPLETE, FOLLOWS, METADATA

U31 = st.integers(0, 2**31 - 1)
BODY = st.binary(max_size=80)
METADATA_OR_NOT = st.none() | BODY
WITHOUT_N = [FrameType.REQUEST_RESPONSE, FrameType.REQUEST_FNF]
WITH_N = [FrameType.REQUEST_STREAM, FrameType.REQUEST_CHANNEL]


@given(
    st.builds(RequestResponseFrame, U31, st.booleans(), METADATA_OR_NOT, BODY)
    | st.builds(RequestFnfFrame, U31, st.booleans(), METADATA_OR_NOT, BODY)
    | st.builds(RequestStreamFrame, U31, U31, st.booleans(), METADATA_OR_NOT, BODY)
    | st.builds(RequestChannelFrame, U31, U31, st.booleans(), st.booleans(), METADATA_OR_NOT, BODY)
)
def test_round_trip(frame):
    """All fields of a request come back, as the same type."""
    assert decode(frame.encode()) == frame


@pytest.mark.parametrize(
    "frame",
    [
        RequestResponseFrame(1, metadata=bytes(0x10203), data=b"d"),
        RequestStreamFrame(1, 5, metadata=bytes(0x10203), data=b"d"),
    ],
    ids=["without-n", "with-n"],
)
def test_a_metadata_length_of_three_bytes(frame):
    """All 24 bits of the metadata length are written."""
    assert decode(frame.encode()) == frame


def test_the_plain_function_makes_the_same_frame():
    """``encode_request`` and the class agree."""
    frame = RequestChannelFrame(1, 5, follows=True, complete=True, metadata=b"m", data=b"d")
    flags = FOLLOWS | COMPLETE
    assert encode_request(FrameType.REQUEST_CHANNEL, 1, flags, 5, b"m", b"d") == frame.encode()


def test_complete_is_ignored_on_the_other_requests():
    """C is defined for REQUEST_CHANNEL only."""
    for frame_type, n in zip(WITHOUT_N + WITH_N[:1], (None, None, 1), strict=True):
        plain = encode_request(frame_type, 1, 0, n, None, b"")
        assert decode(encode_request(frame_type, 1, COMPLETE, n, None, b"")) == decode(plain)


@pytest.mark.parametrize("frame_type", WITH_N)
def test_the_initial_n_is_31_bits(frame_type):
    """0 decodes, and layers above judge it; the reserved bit and larger numbers are refused."""
    frame = encode_request(frame_type, 3, 0, 0, None, b"d")
    assert decode(frame).initial_request_n == 0
    with pytest.raises(MalformedFrame, match="reserved bit") as info:
        decode(frame[:6] + b"\x80" + frame[7:])
    assert info.value.stream_id == 3
    for n in (-1, 2**31):
        with pytest.raises(LocalProtocolError, match="initial request n must be between"):
            encode_request(frame_type, 3, 0, n, None, b"")


@pytest.mark.parametrize("frame_type", WITH_N)
@pytest.mark.parametrize("size", range(6, 10))
def test_the_initial_n_cut_off(frame_type, size):
    """A request without its whole number is malformed."""
    frame = encode_request(frame_type, 3, 0, 1, None, b"")
    with pytest.raises(MalformedFrame, match="initial request n is cut off"):
        decode(frame[:size])


def test_two_types_have_an_initial_n():
    """A number without a field, or a field without a number, is a local error."""
    for frame_type in WITHOUT_N:
        with pytest.raises(LocalProtocolError, match="does not fit"):
            encode_request(frame_type, 1, 0, 1, None, b"")
    for frame_type in WITH_N:
        with pytest.raises(LocalProtocolError, match="does not fit"):
            encode_request(frame_type, 1, 0, None, None, b"")


@pytest.mark.parametrize("metadata", [None, b"m"])
@pytest.mark.parametrize(("stream_id", "flags"), [(-1, 0), (2**31, 0), (1, 0x400), (1, -1)])
def test_values_that_do_not_fit(stream_id, flags, metadata):
    """A stream id or flags out of range are a local error."""
    with pytest.raises(LocalProtocolError, match="stream id"):
        encode_request(FrameType.REQUEST_FNF, stream_id, flags, None, metadata, b"")


def test_the_metadata_flag_needs_metadata():
    """M without metadata would turn data into metadata, so it is refused."""
    with pytest.raises(LocalProtocolError, match="M without metadata"):
        encode_request(FrameType.REQUEST_FNF, 1, METADATA, None, None, b"")


@pytest.mark.parametrize("n", [None, 1])
@pytest.mark.parametrize(
    ("metadata", "data"),
    [(None, bytes(0xFFFFFF)), (bytes(0xFFFFFF), b""), (bytes(0x1000000), b"")],
    ids=["data", "metadata", "metadata-over-24-bits"],
)
def test_a_request_that_no_frame_can_hold(n, metadata, data):
    """A request longer than 16,777,215 bytes is a local error."""
    frame_type = FrameType.REQUEST_FNF if n is None else FrameType.REQUEST_STREAM
    with pytest.raises(LocalProtocolError, match="length must be between 0 and 16777215"):
        encode_request(frame_type, 1, 0, n, metadata, data)
