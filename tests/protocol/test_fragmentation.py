"""Fragments: every size and every split, checked with the decoder and with golden vectors."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.frames import FrameType, PayloadFrame, decode
from rsocket_trio.frames.header import COMPLETE, FOLLOWS, METADATA, NEXT, read_header
from rsocket_trio.payload import Payload
from rsocket_trio.protocol.fragmentation import (
    MIN_SIZE,
    PAYLOAD_HEAD,
    REQUEST_N_HEAD,
    fits,
    fragment_payload,
    fragment_request,
)
from rsocket_trio.protocol.reassembly import Reassembler

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "rsocket.json").read_text())
SEQUENCES = [v for v in VECTORS if v["kind"] == "sequence" and "reassembled" in v["fields"]]

REQUESTS = [
    (FrameType.REQUEST_RESPONSE, None, 0),
    (FrameType.REQUEST_FNF, None, 0),
    (FrameType.REQUEST_STREAM, 7, 0),
    (FrameType.REQUEST_CHANNEL, 7, 0),
    (FrameType.REQUEST_CHANNEL, 7, COMPLETE),
]


def pattern(size, start=0):
    """Bytes in which a wrong slice is noticed."""
    return bytes((start + i * 7) % 251 for i in range(size))


def check(frames, size):
    """Check the promises about a run of fragments, by bytes alone; return the payload."""
    whole = Reassembler(2**30)
    data_began = False
    for index, frame in enumerate(frames):
        frame_type, flags, stream_id = read_header(frame)
        decoded = decode(frame)
        last = index == len(frames) - 1
        assert stream_id == 5
        assert len(frame) <= size
        assert len(frame) == size or last  # Fragments are filled: some peers refuse short ones.
        assert bool(flags & FOLLOWS) is not last
        assert not flags & COMPLETE or last
        if index:
            assert frame_type == FrameType.PAYLOAD
            assert flags & NEXT
        assert not (flags & METADATA and data_began)
        data_began = data_began or bool(decoded.data)
        whole.add(decoded.metadata, decoded.data)
    return whole.finish()


@pytest.mark.parametrize("metadata_size", [None, 0, 1, 30, 60, 200])
@pytest.mark.parametrize("data_size", [0, 1, 45, 90, 200])
@pytest.mark.parametrize(("frame_type", "initial_n", "flags"), REQUESTS)
def test_requests_of_every_size(frame_type, initial_n, flags, metadata_size, data_size):
    """Any request at any fragment size comes back whole, and C is on the last frame only."""
    metadata = None if metadata_size is None else pattern(metadata_size, 100)
    data = pattern(data_size)
    for size in range(MIN_SIZE, 320, 5):
        frames = list(fragment_request(frame_type, 5, flags, initial_n, metadata, data, size))
        assert check(frames, size) == Payload(data, metadata)
        assert read_header(frames[0])[0] == frame_type
        assert read_header(frames[-1])[1] & COMPLETE == flags
        if initial_n is not None:
            assert decode(frames[0]).initial_request_n == initial_n
        head = PAYLOAD_HEAD if initial_n is None else REQUEST_N_HEAD
        assert fits(metadata, data, head, size) is (len(frames) == 1)


@given(
    st.none() | st.binary(max_size=150),
    st.binary(max_size=150),
    st.integers(MIN_SIZE, 330),
    st.sampled_from([NEXT, NEXT | COMPLETE]),
)
def test_items_of_every_size(metadata, data, size, flags):
    """Any item at any fragment size comes back whole, N on every fragment."""
    frames = list(fragment_payload(5, flags, metadata, data, size))
    assert check(frames, size) == Payload(data, metadata)
    assert all(read_header(frame)[1] & NEXT for frame in frames)
    assert read_header(frames[-1])[1] & COMPLETE == flags & COMPLETE
    assert fits(metadata, data, PAYLOAD_HEAD, size) is (len(frames) == 1)


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=80), st.binary(max_size=80)),
        min_size=1,
        max_size=4,
    ),
    st.integers(MIN_SIZE, 64),
    st.randoms(use_true_random=False),
)
def test_fragments_of_several_streams_may_be_mixed(payloads, size, random):
    """Fragments of different streams may come in any mixture; each stream's payload is right."""
    queues = {
        2 * i + 1: list(fragment_payload(2 * i + 1, NEXT, metadata, data, size))
        for i, (metadata, data) in enumerate(payloads)
    }
    unfinished, finished = {}, {}
    while queues:
        stream_id = random.choice(sorted(queues))
        frame = decode(queues[stream_id].pop(0))
        if not queues[stream_id]:
            del queues[stream_id]
        whole = unfinished.setdefault(frame.stream_id, Reassembler(10_000))
        whole.add(frame.metadata, frame.data)
        if not frame.follows:
            finished[frame.stream_id] = unfinished.pop(frame.stream_id).finish()
    assert not unfinished
    assert [finished[2 * i + 1] for i in range(len(payloads))] == [
        Payload(data, metadata) for metadata, data in payloads
    ]


