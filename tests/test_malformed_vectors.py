"""Every malformed golden vector, over a real TCP socket, in the role its context names."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from rsocket_trio import ServerResume, connect, serve
from rsocket_trio.errors import ConnectionClosed, StreamError
from rsocket_trio.frames import (
    ErrorFrame,
    LeaseFrame,
    PayloadFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from rsocket_trio.lease import LeaseOptions
from rsocket_trio.payload import Payload
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.base import TransportInfo
from rsocket_trio.transports.byte_stream import ByteStreamTransport

VECTORS = [
    vector
    for vector in json.loads((Path(__file__).parent / "vectors" / "rsocket.json").read_text())
    if vector["kind"] == "malformed"
]

TOKEN = bytes.fromhex("00112233445566778899aabbccddeeff")
"""The token of the vectors that name a session."""

RESUMED = "a RESUME was accepted"

CUSHION = 0.05
"""Seconds without a frame that count as silence on a real socket."""


def chosen(role: str) -> list[object]:
    return [
        pytest.param(vector, id=vector["name"])
        for vector in VECTORS
        if vector["context"].startswith(role)
    ]


def test_every_vector_is_run():
    """Each malformed vector is run here, in one role."""
    names = {vector["name"] for vector in VECTORS}
    run = {param.id for role in ("server", "client") for param in chosen(role)}
    assert run == names


def transport_of(stream: trio.SocketStream) -> ByteStreamTransport:
    return ByteStreamTransport(stream, info=TransportInfo(scheme="tcp"))


class Watched(KnownAnswers):
    """Notes when a handler of its streams is cancelled or closed."""

    def __init__(self):
        super().__init__()
        self.closed = trio.Event()

    async def request_stream(self, payload):
        try:
            for number in range(int(payload.data)):
                yield Payload(b"%d" % number)
        finally:
            self.closed.set()


@asynccontextmanager
async def raw_client(responder, context):
    """A scripted client of our server, and the stream under it."""
    resume = ServerResume() if "resume server" in context or RESUMED in context else None
    async with trio.open_nursery() as nursery:
        start = partial(serve, responder, "tcp://127.0.0.1:0", resume=resume)
        server = await nursery.start(start)
        port = int(server.uris[0].rpartition(":")[2])
        dial = partial(trio.open_tcp_stream, "127.0.0.1", port)
        async with AsyncExitStack() as holding:
            if "token held" in context or RESUMED in context:
                holder = await holding.enter_async_context(FramePeer(transport_of(await dial())))
                await holder.send(SetupFrame(1, 0, 20_000, 90_000, resume_token=TOKEN))
                await holder.expect_alive()
            stream = await dial()
            async with FramePeer(transport_of(stream), cushion=CUSHION) as peer:
                if RESUMED in context:
                    await peer.send(ResumeFrame(1, 0, TOKEN, 0, 0))
                    await peer.receive(ResumeOkFrame)
                yield peer, stream
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("vector", chosen("server"))
async def test_at_a_server(vector):
    """A raw client sends it to our server, and gets the expected outcome."""
    responder = Watched()
    first = "first frame" in vector["context"]
    active = "stream 1" in vector["context"]
    async with raw_client(responder, vector["context"]) as (peer, stream):
        if not first and RESUMED not in vector["context"]:
            await peer.setup()
            await peer.expect_alive()
        if active:
            await peer.send(RequestStreamFrame(1, 1, data=b"3"))
            await peer.receive(PayloadFrame)
        await stream.send_all(bytes.fromhex(vector["tcp_hex"]))
        if len(vector["tcp_hex"]) < 2 * 6:
            # Too short to recognize the protocol: the server waits for more bytes, or for the end.
            await stream.send_eof()

        action = vector["expect"]["action"]
        if action == "ERROR on stream 0":
            await peer.expect_closed(int(vector["expect"]["error_code"][-6:-1], 16))
        elif action == "ERROR on stream 1":
            error = await peer.receive(ErrorFrame)
            code = int(vector["expect"]["error_code"][-6:-1], 16)
            assert (error.stream_id, error.code) == (1, code)
            await peer.expect_alive()
        elif action == "process as CANCEL":
            with trio.fail_after(30):
                await responder.closed.wait()
            await peer.send(RequestNFrame(1, 5))
            await peer.expect_nothing()
        else:
            assert action == "ignore"
            await peer.expect_nothing()
            await peer.expect_alive()
            if active:  # The stream was not affected.
                await peer.send(RequestNFrame(1, 1))
                assert (await peer.receive(PayloadFrame)).data == b"1"
        assert vector["expect"]["close_connection"] is (action == "ERROR on stream 0")


@asynccontextmanager
async def raw_server(use, *, lease):
    """A scripted server that accepted our client, on which ``use`` runs, and the stream."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]

    async def client():
        options = LeaseOptions() if lease else None
        async with connect(f"tcp://127.0.0.1:{port}", lease=options) as requester:
            await use(requester)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client)
        async with listener:
            stream = await listener.accept()
        async with FramePeer(transport_of(stream), cushion=CUSHION) as peer:
            assert (await peer.accept()).lease is lease
            if lease:
                await peer.receive(LeaseFrame)
                await peer.send(LeaseFrame(10_000, 1))
            yield peer, stream


class Asking:
    """The requests of our client, and their outcomes."""

    def __init__(self, question: str):
        self.question = question
        self.items: list[bytes] = []
        self.outcome: object = None
        self.done = trio.Event()
        self.leave = trio.Event()

    async def use(self, requester):
        if self.question == "response":
            try:
                self.outcome = await requester.request_response(Payload(b"?"))
            except (StreamError, ConnectionClosed) as error:
                self.outcome = error
        elif self.question == "stream":
            async with requester.request_stream(Payload(b"?")) as stream:
                async for payload in stream:
                    self.items.append(payload.data)
            self.outcome = "complete"
        self.done.set()
        await self.leave.wait()


@pytest.mark.parametrize("vector", chosen("client"))
async def test_at_a_client(vector):
    """A raw server sends it to our client, which does what is expected."""
    context, action = vector["context"], vector["expect"]["action"]
    asking = Asking("stream" if "REQUEST_STREAM" in context else "response")
    async with raw_server(asking.use, lease="with L" in context) as (peer, stream):
        request = await peer.receive()
        assert isinstance(request, RequestResponseFrame | RequestStreamFrame)
        await stream.send_all(bytes.fromhex(vector["tcp_hex"]))

        if action == "ERROR on stream 0":
            await peer.expect_closed(int(vector["expect"]["error_code"][-6:-1], 16))
            asking.leave.set()
            assert isinstance(asking.outcome, ConnectionClosed)
            return
        if action == "ignore":
            await peer.expect_nothing()
            await peer.expect_alive()
            assert asking.outcome is None
            await peer.send(PayloadFrame(1, next=True, complete=True, data=b"answer"))
            expected = Payload(b"answer")
        elif action == "deliver COMPLETE only, drop the data":
            expected = "complete"
        else:
            assert action == "end stream 1 with that error"
            expected = StreamError(b"x", code=0xFFFFFFFF)
        with trio.fail_after(30):
            await asking.done.wait()
        if isinstance(expected, StreamError):
            assert isinstance(asking.outcome, StreamError)
            assert (asking.outcome.code, asking.outcome.data) == (expected.code, expected.data)
        else:
            assert asking.outcome == expected
        assert asking.items == []
        await peer.expect_alive()
        asking.leave.set()
