"""The frames: golden vectors both ways, and bytes that are no frame."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError, MalformedFrame
from rsocket_trio.lumberjack import (
    AckFrame,
    CompressedFrame,
    DataFrame,
    JsonFrame,
    WindowFrame,
    decode,
    decode_first,
    encode_pairs,
    split_pairs,
)
from tests.lumberjack.vectors import FRAMES

HI = b'{"message":"hi"}'
V1_PAIRS = ((b"line", b"hello"), (b"host", b"h"), (b"file", b"f"), (b"offset", b"1"))

EXPECTED = {
    "v2_window_max": [WindowFrame(2, 2**32 - 1)],
    "v2_json_hi": [JsonFrame(2, 1, HI)],
    "v2_json_utf8": [JsonFrame(2, 2, '{"message":"h\u00e9llo \u2713"}'.encode())],
    "v2_json_seq_max": [JsonFrame(2, 2**32 - 1, HI)],
    "v2_ack_10": [AckFrame(2, 10)],
    "v2_ack_0_keepalive": [AckFrame(2, 0)],
    "v1_window_1024": [WindowFrame(1, 1024)],
    "v1_data_empty_value": [DataFrame(1, 2, ((b"a", b""),))],
    "v1_json_1J": [JsonFrame(1, 1, HI)],
    "node_lumberjack_protocol_capture": [
        WindowFrame(1, 3),
        DataFrame(1, 1, V1_PAIRS),
        DataFrame(1, 2, ((b"line", "h\u00e9llo".encode()), (b"host", b"h"))),
        DataFrame(1, 3, ((b"line", b"x"), (b"host", b"h"))),
    ],
}
INNER = {
    "v2_compressed_1": [JsonFrame(2, 1, HI)],
    "v2_compressed_3": [JsonFrame(2, n, HI) for n in (1, 2, 3)],
    "v1_compressed_2": [
        DataFrame(1, 7, ((b"line", b"x"),)),
        DataFrame(1, 8, ((b"line", b"y"),)),
    ],
    "pylogbeat_batch1_capture": [
        JsonFrame(2, 1, b'{"message": "hi"}'),
        JsonFrame(2, 2, b'{"message":"raw"}'),
    ],
}


def all_frames(data):
    frames, position = [], 0
    while position < len(data):
        frame, position = decode_first(data, position)
        frames.append(frame)
    return frames


@pytest.mark.parametrize("vector", FRAMES, ids=lambda vector: vector["name"])
def test_vectors(vector):
    """Each vector decodes to its frames, and these encode to its bytes."""
    data = bytes.fromhex(vector["hex"])
    frames = all_frames(data)
    assert b"".join(frame.encode() for frame in frames) == data
    if "inner_hex" not in vector:
        assert frames == EXPECTED[vector["name"]]
        return
    *before, envelope = frames
    assert before == ([WindowFrame(2, 2)] if "pylogbeat" in vector["name"] else [])
    inner = zlib.decompress(envelope.payload)
    assert inner.hex() == vector["inner_hex"]
    assert all_frames(inner) == INNER[vector["name"]]


texts = st.binary(max_size=9)
numbers = st.integers(0, 2**32 - 1)
versions = st.sampled_from([1, 2])
any_frame = st.one_of(
    st.builds(WindowFrame, versions, numbers),
    st.builds(AckFrame, versions, numbers),
    st.builds(CompressedFrame, versions, texts),
    st.builds(JsonFrame, versions, numbers, texts),
    st.builds(DataFrame, versions, numbers, st.lists(st.tuples(texts, texts)).map(tuple)),
)


@given(st.lists(any_frame, min_size=1, max_size=5), st.data())
def test_what_is_encoded_can_be_decoded(frames, data):
    """Frames behind each other come back; every cut inside the last one is an error."""
    encoded = b"".join(frame.encode() for frame in frames)
    assert all_frames(encoded) == frames
    assert decode(frames[-1].encode()) == frames[-1]
    cut = data.draw(st.integers(0, len(frames[-1].encode()) - 1))
    with pytest.raises(MalformedFrame, match=f"cut off: there are {cut} bytes"):
        decode(frames[-1].encode()[:cut])


@given(st.binary(max_size=40))
def test_any_bytes_are_a_frame_or_malformed(data):
    """No other error leaves the decoder."""
    try:
        frame = decode(data)
    except MalformedFrame:
        return
    assert frame.encode() == data


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"3W\0\0\0\1", "begins with the byte 0x33"),
        (b"\x02W\0\0\0\1", "begins with the byte 0x02"),
        (b"2X\0\0\0\1", "no frame type 0x58"),
        (b"2W\0\0\0\1\0", "1 bytes behind the frame"),
        (b"2J\0\0\0\1\xff\xff\xff\xff{}", "cut off: there are 12 bytes"),
        (b"1D\0\0\0\1\xff\xff\xff\xff", "cut off: there are 10 bytes"),
    ],
)
def test_bytes_that_are_no_frame(data, match):
    with pytest.raises(MalformedFrame, match=match):
        decode(data)


@pytest.mark.parametrize(
    "frame",
    [WindowFrame(3, 1), AckFrame(2, 2**32), JsonFrame(2, -1, b"{}"), DataFrame(0, 1, ())],
)
def test_impossible_fields_are_not_encoded(frame):
    with pytest.raises(LocalProtocolError):
        frame.encode()


def test_pairs_of_text():
    """Text is sent as UTF-8, and bytes as they are; keys may occur twice."""
    raw = encode_pairs([("line", "h\u00e9"), (b"\xff", b""), ("line", "2")])
    assert raw[:4] == b"\0\0\0\3"
    assert split_pairs(raw) == [(b"line", b"h\xc3\xa9"), (b"\xff", b""), (b"line", b"2")]
    assert encode_pairs({}.items()) == bytes(4)
    assert split_pairs(bytes(4)) == []


def test_pairs_that_do_not_end_where_they_should():
    """Cut at each byte, also inside a number, and with a byte more."""
    raw = encode_pairs([("a", "bc"), ("", "d")])
    for cut in range(len(raw)):
        with pytest.raises(MalformedFrame, match=r"^the key-value pairs are cut off$"):
            split_pairs(raw[:cut])
    with pytest.raises(MalformedFrame, match=r"^1 bytes behind the last key-value pair$"):
        split_pairs(raw + b"x")
