"""The frames of a connection out of its bytes, and without secrets."""

from __future__ import annotations

import json
import random
import re

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, Ping, Request

from rsocket_trio.cli import frame_reader
from rsocket_trio.cli.conversation import Conversation
from rsocket_trio.cli.frame_reader import FrameReader
from rsocket_trio.cli.wire_formats import summaries, wire_format
from rsocket_trio.errors import MalformedFrame
from rsocket_trio.frames.payload import PayloadFrame
from rsocket_trio.frames.request import RequestResponseFrame
from rsocket_trio.frames.setup import SetupFrame
from rsocket_trio.metadata import BearerAuthentication, Metadata, SimpleAuthentication

COMPOSITE = "message/x.rsocket.composite-metadata.v0"
PING = bytes.fromhex("00000001100070696e67")
PONG = bytes.fromhex("000000012860706f6e67")
DRAFT = bytes.fromhex("0000000c00030000000000000000000c0003200000000000")


def asking(metadata: bytes, data: bytes = b"x", *, follows: bool = False) -> bytes:
    frame = RequestResponseFrame(stream_id=1, metadata=metadata, data=data, follows=follows)
    return frame.encode()


def cut(whole: Conversation, data: bytes, size: int, *, from_client: bool = True) -> list[object]:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    found = [each for one in pieces for each in whole.feed(one, from_client=from_client)]
    found += whole.end(from_client=from_client)
    return [str(each) if isinstance(each, ValueError) else each for each in found]


@pytest.mark.parametrize("size", [1, 3, 10**6])
def test_websocket(size: int):
    """Masked and unmasked, in fragments, long and short, with control frames between them."""
    client, server = WSConnection(ConnectionType.CLIENT), WSConnection(ConnectionType.SERVER)
    asked = client.send(Request(host="a", target="/"))
    server.receive_data(asked)
    assert list(server.events())
    answered = server.send(AcceptConnection())
    client.receive_data(answered)
    assert list(client.events())
    long = PING + bytes(70_000)
    sizes = [PING, PING + bytes(200), long]
    for side, begin, from_client in ((client, asked, True), (server, answered, False)):
        data = begin
        for each in sizes:
            data += side.send(Ping())
            half = len(each) // 2
            data += side.send(BytesMessage(data=each[:half], message_finished=False))
            data += side.send(BytesMessage(data=each[half:]))
        whole = Conversation("rsocket")
        assert cut(whole, data, size if size > 1 else 29, from_client=from_client) == sizes
        assert "incomplete" in str(cut(Conversation("rsocket"), data[:-1], 10**6)[-1])


@pytest.mark.parametrize("size", [3, 10**6])
def test_the_draft_is_recognised_by_its_client(size: int):
    """A server knows who has connected only then; what it sends is read in the same way."""
    setup = bytes.fromhex("00010000000000000000000000004e200001d4c0")
    setup += bytes([1]) + b"a" + bytes([1]) + b"b"
    client = (len(setup) + 4).to_bytes(4, "big") + setup
    whole = Conversation("rsocket")
    (frame,) = cut(whole, client, 10**6)
    assert whole.reader.wire.name == "reactivesocket"
    assert whole.reader.text(frame).startswith("SETUP")
    assert len(cut(whole, DRAFT, size, from_client=False)) == 2


@pytest.mark.parametrize("protocol", list(summaries()))
def test_any_bytes(protocol: str):
    """Frames or errors in words, and nothing else."""
    random.seed(3)
    begins = [b"", b"GET / HTTP/1.1\r\n\r\n", b"GET", b"HTTP/1.1 101\r\n\r\n\x82\x05", b"HT"]
    for _ in range(500):
        data = random.choice(begins) + random.randbytes(random.randrange(60))
        whole = Conversation(protocol)
        for frame in cut(whole, data, random.randrange(1, 80), from_client=random.random() < 0.5):
            if isinstance(frame, bytes):
                try:
                    json.dumps(whole.reader.fields(frame))
                    assert "\n" not in whole.reader.text(frame)
                except (MalformedFrame, ValueError):
                    continue
                finally:
                    assert len(whole.reader.masked(frame, from_client=True)) == len(frame)


def test_the_metadata_of_a_frame_are_read():
    """As SETUP says, and as composite metadata where there was none."""
    reader = FrameReader(wire_format("rsocket"))
    asked = asking(Metadata(route="greet").encode(COMPOSITE))
    (route,) = reader.fields(asked)["metadata"]
    assert (route["route"], reader.text(asked)[-13:]) == ("greet", "route='greet'")
    setup = SetupFrame(
        major=1,
        minor=0,
        keepalive_interval_ms=1,
        max_lifetime_ms=2,
        metadata_mime_type="text/plain",
        data_mime_type="a/b",
    ).encode()
    reader.fields(setup)
    (text,) = reader.fields(asked)["metadata"]
    assert text["mime"] == "text/plain"


@pytest.mark.parametrize("auth", [BearerAuthentication("PASS"), SimpleAuthentication("me", "PASS")])
def test_secrets_are_masked(auth):
    """Authentication of SETUP and of requests, the token of resumption, and the data of SETUP."""
    reader = FrameReader(wire_format("rsocket"))
    hidden = Metadata(auth=auth, route="greet").encode(COMPOSITE)
    setup = SetupFrame(
        major=1,
        minor=0,
        keepalive_interval_ms=1,
        max_lifetime_ms=2,
        metadata_mime_type=COMPOSITE,
        data_mime_type="a/b",
        resume_token=b"PASS-TOKEN",
        metadata=hidden,
        data=b"PASS-DATA",
    ).encode()
    asked = asking(hidden, data=b"PASS is data")
    first, second = (reader.masked(each, from_client=True) for each in (setup, asked))
    assert b"PASS" not in first
    assert re.findall(b"PASS.*", second) == [b"PASS is data"]
    assert reader.fields(second)["metadata"][0]["route"] == "greet"
    assert reader.fields(first)["metadata_mime"] == COMPOSITE


def test_secrets_in_fragments_are_masked(monkeypatch: pytest.MonkeyPatch):
    """Wherever the fragments end, in both directions, and of more streams than are remembered."""
    metadata = Metadata(auth=BearerAuthentication("PASSWORD"), route="greet").encode(COMPOSITE)
    for most in (4096, 0):
        monkeypatch.setattr(frame_reader, "_MOST_FRAGMENTED", most)
        for at in range(1, len(metadata)):
            reader = FrameReader(wire_format("rsocket"))
            first = asking(metadata[:at], follows=True)
            second = PayloadFrame(stream_id=1, metadata=metadata[at:], next=True).encode()
            shown = [reader.masked(each, from_client=True) for each in (first, second)]
            assert [len(each) for each in shown] == [len(first), len(second)]
            left = b"".join(shown)
            assert not any(part in left for part in (b"PASS", b"WORD", b"ASSW"))
