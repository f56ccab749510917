"""Cutting a stream of bytes into frames."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.ttrpc.wire.decoder import FrameDecoder
from rsocket_trio.ttrpc.wire.frames import HEADER, MAX_BODY, encode_frame, split

FIRST = encode_frame(1, 1, 0, b"abc")
SECOND = encode_frame(3, 3, 5, b"")


def pieces(data, size):
    return [data[i : i + size] for i in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 2, 9, 10, 11, 13, 100])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_frames_come_whole_with_their_headers(size, kind):
    decoder = FrameDecoder()
    data = FIRST + SECOND + FIRST
    frames = [frame for piece in pieces(data, size) for frame in decoder.feed(kind(piece))]
    assert frames == [FIRST, SECOND, FIRST]
    assert {type(frame) for frame in frames} == {bytes}
    assert not decoder.pending
    assert decoder.feed(b"") == []


@pytest.mark.parametrize("size", range(1, len(FIRST)))
def test_an_end_inside_a_frame_is_pending(size):
    decoder = FrameDecoder()
    assert decoder.feed(SECOND + FIRST[:size]) == [SECOND]
    assert decoder.pending
    assert decoder.feed(FIRST[size:]) == [FIRST]
    assert not decoder.pending


def test_a_body_of_4_mib_arrives():
    frame = encode_frame(1, 3, 0, bytes(MAX_BODY))
    decoder = FrameDecoder()
    made = [each for piece in pieces(frame + FIRST, 2**16) for each in decoder.feed(piece)]
    assert made == [frame, FIRST]


@pytest.mark.parametrize("size", [1, 7, 10, 11, 64])
def test_a_body_that_is_too_long_is_dropped(size):
    """The caller gets the header at once, and the frames behind the body."""
    decoder = FrameDecoder(max_body=20)
    header = HEADER.pack(21, 5, 1, 0)
    assert decoder.feed(header) == [header]
    assert decoder.pending
    assert split(header)[0] == 21
    made = [each for piece in pieces(bytes(21) + FIRST, size) for each in decoder.feed(piece)]
    assert made == [FIRST]
    assert not decoder.pending
    exact = encode_frame(1, 1, 0, bytes(20))
    assert decoder.feed(header + bytes(21) + exact) == [header, exact]


def test_a_reserved_byte_is_the_end():
    """Frames before it are returned, then its header, then every call raises."""
    decoder = FrameDecoder()
    header = HEADER.pack(2**24, 5, 1, 0)
    assert decoder.feed(FIRST + header + FIRST) == [FIRST, header]
    assert decoder.refused
    assert not decoder.pending
    for data in (b"", FIRST):
        with pytest.raises(RemoteProtocolError, match="begins with the byte 0x01"):
            decoder.feed(data)


def test_a_reserved_byte_waits_for_its_header():
    """The header names the stream, so that the call can be answered."""
    decoder = FrameDecoder()
    header = HEADER.pack(2**32 - 1, 5, 1, 0)
    for byte in header[:9]:
        assert decoder.feed(bytes([byte])) == []
        assert decoder.pending
        assert not decoder.refused
    assert decoder.feed(header[9:]) == [header]
    with pytest.raises(RemoteProtocolError, match="0xff"):
        decoder.feed(b"")


@pytest.mark.parametrize("length", [MAX_BODY + 1, 2**24 - 1])
def test_no_length_costs_memory(length):
    """Not a length that is announced, and not a body that is dropped."""
    decoder = FrameDecoder()
    piece = bytes(2**16)
    tracemalloc.start()
    try:
        assert len(decoder.feed(HEADER.pack(length, 1, 1, 0))) == 1
        left = length
        while left:
            assert decoder.feed(piece[:left]) == []
            left -= min(left, len(piece))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**18
    assert not decoder.pending


def test_an_announced_body_costs_what_has_arrived():
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        assert decoder.feed(HEADER.pack(MAX_BODY, 1, 1, 0) + bytes(1000)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**14
    assert decoder.pending


def test_single_bytes_take_linear_time():
    """With quadratic time this test would take longer than a test may."""
    frame = encode_frame(1, 3, 0, bytes(MAX_BODY // 2))
    decoder = FrameDecoder()
    made = []
    for piece in pieces(frame, 1):
        made += decoder.feed(piece)
    assert made == [frame]


@pytest.mark.parametrize("max_body", [-1, MAX_BODY + 1])
def test_limits_outside_the_protocol(max_body):
    with pytest.raises(ValueError, match=f"max_body is {max_body}"):
        FrameDecoder(max_body)


def outcome(data, cuts):
    """The frames, and whether the decoder refused the bytes, or has a part of a frame."""
    decoder = FrameDecoder(max_body=12)
    made = []
    ends = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    try:
        for start, stop in itertools.pairwise(ends):
            made += decoder.feed(data[start:stop])
        decoder.feed(b"")
    except RemoteProtocolError as error:
        assert decoder.refused
        return made, str(error)
    assert not decoder.refused
    return made, decoder.pending


headers = st.builds(
    HEADER.pack,
    st.integers(0, 30) | st.sampled_from([2**24 - 1, 2**24, 2**32 - 1]),
    st.integers(0, 2**32 - 1),
    st.integers(0, 255),
    st.integers(0, 255),
)
streams = st.lists(headers | st.binary(max_size=14), max_size=8).map(b"".join)


@given(streams, st.lists(st.integers(0, 200), max_size=10))
def test_any_bytes_give_the_same_however_they_are_cut(data, cuts):
    whole = outcome(data, [])
    assert outcome(data, cuts) == whole
    assert outcome(data, range(len(data))) == whole
    made, end = whole
    position = 0
    for frame in made:
        length, _, _, _, body = split(frame)
        assert data.startswith(frame, position)
        assert body == b"" if length > 12 else len(body) == length
        position += 10 + length
    assert isinstance(end, str) == (bool(made) and split(made[-1])[0] >= 2**24)
