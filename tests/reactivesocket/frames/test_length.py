"""The length in front of each frame."""

from __future__ import annotations

import pytest

from rsocket_trio.errors import LocalProtocolError, RemoteProtocolError
from rsocket_trio.reactivesocket.frames import LengthDecoder, encode_length

KEEPALIVE = bytes.fromhex("0000000c 00032000 00000000")


@pytest.mark.parametrize("length", ["0000000b", "00000000", "00000004"])
def test_lengths_without_room_for_a_header(length):
    """A length that is too small for a header is refused at once, and on every later call."""
    decoder = LengthDecoder(100)
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match="less than the smallest, 12"):
            decoder.feed(bytes.fromhex(length))


@pytest.mark.parametrize("length", ["00000069", "7fffffff", "8000000c"])
def test_lengths_past_the_limit(length):
    """A length past the limit, or with its R bit, is refused before bytes are kept."""
    decoder = LengthDecoder(100)
    with pytest.raises(RemoteProtocolError, match="longer than the limit of 100"):
        decoder.feed(bytes.fromhex(length) + b"x" * 50)
    assert not decoder.pending


def test_a_frame_at_the_limit():
    """A frame of exactly the limit is accepted."""
    assert LengthDecoder(8).feed(KEEPALIVE) == [KEEPALIVE[4:]]


def test_frames_before_an_impossible_length():
    """Frames before it are returned first; the next call raises, even without bytes."""
    decoder = LengthDecoder(100)
    assert decoder.feed(KEEPALIVE + KEEPALIVE + b"\0\0\0\0") == [KEEPALIVE[4:]] * 2
    with pytest.raises(RemoteProtocolError):
        decoder.feed(b"")


def test_a_frame_too_long_for_its_length_field():
    """31 bits count the frame and the length."""

    class Huge(bytes):
        def __new__(cls, size):
            huge = super().__new__(cls)
            huge.size = size
            return huge

        def __len__(self):
            return self.size

    assert encode_length(Huge(2**31 - 5)) == b"\x7f\xff\xff\xff"
    with pytest.raises(LocalProtocolError, match="too long for a 31-bit length"):
        encode_length(Huge(2**31 - 4))
