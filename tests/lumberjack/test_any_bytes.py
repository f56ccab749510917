"""Any bytes, cut anywhere: batches or the documented error, and always the same ones."""

from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.lumberjack import (
    AckFrame,
    AckReader,
    BatchReader,
    CompressedFrame,
    DataFrame,
    InvalidEvent,
    JsonFrame,
    LumberjackLimits,
    ReaderState,
    WindowFrame,
    decode_event,
    decode_first,
)
from tests.lumberjack.vectors import compressed, facts, feed_all

LIMITS = LumberjackLimits(
    max_window=6,
    max_event_size=40,
    max_compressed_size=120,
    max_inflated_size=200,
    max_compressed_frames=9,
    max_batch_size=150,
    max_pairs=3,
)
"""Small, so that examples reach them."""

sequences = st.integers(0, 4) | st.integers(2**32 - 3, 2**32 - 1)
texts = st.sampled_from([b"1", b"{}", b'{"a":[1]}', b"nope", b"\xff"]) | st.binary(max_size=44)
short = st.binary(max_size=4)
windows = st.builds(WindowFrame, st.just(2), st.integers(0, 7))
json_frames = st.builds(JsonFrame, st.just(2), sequences, texts)
data_frames = st.builds(
    DataFrame, st.just(1), sequences, st.lists(st.tuples(short, short), max_size=4).map(tuple)
)
runs = st.builds(
    lambda first, count: b"".join(
        JsonFrame(2, first + n, b"%d" % n).encode() for n in range(count)
    ),
    st.integers(1, 3),
    st.integers(1, 9),
)
plain = st.one_of(
    windows.map(WindowFrame.encode),
    json_frames.map(JsonFrame.encode),
    runs,
    data_frames.map(DataFrame.encode),
    st.builds(WindowFrame, st.just(1), st.integers(0, 4)).map(WindowFrame.encode),
)
envelopes = st.builds(
    lambda parts, version, level: compressed(*parts, version=version, level=level),
    st.lists(plain, max_size=3),
    st.sampled_from([1, 2, 2, 2]),
    st.integers(0, 3),
)
strange = st.one_of(
    st.binary(max_size=8),
    st.builds(AckFrame, st.just(2), sequences).map(AckFrame.encode),
    st.builds(CompressedFrame, st.just(2), short).map(CompressedFrame.encode),
)
streams = st.lists(st.one_of(plain, plain, envelopes, strange), max_size=12).map(b"".join)
mostly_good = st.lists(
    st.one_of(
        windows.map(WindowFrame.encode),
        runs,
        st.lists(runs | windows.map(WindowFrame.encode), max_size=2).map(lambda p: compressed(*p)),
    ),
    max_size=12,
).map(b"".join)


def cut(draw, stream):
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


@given(st.one_of(streams, mostly_good, st.binary(max_size=60)), st.data())
def test_the_outcome_is_the_same_however_the_stream_is_cut(stream, data):
    """Whole, cut anywhere, and byte by byte: the same batches, and the same kind of end."""
    outcomes = []
    for pieces in (
        [stream],
        cut(data.draw, stream),
        [stream[i : i + 1] for i in range(len(stream))],
    ):
        reader = BatchReader(LIMITS)
        batches, error = feed_all(reader, pieces)
        rest = reader.flush()
        outcomes.append(
            (facts(batches), facts([rest] if rest else []), reader.state, error is None)
        )
    assert outcomes[0] == outcomes[1] == outcomes[2]


@given(st.one_of(streams, mostly_good))
def test_batches_keep_their_promises(stream):
    """Batches are within the limits, and all their parts fit to each other."""
    reader = BatchReader(LIMITS)
    batches, _ = feed_all(reader, [stream])
    rest = reader.flush()
    for batch in [*batches, *([rest] if rest else [])]:
        assert len(batch) <= max(batch.window, 0) <= LIMITS.max_window
        assert len(batch.sequences) == len(batch)
        assert all(0 < len(event) <= LIMITS.max_event_size for event in batch.events)
        assert batch.size == sum(map(len, batch.events)) <= LIMITS.max_batch_size
        assert batch.acks_for(len(batch))[-1] == (batch.sequences[-1] if len(batch) else 0)
        for n in range(1, len(batch) + 1):
            assert batch.sequence_of(n) == batch.sequences[n - 1]
            try:
                decode_event(batch, n)
            except InvalidEvent as error:
                assert error.number == n  # noqa: PT017 - most examples raise nothing
        if batch.compressed is not None:
            again = BatchReader(LIMITS)
            head = WindowFrame(batch.version, len(batch)).encode()
            frame = CompressedFrame(batch.version, batch.compressed).encode()
            (same,) = again.feed(head + frame)
            assert (same.events, list(same.sequences)) == (batch.events, list(batch.sequences))


