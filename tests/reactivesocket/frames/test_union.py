"""Decoding of any bytes, and encoding of any frame."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame, MetadataLengthError
from rsocket_trio.reactivesocket.frames import (
    CancelFrame,
    ErrorFrame,
    ExtFrame,
    FrameType,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    RequestSubFrame,
    ResponseFrame,
    SetupFrame,
    as_fields,
    decode,
    describe,
)
from rsocket_trio.reactivesocket.frames.header import encode_frame

U32 = st.integers(0, 2**32 - 1)
DATA = st.binary(max_size=40)
METADATA = st.none() | DATA
FLAG = st.booleans()
MIME = st.text(st.characters(max_codepoint=255, exclude_characters="\0"), max_size=255)
FRAMES = st.one_of(
    st.builds(
        SetupFrame, U32, U32, U32, FLAG, FLAG, MIME, MIME, metadata=METADATA, data=DATA,
        stream_id=U32,
    ),
    st.builds(LeaseFrame, U32, U32, METADATA, U32),
    st.builds(KeepaliveFrame, FLAG, DATA, U32),
    st.builds(RequestResponseFrame, U32, METADATA, DATA),
    st.builds(RequestFnfFrame, U32, METADATA, DATA),
    st.builds(RequestStreamFrame, U32, U32, METADATA, DATA, FLAG),
    st.builds(RequestSubFrame, U32, U32, METADATA, DATA, FLAG),
    st.builds(RequestChannelFrame, U32, st.none() | U32, FLAG, FLAG, METADATA, DATA),
    st.builds(RequestNFrame, U32, U32),
    st.builds(CancelFrame, U32, METADATA),
    st.builds(ResponseFrame, U32, FLAG, FLAG, METADATA, DATA),
    st.builds(ErrorFrame, U32, U32, METADATA, DATA),
    st.builds(MetadataPushFrame, DATA, U32),
    st.builds(ExtFrame, U32, U32, FLAG, FLAG, DATA),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(FRAMES)
def test_a_frame_survives_the_wire(frame):
    """An encoded frame decodes to the same frame, and both texts for people show it."""
    encoded = frame.encode()
    assert decode(encoded) == frame
    assert describe(encoded).startswith(f"{frame.frame_type.name} stream_id={frame.stream_id}")
    assert as_fields(encoded)["type_code"] == f"0x{frame.frame_type:04x}"


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.builds(
            lambda kind, flags, rest: kind.to_bytes(2, "big") + flags.to_bytes(2, "big") + rest,
            st.sampled_from([*FrameType, 0, 14]),
            st.integers(0, 0xFFFF),
            st.binary(max_size=60),
        ),
    )
)
def test_any_bytes_are_a_frame_or_malformed(data):
    """All bytes decode or raise the one error, and `describe` raises none."""
    with contextlib.suppress(MalformedFrame):
        assert as_fields(data)["type"] == decode(data).frame_type.name
    assert describe(data)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ("0004400000000002 00000003", "metadata length of 3"),
        ("0004400000000002 00000005", "metadata length of 5"),
        ("0004400000000002 000000", "metadata length of 0"),
        ("000d400000000000 80000004", "metadata length of 2147483652"),
    ],
)
def test_impossible_metadata_lengths(frame, message):
    """A metadata length below 4, past the frame, cut off or with its R bit is refused."""
    with pytest.raises(MetadataLengthError, match=message):
        decode(bytes.fromhex(frame))


def test_metadata_that_is_present_and_empty():
    """A metadata length of 4 is metadata of no bytes (V0-META-01)."""
    frame = decode(bytes.fromhex("0004400000000002 00000004 78"))
    assert frame == RequestResponseFrame(2, b"", b"x")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ("", "0 bytes is shorter than its 8-byte header"),
        ("000900000000000c000000", "request n is cut off"),
        ("000100000000000000000000", "fixed fields of SETUP"),
        ("0001000000000000" + "00" * 12, "MIME type of SETUP"),
        ("0001000000000000" + "00" * 12 + "0578", "MIME type of SETUP"),
        ("000200000000000000000001", "fields of the lease"),
        ("000d000000000000", "without the metadata flag"),
        ("0000000000000000", "frame type 0x0000 is not known"),
        ("ffff000000000007", "extended type is cut off"),
    ],
)
def test_malformed_frames_are_explained(frame, message):
    """Each missing part is named, in the error and for people."""
    with pytest.raises(MalformedFrame, match=message):
        decode(bytes.fromhex(frame))
    assert message in describe(bytes.fromhex(frame))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (RequestNFrame(2, 2**32), "request n must be"),
        (RequestNFrame(-1, 1), "stream id must be"),
        (SetupFrame(2**32, 1, 1), "version must be"),
        (SetupFrame(0, 1, 1, data_mime_type="x" * 256), "at most 255 bytes, not 256"),
        (SetupFrame(0, 1, 1, data_mime_type="☃"), "not Latin-1"),
    ],
)
def test_values_that_do_not_fit_are_not_encoded(frame, message):
    """A value that is too large for its field is the caller's error."""
    with pytest.raises(LocalProtocolError, match=message):
        frame.encode()


@pytest.mark.parametrize(
    "frame",
    [
        RequestNFrame(2**32 - 1, 2**32 - 1),
        RequestNFrame(0, 0),
        SetupFrame(2**32 - 1, 1, 1, data_mime_type="x" * 255),
    ],
)
def test_the_largest_values_are_encoded(frame):
    """They fill their fields."""
    assert decode(frame.encode()) == frame


class Huge(bytes):
    """With the header, it is one byte more than a length field can hold."""

    size = 2**31 - 1 - 4 - 8 + 1

    def __len__(self):
        return self.size


class AlmostHuge(Huge):
    size = Huge.size - 1


def test_frames_too_long_for_their_length_field():
    """The limit is 31 bits, with the length itself."""
    with pytest.raises(LocalProtocolError, match="longer than the maximum 2147483643"):
        encode_frame(FrameType.KEEPALIVE, 0, 0, data=Huge())
    encode_frame(FrameType.KEEPALIVE, 0, 0, data=AlmostHuge())


def test_credentials_are_not_described():
    """Of metadata and of the data of SETUP, `describe` shows only the length."""
    line = describe(SetupFrame(0, 1, 2, strict=True, metadata=b"token", data=b"secret").encode())
    assert line == (
        "SETUP stream_id=0 flags=MS version=0 keepalive=1 lifetime=2"
        " metadata_mime='application/octet-stream' data_mime='application/octet-stream'"
        " metadata=5 bytes data=6 bytes"
    )
    line = describe(ErrorFrame(4, 0x202, b"why", b"x" * 40).encode())
    assert line == (
        f"ERROR stream_id=4 flags=M code=REJECTED metadata=3 bytes data=40 bytes {b'x' * 32!r}..."
    )
