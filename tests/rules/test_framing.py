"""Versions, framing, headers and metadata lengths, checked from the wire."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from rsocket_trio import serve_transport
from rsocket_trio.config import MAX_FRAME_SIZE, ConnectionConfig
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    ExtFrame,
    KeepaliveFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    SetupFrame,
    encode_length,
)
from rsocket_trio.payload import Payload
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.base import TransportInfo
from rsocket_trio.transports.byte_stream import ByteStreamTransport

VECTORS = {
    vector["name"]: vector
    for vector in json.loads((Path(__file__).parents[1] / "vectors" / "rsocket.json").read_text())
}

FLAGS_DEFINED = {
    "SETUP": 0x1C0,
    "LEASE": 0x100,
    "KEEPALIVE": 0x080,
    "REQUEST_RESPONSE": 0x180,
    "REQUEST_FNF": 0x180,
    "REQUEST_STREAM": 0x180,
    "REQUEST_CHANNEL": 0x1C0,
    "REQUEST_N": 0,
    "CANCEL": 0,
    "PAYLOAD": 0x1E0,
    "ERROR": 0,
    "METADATA_PUSH": 0x100,
}
"""The flags that are defined for each type, except I, which is defined for all types."""


def with_flags(frame: bytes, flags: int) -> bytes:
    bits = int.from_bytes(frame[4:6], "big") | flags
    return frame[:4] + bits.to_bytes(2, "big") + frame[6:]


def stray_flags(frame) -> int:
    return 0x3FF & ~FLAGS_DEFINED[frame.frame_type.name] & ~0x200


@pytest.mark.parametrize("version", [(1, 1), (2, 0), (0, 2), (0xFFFF, 0xFFFF)])
async def test_other_versions_are_refused(version):
    """R-VER-01, R-VER-02: any other version is INVALID_SETUP, and the connection ends."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:
        await peer.send(SetupFrame(*version, keepalive_interval_ms=1000, max_lifetime_ms=2000))
        await peer.expect_closed(ErrorCode.INVALID_SETUP)


async def test_a_client_says_version_one_zero():
    """R-VER-03: bytes 6 to 9 of a SETUP are major 1, minor 0."""
    async with frame_peer_server() as (peer, _):
        assert peer.received_bytes[0][6:10] == bytes.fromhex("00010000")


async def exchange(chunks: list[bytes], size: int) -> bytes:
    """Return the answers of a server, on a byte stream, to bytes that arrive in these pieces."""
    client, server = trio.testing.memory_stream_pair()
    transport = ByteStreamTransport(server, info=TransportInfo(scheme="tcp"))
    answer = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_transport, KnownAnswers(), transport))
        for chunk in chunks:
            await client.send_all(chunk)
        with trio.fail_after(10):
            while len(answer) < size:
                answer += await client.receive_some()
        await client.aclose()
    return answer


async def test_segmentation_does_not_matter():
    """R-TP-01, R-TP-03, R-FRAME-02: answers are the same however the bytes are cut."""
    frames = [
        SetupFrame(1, 0, 1000, 2000),
        RequestResponseFrame(1, data=b"one", metadata=b"m"),
        RequestFnfFrame(3, data=b"two"),
        RequestResponseFrame(5, data=b"three"),
    ]
    sent = b"".join(encode_length(frame.encode()) + frame.encode() for frame in frames)
    answers = [
        PayloadFrame(1, next=True, complete=True, data=b"one", metadata=b"m").encode(),
        PayloadFrame(5, next=True, complete=True, data=b"three").encode(),
    ]
    expected = {
        b"".join(encode_length(answer) + answer for answer in order)
        for order in (answers, answers[::-1])
    }
    size = len(next(iter(expected)))

    cuts = [[sent[:at], sent[at:]] for at in range(1, len(sent))]
    one_by_one = [sent[at : at + 1] for at in range(len(sent))]
    for chunks in [[sent], one_by_one, *cuts]:
        assert await exchange(chunks, size) in expected


