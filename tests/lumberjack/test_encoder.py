"""Encoded batches: the exact bytes, and everything back through a reader."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.lumberjack import (
    AckProgress,
    BatchReader,
    decode_first,
    encode_batch,
    encode_pairs,
)
from rsocket_trio.lumberjack.wire import compression
from tests.lumberjack.vectors import EXCHANGES, FRAMES

HI = b'{"message":"hi"}'
TOP = 2**32 - 1


def exchange(name):
    return next(each["client_hex"] for each in EXCHANGES if each["name"] == name)


def test_the_bytes_of_the_vectors(monkeypatch):
    """The same events give the same bytes as other senders give, if zlib compresses them."""
    monkeypatch.setattr(compression, "_isal", None)
    assert encode_batch([HI] * 3).hex() == exchange("v2 W3 C(J1..3)")
    assert encode_batch([HI], compression_level=0).hex() == "325700000001" + next(
        frame["hex"] for frame in FRAMES if frame["name"] == "v2_json_hi"
    )
    pairs = [encode_pairs({"line": value}.items()) for value in ("x", "y")]
    assert encode_batch(pairs, version=1, first_sequence=7).hex() == exchange("v1 W2 C(D7,D8)")


def test_version_1_is_compressed_by_default():
    """Logstash reads plain D frames wrongly that arrive in two parts."""
    for version, event in ((1, bytes(4)), (2, HI)):
        data = encode_batch([event], version=version)
        envelope, end = decode_first(data, 6)
        assert envelope.type_name == "COMPRESSED"
        assert end == len(data)
        assert zlib.decompress(envelope.payload)


events = st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=20)
pairs = st.lists(
    st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=4).map(encode_pairs),
    min_size=1,
    max_size=9,
)


@given(
    st.tuples(st.just(2), events) | st.tuples(st.just(1), pairs),
    st.integers(0, 9),
    st.integers(0, TOP) | st.integers(TOP - 20, TOP),
)
def test_round_trip(versioned, level, first):
    """A reader gets the events, and the ACK for them acknowledges them all."""
    version, batch = versioned
    options = {"version": version, "compression_level": level, "first_sequence": first}
    if (first + len(batch) - 1) & TOP == 0:
        with pytest.raises(LocalProtocolError, match="sequence 0"):
            encode_batch(batch, **options)
        return
    (received,) = BatchReader().feed(encode_batch(batch, **options))
    assert (received.events, received.version, received.window) == (batch, version, len(batch))
    assert (received.compressed is not None) is (level > 0)
    assert list(received.sequences) == [(first + n) & TOP for n in range(len(batch))]
    progress = AckProgress(len(batch), first)
    (number,) = received.acks_for(len(batch))
    assert progress.acknowledge(number) == len(batch)
    assert progress.done


@pytest.mark.parametrize("version", [1, 2])
def test_no_events_are_a_window_of_zero(version):
    """A server answers it with an ACK 0."""
    data = encode_batch([], version=version)
    assert data == b"%dW\0\0\0\0" % version
    (batch,) = BatchReader().feed(data)
    progress = AckProgress(0)
    assert not progress.done
    assert [progress.acknowledge(number) for number in batch.acks_for(0)] == [0]
    assert progress.done


@pytest.mark.parametrize(
    ("batch", "options", "match"),
    [
        ([HI], {"version": 3}, "no Lumberjack version 3"),
        ([HI], {"version": "2"}, "no Lumberjack version '2'"),
        ([HI], {"compression_level": 10}, "0 to 9, not 10"),
        ([HI], {"compression_level": -1}, "0 to 9, not -1"),
        ([HI], {"first_sequence": -1}, "-1 is no sequence number"),
        ([HI], {"first_sequence": 2**32}, "is no sequence number"),
        ([HI], {"first_sequence": 0}, "sequence 0: its ACK looks like a keep-alive"),
        ([HI, b""], {}, "an event is empty"),
    ],
)
def test_refused(batch, options, match):
    with pytest.raises(LocalProtocolError, match=match):
        encode_batch(batch, **options)
