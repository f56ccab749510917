"""The header of a frame."""

from __future__ import annotations

import pytest

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.ttrpc.wire.frames import MAX_BODY, MessageType, encode_frame, split


def test_the_header_is_ten_bytes_big_endian():
    frame = encode_frame(0x01020305, MessageType.DATA, 0x81, b"ab")
    assert frame == bytes.fromhex("00000002 01020305 03 81") + b"ab"
    assert split(frame) == (2, 0x01020305, 3, 0x81, b"ab")


@pytest.mark.parametrize("stream_id", [0, 1, 2**32 - 1])
@pytest.mark.parametrize("message_type", [0, 255])
def test_the_smallest_and_the_largest_numbers(stream_id, message_type):
    frame = encode_frame(stream_id, message_type, 255 - message_type, b"")
    assert split(frame) == (0, stream_id, message_type, 255 - message_type, b"")


def test_a_body_of_4_mib_is_the_longest():
    assert len(encode_frame(1, MessageType.DATA, 0, bytes(MAX_BODY))) == 10 + 4 * 2**20
    with pytest.raises(LocalProtocolError, match="a body of 4194305 bytes"):
        encode_frame(1, MessageType.DATA, 0, bytes(MAX_BODY + 1))


@pytest.mark.parametrize(
    ("stream_id", "message_type", "flags"),
    [(2**32, 1, 0), (-1, 1, 0), (1, 256, 0), (1, 1, -1)],
)
def test_numbers_that_do_not_fit(stream_id, message_type, flags):
    with pytest.raises(LocalProtocolError, match="does not fit into the header"):
        encode_frame(stream_id, message_type, flags, b"")


def test_less_than_a_header():
    with pytest.raises(MalformedFrame, match="9 bytes are no frame"):
        split(bytes(9))
    assert split(bytes(10)) == (0, 0, 0, 0, b"")
