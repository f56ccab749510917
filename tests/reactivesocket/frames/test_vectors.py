"""The golden vectors of the draft, both ways."""

from __future__ import annotations

import pytest

from rsocket_trio.errors import MalformedFrame, MetadataLengthError
from rsocket_trio.reactivesocket.frames import LengthDecoder, as_fields, decode, encode_length

# The malformed vectors whose bytes cannot be decoded: the error, and whether to skip it.
NO_FRAME = {
    "v0_metadata_length_r_bit": (MetadataLengthError, False),
    "v0_unknown_type": (MalformedFrame, False),
    "v0_unknown_type_ignorable": (MalformedFrame, True),
}

# These change when they are encoded again: the NUL behind a MIME type is dropped.
NOT_KEPT = {"v0_setup_null_terminated_mime": "v0_setup_data_only"}


def test_a_frame_decodes_to_the_fields_of_its_vector(vector):
    """The fields are exactly those of the vector."""
    assert as_fields(bytes.fromhex(vector["hex"])) == vector["fields"]


def test_a_frame_encodes_to_the_bytes_of_its_vector(vector, vectors):
    """Encoding the decoded frame gives the same bytes."""
    frame = bytes.fromhex(vector["hex"])
    expected = frame
    if vector["name"] in NOT_KEPT:
        like = bytes.fromhex(vectors[NOT_KEPT[vector["name"]]]["hex"])
        expected = like.removesuffix(b"hello")
    assert decode(frame).encode() == expected


def test_the_length_before_a_frame_counts_itself(vector):
    """The bytes for TCP are the length and the frame (V0-FRAME-02)."""
    frame = bytes.fromhex(vector["hex"])
    assert encode_length(frame) + frame == bytes.fromhex(vector["tcp_hex"])


def test_a_frame_comes_out_of_the_stream_byte_by_byte(vector):
    """A frame fed in single bytes is returned with its last byte, and not before."""
    decoder = LengthDecoder(1000)
    stream = bytes.fromhex(vector["tcp_hex"])
    for number, byte in enumerate(stream, 1):
        frames = decoder.feed(bytes((byte,)))
        assert frames == ([stream[4:]] if number == len(stream) else [])
        assert decoder.pending == (number < len(stream))


def test_a_sequence_comes_out_of_the_stream_in_order(sequence):
    """Frames that follow each other are returned in order, wherever the stream is cut."""
    stream = bytes.fromhex(sequence["hex"])
    frames = [bytes.fromhex(text) for text in sequence["frames"]]
    for cut in range(len(stream) + 1):
        decoder = LengthDecoder(1000)
        assert decoder.feed(stream[:cut]) + decoder.feed(stream[cut:]) == frames
        assert not decoder.pending
    for frame in frames:
        assert decode(frame).encode() == frame


def decode_or_error(data):
    try:
        return decode(data)
    except MalformedFrame as problem:
        return problem


def test_every_prefix_of_a_frame_is_a_frame_or_malformed(vector):
    """A frame cut at any byte is refused as malformed or is a shorter frame of the same stream."""
    frame = bytes.fromhex(vector["hex"])
    for size in range(len(frame)):
        outcome = decode_or_error(frame[:size])
        assert outcome.stream_id == (int.from_bytes(frame[4:8], "big") if size >= 8 else 0)


def test_malformed_vectors(malformed_vector):
    """Malformed bytes raise; frames that are only out of place decode."""
    frame = bytes.fromhex(malformed_vector["hex"])
    expected = NO_FRAME.get(malformed_vector["name"])
    if expected is None:
        assert decode(frame).encode() == frame
    else:
        with pytest.raises(MalformedFrame) as info:
            decode(frame)
        assert (type(info.value), info.value.ignorable) == expected
