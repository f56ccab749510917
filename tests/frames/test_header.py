"""The frame header and the metadata length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.frames.header import (
    HEADER,
    IGNORE,
    METADATA,
    FrameType,
    check_range,
    check_size,
    join_metadata,
    read_header,
    split_metadata,
)


@given(st.integers(0, 63), st.integers(0, 0x3FF), st.integers(0, 0x7FFFFFFF))
def test_a_header_is_stream_id_type_and_flags(frame_type, flags, stream_id):
    """Type, all ten flags and stream id are read as they were written."""
    frame = HEADER.pack(stream_id, frame_type << 10 | flags)
    assert read_header(frame) == (frame_type, flags, stream_id)


def test_the_type_codes():
    """The codes run from 1 to 0x0E, and EXT is the last of the six bits."""
    assert [*FrameType] == [*range(1, 0x0F), 0x3F]


@pytest.mark.parametrize("size", range(6))
def test_no_room_for_a_header(size):
    """Fewer than six bytes are malformed."""
    with pytest.raises(MalformedFrame, match=f"{size} bytes") as info:
        read_header(b"\xff" * size)
    assert (info.value.ignorable, info.value.stream_id) == (False, 0)


@pytest.mark.parametrize("flags", [0, IGNORE])
def test_the_reserved_bit_of_the_stream_id(flags):
    """It is an error without a known stream; the I flag is still read."""
    with pytest.raises(MalformedFrame, match="reserved bit before the stream id") as info:
        read_header(HEADER.pack(0x80000001, 0x2800 | flags))
    assert (info.value.ignorable, info.value.stream_id) == (bool(flags), 0)


@given(st.none() | st.binary(max_size=300), st.binary(max_size=50), st.integers(0, 20))
def test_metadata_and_data_are_split_as_they_were_joined(metadata, data, offset):
    """Absent, empty and non-empty metadata are told apart."""
    frame = bytes(offset) + join_metadata(metadata, data)
    flags = 0 if metadata is None else METADATA
    assert split_metadata(frame, offset, flags, 1) == (metadata, data)


@pytest.mark.parametrize("body", ["", "00", "0000", "000001", "00000361 62", "ffffff"])
@pytest.mark.parametrize("flags", [METADATA, METADATA | IGNORE])
def test_metadata_past_the_end(body, flags):
    """A metadata length that is cut off or too large is an error, which has the I flag."""
    with pytest.raises(MalformedFrame, match="past the end of a frame of") as info:
        split_metadata(bytes(6) + bytes.fromhex(body), 6, flags, 7)
    assert (info.value.ignorable, info.value.stream_id) == (bool(flags & IGNORE), 7)


def test_too_much_metadata():
    """More metadata than 24 bits can count are not encoded."""
    with pytest.raises(LocalProtocolError, match="metadata length"):
        join_metadata(bytes(0x1000000), b"")


def test_the_ranges_of_numbers():
    """Both ends are allowed, and no value beyond them."""
    check_range("it", 0, 5)
    check_range("it", 5, 5)
    for value in (-1, 6):
        with pytest.raises(LocalProtocolError, match=f"it must be between 0 and 5, not {value}"):
            check_range("it", value, 5)


def test_the_largest_frame_may_be_sent(largest_frame):
    """One byte more may not."""
    assert check_size(largest_frame) is largest_frame
    with pytest.raises(LocalProtocolError, match="16777216"):
        check_size(largest_frame + b"!")
