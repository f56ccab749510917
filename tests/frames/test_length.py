"""The length prefix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import (
    FrameTooLong,
    LocalProtocolError,
    MalformedFrame,
    RemoteProtocolError,
)
from rsocket_trio.frames.length import LengthPrefixDecoder, encode_length


def prefixed(*frames):
    return b"".join(encode_length(frame) + frame for frame in frames)


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_a_stream_may_be_cut_anywhere(frames, data):
    """However a stream is cut, the decoded frames are the same."""
    stream = prefixed(*frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    decoder = LengthPrefixDecoder(40)
    out = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        out += decoder.feed(stream[begin:end])
    assert out == frames
    assert not decoder.pending


@pytest.mark.parametrize("length", [0, 1, 255, 256, 65535, 65536, 0xFFFFFF])
def test_the_length_is_24_bits_big_endian(length):
    """The prefix counts the frame without itself."""
    assert encode_length(bytes(length)) == bytes((length >> 16, length >> 8 & 0xFF, length & 0xFF))


def test_a_frame_too_long_for_its_prefix_is_not_sent():
    """A length that is too large for 24 bits is a local error."""
    with pytest.raises(LocalProtocolError, match=r"16777216 .* 16777215"):
        encode_length(bytes(0x1000000))


def test_a_frame_at_the_limit_is_accepted():
    """A frame of exactly the limit passes, and one byte more does not."""
    assert LengthPrefixDecoder(5).feed(prefixed(b"12345")) == [b"12345"]
    with pytest.raises(RemoteProtocolError, match=r"6 bytes .* limit of 5 \(max_frame_size\)"):
        LengthPrefixDecoder(5).feed(prefixed(b"123456"))


def test_a_limit_of_the_transport_is_no_malformed_frame():
    """A frame over the limit cannot be skipped, so the error has no I flag."""
    with pytest.raises(RemoteProtocolError) as info:
        LengthPrefixDecoder(5).feed(b"\x00\x00\x06")
    assert not isinstance(info.value, MalformedFrame)


@pytest.mark.parametrize("piece", [1, 2, 3])
def test_a_length_over_the_limit_is_refused_with_its_third_byte(piece):
    """It is refused before a byte of the frame comes, and no byte is kept."""
    decoder = LengthPrefixDecoder(1000)
    prefix = b"\xff\xff\xff"
    *first, last = [prefix[i : i + piece] for i in range(0, 3, piece)]
    for part in first:
        assert decoder.feed(part) == []
    with pytest.raises(RemoteProtocolError, match=r"16777215 .* 1000"):
        decoder.feed(last)
    assert not decoder.pending


def test_frames_before_the_refused_one_are_not_lost():
    """Complete frames are returned; the error comes with the next call, and each later one."""
    decoder = LengthPrefixDecoder(5)
    good = prefixed(b"one", b"two")
    assert decoder.feed(good + b"\x00\x00\x06rest") == [b"one", b"two"]
    for _ in range(2):
        with pytest.raises(RemoteProtocolError, match=r"6 bytes .* limit of 5"):
            decoder.feed(b"")
    with pytest.raises(RemoteProtocolError):
        decoder.feed(good)


def test_a_frame_completed_before_the_refused_one_is_returned():
    """This includes a frame that began in an earlier call."""
    decoder = LengthPrefixDecoder(5)
    assert decoder.feed(b"\x00\x00\x03on") == []
    assert decoder.feed(b"e\x00\x00\x06") == [b"one"]
    with pytest.raises(RemoteProtocolError):
        decoder.feed(b"")


def test_empty_frames_and_empty_feeds():
    """A length of 0 is a frame of no bytes; a feed of no bytes gives no frame."""
    decoder = LengthPrefixDecoder(5)
    assert decoder.feed(b"") == []
    assert decoder.feed(prefixed(b"", b"", b"x")) == [b"", b"", b"x"]


def test_an_incomplete_frame_is_pending():
    """A length without its frame is pending, as is one byte of a length."""
    decoder = LengthPrefixDecoder(5)
    assert not decoder.pending
    decoder.feed(b"\x00")
    assert decoder.pending
    decoder.feed(b"\x00\x02")
    assert decoder.pending
    decoder.feed(b"a")
    assert decoder.pending
    assert decoder.feed(b"b") == [b"ab"]
    assert not decoder.pending


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_frames_are_bytes_for_any_input(size):
    """bytearrays give the same frames, which do not change afterwards."""
    stream = bytearray(prefixed(b"one", b"two"))
    decoder = LengthPrefixDecoder(5)
    frames = []
    for begin in range(0, len(stream), size):
        piece = stream[begin : begin + size]
        frames += decoder.feed(piece)
        piece[:] = bytes(len(piece))
    assert frames == [b"one", b"two"]
    assert {type(frame) for frame in frames} == {bytes}


def test_thousands_of_frames_in_one_feed():
    """One read may bring any number of frames."""
    frames = [b"%d" % number for number in range(50_000)]
    assert LengthPrefixDecoder(5).feed(prefixed(*frames)) == frames


def test_the_largest_frame_in_small_pieces(largest_frame):
    """16 MiB in pieces of 64 bytes: this ends only if the time is linear."""
    decoder = LengthPrefixDecoder(0xFFFFFF)
    stream = encode_length(largest_frame) + largest_frame
    out = []
    for begin in range(0, len(stream), 64):
        out += decoder.feed(stream[begin : begin + 64])
    assert out == [largest_frame]


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=6), st.data())
def test_what_is_behind_the_first_frame_waits_for_the_end_of_its_limit(frames, data):
    """The first frame alone is cut; the others then have the usual limit, wherever cuts are."""
    frames[0] = frames[0][:20]
    stream = prefixed(*frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    decoder = LengthPrefixDecoder(60)
    decoder.limit_frames(20)
    out = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        out += decoder.feed(stream[begin:end])
        if out:
            assert out == frames[: len(out)]
            decoder.limit_frames(None)
            out += decoder.feed(b"")
    assert out == frames
    assert not decoder.pending


def test_a_first_frame_over_its_limit_is_refused_with_its_length():
    """The bytes of a stranger's frame are not kept, and the error says which limit it was."""
    decoder = LengthPrefixDecoder(1000)
    decoder.limit_frames(20)
    assert decoder.feed(b"\0\0") == []
    with pytest.raises(FrameTooLong, match=r"21 bytes .* limit of 20") as info:
        decoder.feed(b"\x15" + bytes(5000))
    assert (info.value.size, info.value.limit) == (21, 20)
    assert decoder.refused
    assert len(decoder.unfinished) < 100

    decoder = LengthPrefixDecoder(1000)
    decoder.limit_frames(20)
    with pytest.raises(FrameTooLong, match=r"65535 .* limit of 1000"):
        decoder.feed(b"\0\xff\xff")