async def test_frames_after_the_end_have_no_effect():
    """R-TP-02: a connection ignores the frames behind the one that ended it."""
    responder = KnownAnswers()
    async with frame_peer_client(responder) as peer:
        await peer.send(
            bytes.fromhex("000000000000"),
            RequestFnfFrame(1, data=b"too late"),
            RequestResponseFrame(3, data=b"too late"),
        )
        await peer.expect_closed(ErrorCode.CONNECTION_ERROR)
    assert responder.last_fire_and_forget == b""


async def test_the_largest_frame_is_accepted():
    """R-FRAME-03: a frame of 16,777,215 bytes is valid."""
    data = bytes(MAX_FRAME_SIZE - 6)
    responder = KnownAnswers()
    async with frame_peer_client(responder) as peer:
        await peer.send(RequestFnfFrame(1, data=data))
        await peer.expect_alive()
    assert responder.last_fire_and_forget == data


async def test_no_larger_frame_is_sent():
    """R-FRAME-03: a payload longer than a frame leaves in frames of the fragment size."""
    config = ConnectionConfig(fragment_size=MAX_FRAME_SIZE)
    async with frame_peer_server(config=config) as (peer, requester):
        await requester.fire_and_forget(Payload(bytes(MAX_FRAME_SIZE + 100)))
        first = await peer.receive(RequestFnfFrame)
        rest = await peer.receive(PayloadFrame)
    assert first.follows
    assert not rest.follows
    assert len(first.data) + len(rest.data) == MAX_FRAME_SIZE + 100
    assert max(len(frame) for frame in peer.received_bytes) <= MAX_FRAME_SIZE


async def test_undefined_flags_are_ignored():
    """R-FRAME-05, R-UNX-07b: undefined flags change nothing, on any type a client sends."""
    setup = SetupFrame(1, 0, 1000, 2000)
    script = [
        KeepaliveFrame(respond=True, data=b"k"),
        RequestResponseFrame(1, data=b"r"),
        RequestFnfFrame(3, data=b"f"),
        RequestStreamFrame(5, 1, data=b"3"),
        RequestNFrame(5, 1),
        CancelFrame(5),
        ErrorFrame(99, ErrorCode.APPLICATION_ERROR),
        RequestChannelFrame(7, 5, data=b"c"),
        PayloadFrame(7, next=True, complete=True, data=b"d"),
        MetadataPushFrame(b"p"),
    ]

    async def answers(strays: bool) -> list[bytes]:
        async with frame_peer_client(KnownAnswers(), setup=False) as peer:
            first = setup.encode()
            await peer.send(with_flags(first, 0x03F) if strays else first)
            for frame in script:
                encoded = frame.encode()
                await peer.send(with_flags(encoded, stray_flags(frame)) if strays else encoded)
                await trio.testing.wait_all_tasks_blocked()
            await peer.drain()
            return peer.received_bytes

    assert await answers(strays=True) == await answers(strays=False)


async def test_no_undefined_flag_is_sent():
    """R-FRAME-04, R-FRAME-05: each frame sent has only flags that its type defines."""

    async def source():
        yield Payload(b"2")

    async with frame_peer_server(KnownAnswers()) as (peer, requester):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(requester.request_response, Payload(b"0", b"m"))
            await requester.fire_and_forget(Payload(b"f"))
            await requester.metadata_push(b"p")
            async with requester.request_stream(Payload(b"s"), prefetch=4):
                pass
            async with requester.request_channel(source(), payload=Payload(b"1")):
                await trio.testing.wait_all_tasks_blocked()
            await peer.send(
                RequestResponseFrame(2, data=b"echo", metadata=b""),
                RequestResponseFrame(4, data=b"error:text"),
                RequestStreamFrame(6, 2, data=b"3"),
                RequestChannelFrame(8, 1, data=b"x"),
                KeepaliveFrame(respond=True),
            )
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await peer.drain()

    kinds = {frame.frame_type.name for frame in peer.received}
    assert kinds == set(FLAGS_DEFINED) - {"LEASE"}
    for frame, encoded in zip(peer.received, peer.received_bytes, strict=True):
        flags = int.from_bytes(encoded[4:6], "big") & 0x3FF
        assert not flags & ~FLAGS_DEFINED[frame.frame_type.name], frame


