import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.frames import PayloadFrame, RequestResponseFrame, RequestStreamFrame, decode
from rsocket_trio.frames.header import COMPLETE, NEXT, FrameType
from rsocket_trio.payload import Payload
from rsocket_trio.protocol.body_fragments import EAGER, BodyFragments
from rsocket_trio.protocol.reassembly import Reassembler


def frames_of(fragments, chunks):
    fragments.stream_id = 7
    frames = []
    for chunk in chunks:
        fragments.add(chunk)
        while fragments.ready:
            frames.append(fragments.next())
    fragments.end()
    while fragments.ready:
        frames.append(fragments.next())
    return frames


@settings(max_examples=100)
@given(
    st.lists(st.binary(max_size=300), max_size=6),
    st.none() | st.binary(max_size=300),
    st.integers(64, 200),
    st.sampled_from([None, (FrameType.REQUEST_RESPONSE, None), (FrameType.REQUEST_STREAM, 5)]),
)
def test_the_fragments_make_the_payload(chunks, metadata, size, request_):
    """However the payload is cut, the fragments are legal and make the payload."""
    frame_type, n = request_ or (None, None)
    flags = 0 if request_ else NEXT | COMPLETE
    fragments = BodyFragments(
        size, flags, metadata, initial_n=n, frame_type=frame_type and frame_type.value
    )
    frames = frames_of(fragments, chunks)
    whole = Reassembler(10_000)
    for number, frame in enumerate(frames):
        assert len(frame) <= size
        decoded = decode(frame)
        assert decoded.stream_id == 7
        last = number == len(frames) - 1
        assert decoded.follows is not last
        if number or frame_type is None:
            assert isinstance(decoded, PayloadFrame)
            assert decoded.next
            assert decoded.complete is (last and not request_)
        else:
            kinds = {None: RequestResponseFrame, 5: RequestStreamFrame}
            assert type(decoded) is kinds[n]
            assert n is None or decoded.initial_request_n == n
        whole.add(decoded.metadata, decoded.data)
        if not last:
            full = len(frame) == size
            assert full or len(decoded.data) >= EAGER or decoded.metadata is not None
    assert whole.finish() == Payload(b"".join(chunks), metadata)


def test_a_chunk_of_a_fragments_size_leaves_at_once():
    """A chunk that fills a fragment does not wait for the next chunk; a small one does."""
    fragments = BodyFragments(1024, NEXT, None)
    fragments.stream_id = 1
    fragments.add(b"x" * 63)
    assert not fragments.ready
    fragments.add(b"x")
    assert fragments.ready
    assert decode(fragments.next()).data == b"x" * 64
    assert not fragments.ready


def test_complete_of_a_request_goes_last():
    """C of a REQUEST_CHANNEL is on the last of its frames."""
    channel = FrameType.REQUEST_CHANNEL.value
    fragments = BodyFragments(64, COMPLETE, None, frame_type=channel, initial_n=1)
    frames = [decode(frame) for frame in frames_of(fragments, [b"x" * 100])]
    assert [frame.complete for frame in frames] == [False] * (len(frames) - 1) + [True]
    fragments = BodyFragments(64, COMPLETE, None, frame_type=channel, initial_n=1)
    (frame,) = frames_of(fragments, [b"x"])
    assert decode(frame).complete


def test_a_fragment_size_that_is_too_small():
    """Below the smallest size there is no room for any payload."""
    with pytest.raises(LocalProtocolError, match="at least 14 bytes, not 13"):
        BodyFragments(13, NEXT, None)
    stream = FrameType.REQUEST_STREAM.value
    fragments = BodyFragments(14, 0, b"meta", frame_type=stream, initial_n=1)
    frames = [decode(frame) for frame in frames_of(fragments, [])]
    assert [frame.metadata for frame in frames] == [b"m", b"eta"]


def test_large_metadata_are_cut_once(counted_bytes):
    """The cost of each fragment is the bytes that leave, not the rest of the metadata."""
    metadata = counted_bytes(b"m" * 100_000)
    fragments = BodyFragments(64, NEXT, metadata)
    fragments.stream_id = 1
    fragments.end()
    frames = []
    while fragments.ready:
        frames.append(fragments.next())
    assert len(frames) > 1000
    assert counted_bytes.copied == len(metadata)
    assert b"".join(decode(frame).metadata for frame in frames) == metadata
