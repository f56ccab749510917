"""Each recorded exchange: the bytes of a client go in; ACKs, or an error, come out."""

from __future__ import annotations

import re

import pytest

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.lumberjack import AckProgress, AckReader, BatchReader, ReaderState, decode_event
from tests.lumberjack.vectors import CLIENT_SIDE, EXCHANGES, acks, feed_all, split

ACKS = {
    "v2 W3 C(J1..3)": [(2, 3)],
    "v2 sequence not starting at 1": [(2, 6)],
    "v2 two batches, sequence continues (pylogbeat, jls-lumberjack)": [(2, 2), (2, 4)],
    "v2 rollover inside a window": [(2, 0xFFFFFFFF), (2, 0)],
    "v2 W0 then W1 J1": [(2, 0), (2, 1)],
    "v2 more events than the window": [(2, 1), (2, 2)],
    "v2 J without any window": [(2, 1)],
    "v2 compressed empty payload": [(2, 1)],
    "v2 J JSON array": [(2, 1)],
    "v2 J JSON scalar": [(2, 1)],
    "v1 batch then v2 batch on one connection": [(1, 1), (2, 1)],
    "v1 W1 D1": [(1, 1)],
    "v1 W2 C(D7,D8)": [(1, 8)],
    "v1 node style: W3 once, then 5 D": [(1, 3)],
    "window 10001": [],
    "single byte then silence": [],
    "v1 D split in two TCP segments": [(1, 1)],
}
"""The ACKs that are sent without waiting."""

FLUSHED = {"v1 node style: W3 once, then 5 D": [(1, 5)]}
"""The ACKs when the connection is idle."""

INSIDE = {"window 10001", "single byte then silence"}
"""The client owes the rest of something: a deadline ends it."""

ERRORS = {
    "v2 compressed with a partial frame": "the last frame in a compressed frame is cut off",
    "v2 compressed length 0": "a compressed frame is empty",
    "v2 raw deflate without zlib header": "no zlib stream",
    "v2 J length 0": "JSON text of sequence 1 is empty",
    "v2 J length 0x80000000": r"2147483648 bytes.*16777216 \(max_event_size\)",
    "v2 D frame with version 2": "only version 1 has D frames",
    "v1 window then 2J": "a window of version 1 contains a frame of version 2",
    "version byte 3": "version must be '1' or '2'",
    "binary version byte 0x02": "version must be '1' or '2'",
    "TLS ClientHello on a plain port": "TLS begins with 16 03",
    "HTTP GET on the port": "HTTP request",
    "client sends an A frame": "ACK frame, but it receives no events",
    "unknown frame type X": "no frame type 0x58",
    "window 0xffffffff": r"4294967295 events is above the limit of 65536 \(max_window\)",
}


def segments(exchange):
    return [
        bytes.fromhex(part)
        for part in exchange.get("client_hex_segments") or [exchange["client_hex"]]
    ]


@pytest.mark.parametrize("piece", [None, 1, 7])
@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange["name"])
def test_exchange(exchange, piece):
    """The outcome is the expected one, as recorded and however the bytes are cut."""
    name = exchange["name"]
    pieces = segments(exchange)
    if piece is not None:
        pieces = split(b"".join(pieces), piece)
    reader = BatchReader()
    batches, error = feed_all(reader, pieces)
    sent = [ack for batch in batches for ack in acks(batch)]
    if name in ERRORS:
        assert error is not None
        assert re.search(ERRORS[name], error)
        assert not sent
        return
    assert error is None
    assert sent == ACKS[name]
    if name in INSIDE:
        assert reader.state is ReaderState.INSIDE
        assert reader.flush() is None
        return
    batch = reader.flush()
    assert ([] if batch is None else acks(batch)) == FLUSHED.get(name, [])
    assert reader.state is ReaderState.BETWEEN


def test_json_values_that_are_no_objects():
    """An array and a scalar are one event each, and are handed over as they are."""
    found = {}
    for exchange in EXCHANGES:
        if exchange["name"] in {"v2 J JSON array", "v2 J JSON scalar"}:
            (batch,) = BatchReader().feed(*segments(exchange))
            found[exchange["name"]] = decode_event(batch, 1)
    assert found == {"v2 J JSON array": [{"a": 1}, {"a": 2}], "v2 J JSON scalar": 42}


SCRIPTS = {
    "full ack": [10],
    "partial acks": [4, 7, 10],
    "keepalive then ack": [0, 0, 10],
    "endless keepalives (12 x 0.3 s)": [0, 0, 0, 0, 0, 0],
    "ack going backwards": [7, 7, 10],
    "not an ack frame": None,
    "FIN at once": [],
}
"""How many events are acknowledged after each frame; ``None``: a protocol error."""


@pytest.mark.parametrize("script", CLIENT_SIDE, ids=lambda script: script["name"])
def test_client_side(script):
    """Each script of a server leads to the expected progress of ten events."""
    expected = SCRIPTS[script["name"]]
    reader = AckReader()
    progress = AckProgress(10)
    seen = []
    frames = [bytes.fromhex(text) for text in script["server_hex"] if not text.startswith("<")]
    if expected is None:
        with pytest.raises(RemoteProtocolError, match=r"sent 32 57 .*where a frame 2A is due"):
            reader.feed(b"".join(frames))
        return
    for frame in frames:
        for number in reader.feed(frame):
            progress.acknowledge(number)
            seen.append(progress.acked)
    assert seen == expected
    assert progress.done is (10 in expected)
    assert not reader.partial


def test_all_vectors_are_here():
    assert {exchange["name"] for exchange in EXCHANGES} == {*ACKS, *ERRORS}
    assert {script["name"] for script in CLIENT_SIDE} == {*SCRIPTS}
