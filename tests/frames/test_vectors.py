"""The golden vectors, decoded and encoded."""

from __future__ import annotations

import hashlib

import pytest

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.frames import LengthPrefixDecoder, PayloadFrame, as_fields, decode, encode_length

# The vectors of kind "malformed" whose bytes cannot be decoded. The others are frames with wrong
# values or in a wrong place, which the layers above judge.
NO_FRAME = {
    "first_frame_empty",
    "setup_truncated_keepalive",
    "setup_token_length_overruns",
    "setup_metadata_length_overruns",
    "setup_keepalive_top_bit",
    "unknown_type_ignorable",
    "reserved_type_0",
    "frame_header_truncated",
    "rr_metadata_length_overruns",
    "payload_metadata_length_truncated",
    "request_stream_truncated_n",
    "request_stream_n_top_bit",
    "lease_truncated",
    "error_truncated_code",
}

# This vector changes when it is encoded again, because ignored bits are dropped.
NOT_KEPT = {
    "cancel_with_m_flag": bytes.fromhex("000000012400"),
}


def decode_or_error(data):
    try:
        return decode(data)
    except MalformedFrame as problem:
        return problem


def test_a_frame_decodes_to_the_fields_of_its_vector(vector):
    """Each field that a vector names has the value it names."""
    fields = as_fields(bytes.fromhex(vector["hex"]))
    assert fields | vector["fields"] == fields


def test_a_frame_encodes_to_the_bytes_of_its_vector(golden_frame):
    """Encoding the decoded frame gives the same bytes."""
    assert decode(golden_frame).encode() == golden_frame


def test_the_length_goes_in_front_on_tcp(vector):
    """The bytes for TCP are the length and the frame."""
    frame = bytes.fromhex(vector["hex"])
    assert encode_length(frame) + frame == bytes.fromhex(vector["tcp_hex"])


def test_the_fields_are_exactly_those_the_vectors_use(vectors):
    """For each type, the names of the fields are the union over its vectors."""
    names = {}
    for vector in vectors.of_kind("frame", "frame-lenient"):
        names.setdefault(vector["fields"]["type"], set()).update(vector["fields"])
    for vector in vectors.of_kind("frame", "frame-lenient"):
        assert as_fields(bytes.fromhex(vector["hex"])).keys() == names[vector["fields"]["type"]]


def test_a_frame_is_split_from_the_next(golden_frame):
    """A frame fed with the beginning of the next is returned alone; the rest is kept."""
    decoder = LengthPrefixDecoder(0xFFFFFF)
    assert decoder.feed(encode_length(golden_frame) + golden_frame) == [golden_frame]
    assert not decoder.pending
    for rest in (b"\x00", b"\x00\x00", b"\x00\x00\x07", b"\x00\x00\x07\x00\x00"):
        decoder = LengthPrefixDecoder(0xFFFFFF)
        assert decoder.feed(encode_length(golden_frame) + golden_frame + rest) == [golden_frame]
        assert decoder.pending


def test_a_frame_comes_out_of_the_stream_byte_by_byte(golden_frame):
    """A frame fed in single bytes is returned with its last byte, and not before."""
    decoder = LengthPrefixDecoder(0xFFFFFF)
    stream = encode_length(golden_frame) + golden_frame
    for number, byte in enumerate(stream, 1):
        frames = decoder.feed(bytes((byte,)))
        assert frames == ([golden_frame] if number == len(stream) else [])
        assert decoder.pending == (number < len(stream))


def test_a_sequence_comes_out_of_the_stream_in_order(sequence):
    """Frames that follow each other are returned in order, wherever the stream is cut."""
    stream = bytes.fromhex(sequence["hex"])
    frames = [bytes.fromhex(text) for text in sequence["frames"]]
    for cut in range(len(stream) + 1):
        decoder = LengthPrefixDecoder(0xFFFFFF)
        assert decoder.feed(stream[:cut]) + decoder.feed(stream[cut:]) == frames


def test_every_prefix_of_a_frame_is_a_frame_or_malformed(golden_frame):
    """A frame cut at any byte is refused as malformed or is a shorter frame."""
    stream_id = int.from_bytes(golden_frame[:4], "big")
    for size in range(len(golden_frame)):
        prefix = golden_frame[:size]
        outcome = decode_or_error(prefix)
        if isinstance(outcome, MalformedFrame):
            assert outcome.stream_id == (stream_id if size >= 6 else 0)
        else:
            assert outcome.encode() == prefix


def test_malformed_vectors(malformed_vector):
    """Malformed bytes raise; frames that are only out of place decode."""
    frame = bytes.fromhex(malformed_vector["hex"])
    name = malformed_vector["name"]
    if name in NO_FRAME:
        with pytest.raises(MalformedFrame) as info:
            decode(frame)
        assert info.value.ignorable == name.endswith("_ignorable")
        with pytest.raises(MalformedFrame):
            as_fields(frame)
    else:
        expected = NOT_KEPT.get(name) or frame
        assert decode(frame).encode() == expected


def test_the_list_of_malformed_bytes_is_current(vectors):
    """Every name in the list is the name of a vector."""
    assert {v["name"] for v in vectors.of_kind("malformed")} >= NO_FRAME | NOT_KEPT.keys()


def test_the_largest_frame(vectors, largest_frame):
    """A frame of 16,777,215 bytes decodes, encodes, and passes through the length decoder."""
    (vector,) = vectors.of_kind("frame-generated")
    assert hashlib.sha256(largest_frame).hexdigest() == vector["sha256"]
    frame = decode(largest_frame)
    assert frame == PayloadFrame(1, next=True, data=largest_frame[6:])
    assert frame.encode() == largest_frame
    assert LengthPrefixDecoder(0xFFFFFF).feed(b"\xff\xff\xff" + largest_frame) == [largest_frame]


def test_a_frame_over_the_maximum(vectors):
    """A frame of 16,777,216 bytes, which a WebSocket message could hold, is malformed."""
    (vector,) = vectors.of_kind("malformed-generated")
    frame = vectors.generated(vector)
    assert hashlib.sha256(frame).hexdigest() == vector["sha256"]
    with pytest.raises(MalformedFrame, match=r"16777216 .* 16777215") as info:
        decode(frame)
    assert info.value.stream_id == 1
