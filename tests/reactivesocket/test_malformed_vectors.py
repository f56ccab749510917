"""Every malformed golden vector of the draft, over a real TCP socket, in its role."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from rsocket_trio import Lease, LeaseGranter, LeaseOptions, Payload, connect, serve
from rsocket_trio.reactivesocket.frames import (
    ErrorFrame,
    KeepaliveFrame,
    LeaseFrame,
    LengthDecoder,
    RequestResponseFrame,
    ResponseFrame,
    SetupFrame,
    decode,
    encode_length,
)
from rsocket_trio.testing.peer import KnownAnswers

VECTORS = [
    vector
    for vector in json.loads(
        (Path(__file__).parent.parent / "vectors" / "reactivesocket.json").read_text()
    )
    if vector["kind"] == "v0-malformed"
]
DRAFT_ONLY = ["reactivesocket"]


def chosen(role):
    return [
        pytest.param(vector, id=vector["name"])
        for vector in VECTORS
        if vector["context"].startswith(role)
    ]


def test_every_vector_is_run():
    """Each malformed vector is run in one role."""
    assert len(chosen("server")) + len(chosen("client")) == len(VECTORS)


class Wire:
    """Frames of the draft on a socket, byte for byte as the draft has them."""

    def __init__(self, stream):
        self.stream = stream
        self.decoder = LengthDecoder(10_000)
        self.frames = []

    async def send(self, *frames):
        encoded = [frame.encode() for frame in frames]
        await self.stream.send_all(b"".join(encode_length(each) + each for each in encoded))

    async def receive(self):
        """The next frame; ``None`` at the end."""
        with trio.fail_after(10):
            while not self.frames:
                data = await self.stream.receive_some()
                if not data:
                    return None
                self.frames += map(decode, self.decoder.feed(data))
        return self.frames.pop(0)

    async def expect_alive(self):
        """Check that all frames so far were ignored: only a KEEPALIVE is answered."""
        await self.send(KeepaliveFrame(True, b"alive?"))
        assert await self.receive() == KeepaliveFrame(False, b"alive?")


@asynccontextmanager
async def raw_client(**options):
    async with trio.open_nursery() as nursery:

        async def run(*, task_status):
            await serve(KnownAnswers(), "tcp://127.0.0.1:0", task_status=task_status, **options)

        server = await nursery.start(run)
        port = int(server.uris[0].rpartition(":")[2])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            yield Wire(stream)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("case", chosen("server"))
async def test_at_a_server(case):
    """A raw client sends it to our server, and gets the expected outcome."""
    context, expected = case["context"], case["expect"]
    options = {"protocols": DRAFT_ONLY} if "first frame" in context else {}
    leased = "with L" in context
    if leased:
        options["lease"] = LeaseOptions(LeaseGranter(Lease(0, 0)))
    async with raw_client(**options) as wire:
        if "first frame" not in context:
            await wire.send(SetupFrame(0, 20_000, 90_000, lease=leased))
            if leased:
                assert await wire.receive() == LeaseFrame(0, 0)
            await wire.expect_alive()
        await wire.stream.send_all(bytes.fromhex(case["tcp_hex"]))
        if expected["action"].startswith("ERROR on stream"):
            error = await wire.receive()
            assert isinstance(error, ErrorFrame)
            assert error.stream_id == int(expected["action"].split()[-1])
            assert hex(error.code) in expected["error_code"]
        else:
            assert expected["action"].startswith("ignore")
        if expected["close_connection"]:
            assert await wire.receive() is None
        else:
            await wire.expect_alive()


@pytest.mark.parametrize("case", chosen("client"))
async def test_at_a_client(case):
    """A raw server sends it to our client, and a request meanwhile has the expected outcome."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    delivered = case["expect"]["action"] == "deliver and complete"

    async def client():
        async with connect(f"tcp://127.0.0.1:{port}", protocol="reactivesocket") as requester:
            reply = await requester.request_response(Payload(b"ping"))
            assert reply == Payload(b"pong" if delivered else b"at last")
            assert requester.statistics().open_streams == 0

    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(client)
        async with await listener.accept() as stream:
            wire = Wire(stream)
            assert isinstance(await wire.receive(), SetupFrame)
            assert await wire.receive() == KeepaliveFrame(True)
            await wire.send(KeepaliveFrame(False))
            assert await wire.receive() == RequestResponseFrame(2, data=b"ping")
            await stream.send_all(bytes.fromhex(case["tcp_hex"]))
            if not delivered:
                await wire.expect_alive()
                await wire.send(ResponseFrame(2, complete=True, data=b"at last"))
            assert await wire.receive() is None


@pytest.mark.parametrize(
    ("length", "code"), [("0000000b", 0x101), ("00000000", 0x101), ("7fffffff", 0x101)]
)
async def test_impossible_lengths_end_the_connection(length, code):
    """V0-FRAME-02: a length too small for a header, or past the limit."""
    async with raw_client() as wire:
        await wire.send(SetupFrame(0, 20_000, 90_000))
        await wire.expect_alive()
        await wire.stream.send_all(bytes.fromhex(length))
        error = await wire.receive()
        assert (error.stream_id, error.code) == (0, code)
        assert await wire.receive() is None


@pytest.mark.parametrize("first", ["0000000b 0001 0000 00000000", "7fffffff 0001 0000 00000000"])
async def test_a_setup_with_an_impossible_length(first):
    """Bytes that begin like the draft are refused in the form of the draft."""
    async with raw_client() as wire:
        await wire.stream.send_all(bytes.fromhex(first))
        error = await wire.receive()
        assert (error.stream_id, error.code) == (0, 0x001)
        assert await wire.receive() is None