@pytest.mark.parametrize("bits", [0x0000, 0x0F << 10, 0x3E << 10])
@pytest.mark.parametrize("stream_id", [0, 1])
async def test_unknown_types(bits, stream_id):
    """R-FRAME-06, R-FRAME-07, R-FRAME-08: an unknown type is skipped with I, fatal without."""
    header = stream_id.to_bytes(4, "big")
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(header + (bits | 0x200).to_bytes(2, "big") + b"anything")
        await peer.expect_alive()
        await peer.send(header + bits.to_bytes(2, "big") + b"anything")
        await peer.expect_closed(ErrorCode.CONNECTION_ERROR)


async def test_unknown_extensions():
    """R-EXT-01, R-EXT-02: an unknown extension is skipped with I and fatal without."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(ExtFrame(1, 0x4D3F, ignore=True), ExtFrame(0, 0, ignore=True))
        await peer.expect_alive()
        await peer.send(ExtFrame(0, 0x4D3F))
        await peer.expect_closed(ErrorCode.CONNECTION_ERROR)


SMALLEST = {
    "keepalive_respond": 14,
    "lease_basic": 14,
    "request_response_data": 6,
    "fnf_metadata_data": 6,
    "request_stream_n1": 10,
    "request_channel_basic": 10,
    "request_n_1": 10,
    "error_application_error": 10,
    "payload_next": 6,
    "resume_ok": 6,  # A server ignores this type, so it reads no more than the header.
    "ext_not_ignorable": 10,
}


@pytest.mark.parametrize("name", SMALLEST)
async def test_frames_cut_short(name):
    """R-FRAME-09: a frame too short for its header or fixed fields is a CONNECTION_ERROR."""
    whole = bytes.fromhex(VECTORS[name]["hex"])
    for size in range(SMALLEST[name]):
        async with frame_peer_client(KnownAnswers()) as peer:
            await peer.send(whole[:size])
            await peer.expect_closed(ErrorCode.CONNECTION_ERROR)


@pytest.mark.parametrize("metadata", [None, b"", b"about"])
async def test_absent_and_empty_metadata_are_told_apart(metadata):
    """R-META-01, R-META-02, R-META-05: absent and empty metadata arrive as they were sent."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(RequestResponseFrame(1, data=b"hello", metadata=metadata))
        reply = await peer.receive(PayloadFrame)
    assert (reply.data, reply.metadata) == (b"hello", metadata)


async def test_metadata_longer_than_its_frame_ends_the_connection():
    """R-META-03: an impossible metadata length ends the connection, unless I was set."""
    overrun = bytes.fromhex("00000001 1100 000010 73686f7274")
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(with_flags(overrun, 0x200))
        await peer.expect_alive()
        await peer.send(overrun)
        await peer.expect_closed(ErrorCode.CONNECTION_ERROR)


async def test_metadata_push_has_no_metadata_length():
    """R-META-04, R-PUSH-02: all that follows the header is metadata, received and sent."""
    responder = KnownAnswers()
    async with frame_peer_client(responder) as peer:
        await peer.send(bytes.fromhex("00000000 3100 616263"))
        await peer.expect_alive()
    assert responder.last_metadata_push == b"abc"

    async with frame_peer_server() as (peer, requester):
        await requester.metadata_push(b"abc")
        await peer.receive(MetadataPushFrame)
        assert peer.received_bytes[-1] == bytes.fromhex("00000000 3100 616263")
