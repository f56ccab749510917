"""Golden vectors of Lumberjack, and helpers for tests that feed bytes to a reader."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.lumberjack import AckFrame, BatchReader, CompressedFrame, JsonFrame, WindowFrame

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "lumberjack.json").read_text("utf-8"))
FRAMES = VECTORS["frames"]
EXCHANGES = VECTORS["exchanges"]
CLIENT_SIDE = VECTORS["client_side"]


def window(count, version=2):
    return WindowFrame(version, count).encode()


def event(sequence, data=b'{"message":"hi"}', version=2):
    return JsonFrame(version, sequence, data).encode()


def compressed(*frames, version=2, level=3):
    return CompressedFrame(version, zlib.compress(b"".join(frames), level)).encode()


def split(data, piece):
    """The data in pieces of this size."""
    return [data[i : i + piece] for i in range(0, len(data), piece)]


def acks(batch):
    """The ACK frames for a whole batch, as (version, sequence)."""
    return [(batch.version, number) for number in batch.acks_for(len(batch))]


def feed_all(reader, pieces):
    """Feed the pieces; return the batches, and the text of the error or None."""
    batches = []
    try:
        for piece in pieces:
            batches += reader.feed(piece)
            while reader.more:
                batches += reader.feed(b"")
        reader.feed(b"")
    except RemoteProtocolError as error:
        assert reader.refused
        return batches, str(error)
    assert not reader.refused
    return batches, None


def all_of(reader, data):
    """Feed the data, in as many steps as it takes; return the batches."""
    batches, error = feed_all(reader, [data])
    assert error is None
    return batches


def facts(batches):
    """What must be equal however the bytes were cut."""
    return [
        (
            batch.version,
            batch.window,
            batch.events,
            batch.is_json,
            list(batch.sequences),
            batch.compressed,
            batch.acks_for(len(batch)),
        )
        for batch in batches
    ]


def refuse(data, match, limits=None):
    """Check that a reader refuses the data, whole and byte by byte; return the batches before."""
    made = []
    for piece in (len(data), 1):
        reader = BatchReader(limits) if limits else BatchReader()
        batches, text = feed_all(reader, split(data, piece))
        assert text is not None
        with pytest.raises(RemoteProtocolError, match=match):
            reader.feed(b"more")
        made.append(facts(batches))
    assert made[0] == made[1]
    return batches


def ack(sequence, version=2):
    return AckFrame(version, sequence).encode()