@given(st.lists(st.integers(1, 9), max_size=9), st.data())
def test_no_event_is_lost_or_doubled(counts, data):
    """All events of well-formed windows are delivered once, in order, sticky ones too."""
    sent, stream = [], b""
    for count in counts:
        if data.draw(st.booleans()):
            stream += WindowFrame(2, data.draw(st.integers(1, 6))).encode()
        frames = [JsonFrame(2, n, b"%d" % (len(sent) + n)) for n in range(1, count + 1)]
        sent += [frame.data for frame in frames]
        encoded = b"".join(frame.encode() for frame in frames)
        stream += compressed(encoded) if data.draw(st.booleans()) else encoded
    reader = BatchReader(LumberjackLimits(max_window=6))
    batches, error = feed_all(reader, cut(data.draw, stream))
    assert error is None
    received = [event for batch in batches for event in batch.events]
    rest = reader.flush()
    received += rest.events if rest else []
    if reader.state is ReaderState.BETWEEN:
        assert received == sent
    else:  # The last window is not full.
        assert received == sent[: len(received)]
        assert len(sent) - len(received) < 6


def simple_reader(data):
    """Read a well-formed stream of version 2, frame by frame, as the rules are told in words."""
    batches, events, window, announced = [], [], 0, False
    frames = []
    while data:
        frame, end = decode_first(data)
        data = data[end:]
        if isinstance(frame, CompressedFrame):
            data = zlib.decompress(frame.payload) + data
        else:
            frames.append(frame)
    for frame in frames:
        if isinstance(frame, WindowFrame):
            if events:
                batches.append((window or 1, events))
            events, window, announced = [], frame.count, True
            if not window:
                batches.append((0, []))
                announced = False
            continue
        events.append((frame.sequence, frame.data))
        if len(events) == (window or 1):
            batches.append((len(events), events))
            events, announced = [], False
    if events and not announced:
        batches.append((window or 1, events))
    return batches


anywhere = st.integers(0, 3) | st.integers(2**32 - 6, 2**32 - 1)
consecutive = st.builds(
    lambda first, count: b"".join(
        JsonFrame(2, (first + n) % 2**32, b"%d" % n).encode() for n in range(count)
    ),
    anywhere,
    st.integers(1, 9),
)
well_formed = st.one_of(windows.map(WindowFrame.encode), consecutive, consecutive)


@given(
    st.lists(
        well_formed | st.lists(well_formed, max_size=4).map(lambda parts: compressed(*parts)),
        max_size=9,
    ).map(b"".join),
    st.data(),
)
def test_a_simple_reader_finds_the_same_batches(stream, data):
    """The fast loop and the states of the reader change nothing of the rules."""
    reader = BatchReader(LumberjackLimits(max_window=7))
    batches, error = feed_all(reader, cut(data.draw, stream))
    assert error is None
    rest = reader.flush()
    found = [
        (batch.window, [*zip(batch.sequences, batch.events, strict=True)])
        for batch in [*batches, *([rest] if rest else [])]
    ]
    assert found == simple_reader(stream)


@given(st.binary(max_size=40) | st.lists(sequences).map(lambda n: b"".join(map(ack_bytes, n))))
def test_any_bytes_of_a_server(data):
    """They are ACKs or the documented error, whole and byte by byte."""
    outcomes = []
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))]):
        reader = AckReader()
        numbers = []
        try:
            for piece in pieces:
                numbers += reader.feed(piece)
            reader.feed(b"")
        except RemoteProtocolError:
            assert reader.refused
        outcomes.append((numbers, reader.refused, reader.partial))
    assert outcomes[0] == outcomes[1]


def ack_bytes(sequence):
    return AckFrame(2, sequence).encode()