@pytest.mark.parametrize("vector", SEQUENCES, ids=lambda vector: vector["name"])
def test_golden_sequences(vector):
    """The golden runs of fragments are made byte for byte, and joined again."""
    fields = vector["fields"]["reassembled"]
    stream_id = vector["fields"]["stream_id"]
    metadata = fields.get("metadata_hex")
    metadata = None if metadata is None else bytes.fromhex(metadata)
    data = bytes.fromhex(fields["data_hex"])
    frames = [bytes.fromhex(frame) for frame in vector["frames"]]
    made = fragment_request(
        FrameType[fields["type"]],
        stream_id,
        COMPLETE if fields.get("complete") else 0,
        fields.get("n"),
        metadata,
        data,
        61,  # 64 with the length prefix
    )
    assert list(made) == frames
    whole = Reassembler(1000)
    for frame in frames:
        decoded = decode(frame)
        whole.add(decoded.metadata, decoded.data)
    assert whole.finish() == Payload(data, metadata)


def test_there_are_golden_sequences():
    """The vectors were found, so the test above is not empty."""
    assert {v["name"] for v in SEQUENCES} >= {
        "fragmented_request_response",
        "fragmented_request_channel_complete",
    }


def test_fragments_are_made_when_asked_for():
    """A large payload is cut one frame at a time: the first frame costs one frame."""
    frames = fragment_payload(1, NEXT, None, bytes(2**20), 64)
    assert len(next(frames)) == 64
    frames.close()


@pytest.mark.parametrize(
    "frames",
    [
        fragment_payload(1, NEXT, b"m", bytes(100), MIN_SIZE - 1),
        fragment_request(FrameType.REQUEST_STREAM, 1, 0, 1, None, bytes(100), MIN_SIZE - 1),
    ],
)
def test_a_fragment_size_without_room_is_refused(frames):
    """A fragment size that makes no progress is an error, not an endless loop."""
    with pytest.raises(LocalProtocolError, match="bytes"):
        next(frames)


def test_an_item_that_fits_is_one_plain_frame():
    """An item that fits is sent as it is, without F."""
    (frame,) = fragment_payload(1, NEXT | COMPLETE, None, b"x", 64)
    assert decode(frame) == PayloadFrame(1, next=True, complete=True, data=b"x")


def test_what_fits_into_one_frame():
    """A frame may be filled to its last byte."""
    assert fits(None, bytes(58), 6, 64)
    assert not fits(None, bytes(59), 6, 64)
    assert fits(b"", bytes(55), 6, 64)
    assert fits(b"meta", bytes(47), 10, 64)
    assert not fits(b"meta", bytes(48), 10, 64)


def test_the_smallest_fragment_has_14_bytes():
    """The header, initial n and metadata length of a request, and one byte of metadata."""
    with pytest.raises(LocalProtocolError, match="at least 14 bytes, not 13"):
        list(fragment_payload(1, NEXT, b"metadata", b"", 13))
    request = fragment_request(FrameType.REQUEST_STREAM, 1, 0, 1, b"meta", b"", 14)
    assert [decode(frame).metadata for frame in request] == [b"m", b"eta"]
