"""Refusing a client: it receives the reason, also after a failure on the way.

Modules of rsocket_trio.connection: establish.
"""

from __future__ import annotations

import socket
import struct

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, Payload, Responder, connect, serve, serve_transport
from rsocket_trio.connection.establish import refuse
from rsocket_trio.errors import ErrorCode, RejectedSetup, RemoteProtocolError
from rsocket_trio.frames import ErrorFrame, SetupFrame, decode
from rsocket_trio.transports import FrameTransport, TransportInfo

CONFIG = ConnectionConfig(close_timeout=3)


class Echo(Responder):
    """Answers."""

    async def request_response(self, payload):
        return payload


def prefixed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(3, "big") + frame for frame in frames)


async def test_unread_bytes_do_not_lose_the_reason(nursery):
    """A socket closed with unread bytes is reset; so the server reads them, and ends cleanly."""
    server = await nursery.start(serve, Echo(), "tcp://127.0.0.1:0")
    port = int(server.uris[0].rpartition(":")[2])
    wrong = SetupFrame(9, 9, 1000, 1000).encode()
    async with await trio.open_tcp_stream("127.0.0.1", port) as client:
        await client.send_all(prefixed(wrong, *[bytes(1000)] * 500))
        received = b""
        while b"version 9.9" not in received:
            received += await client.receive_some()
        # Sent after the refusal has arrived: the server has not read this when it closes.
        await client.send_all(prefixed(*[bytes(1000)] * 500))
        await client.send_eof()
        while more := await client.receive_some():  # a reset is an error here
            received += more
    error = decode(received[3:])
    assert isinstance(error, ErrorFrame)
    assert error.code == ErrorCode.INVALID_SETUP
    await server.aclose(grace=1)


class Scripted(FrameTransport):
    """A transport that notes each call, and fails where the test says so."""

    def __init__(self, **failures):
        self.info = TransportInfo(scheme="test")
        self.failures = failures
        self.calls = []

    async def _do(self, name):
        await trio.lowlevel.checkpoint()
        self.calls.append(name)
        if (failure := self.failures.get(name)) is not None:
            raise failure

    async def send_frames(self, frames):
        await self._do("send")

    async def receive_frames(self):
        await self._do("receive")
        return [b"unread"] if self.calls.count("receive") < 3 else []

    async def close_sending(self):
        await self._do("close sending")
        return True

    async def aclose(self):
        await self._do("close")


async def test_the_order_of_a_refusal(autojump_clock):
    """First the reason, then the end of sending; then the client's frames are dropped."""
    transport = Scripted()
    await refuse(transport, RejectedSetup("no"), CONFIG)
    assert transport.calls == ["send", "close sending", "receive", "receive", "receive"]


@pytest.mark.parametrize("where", ["send", "close sending", "receive"])
@pytest.mark.parametrize("error", [trio.BrokenResourceError("gone"), RemoteProtocolError("junk")])
async def test_refusing_a_client_that_is_gone_or_malformed(where, error, autojump_clock):
    """It is refused all the same, and no error is raised."""
    transport = Scripted(**{where: error})
    await refuse(transport, RejectedSetup("no"), CONFIG)
    assert transport.calls[-1] == where


async def test_refusing_a_client_that_does_not_close(autojump_clock):
    """The server waits a second for the client to close, and three for it to read."""

    class Endless(Scripted):
        async def receive_frames(self):
            await trio.sleep(0.01)
            return [b"more"]

    start = trio.current_time()
    await refuse(Endless(), RejectedSetup("no"), CONFIG)
    assert 1 <= trio.current_time() - start <= 1.02

    class Deaf(Scripted):
        async def send_frames(self, frames):
            await trio.sleep_forever()

    start = trio.current_time()
    await refuse(Deaf(), RejectedSetup("no"), CONFIG)
    assert trio.current_time() - start == 3


@pytest.mark.parametrize("where", ["send", "close sending", "receive"])
async def test_a_transport_closed_by_its_owner(where):
    """Before the first frame, or during a refusal, this ends the connection without an error."""
    faulty = Scripted(**{where: trio.ClosedResourceError("closed")})
    await serve_transport(Echo(), faulty)
    assert faulty.calls[-1] == "close"


async def test_a_reset_during_a_refusal(nursery):
    """A client that resets while it is refused affects no other client."""
    server = await nursery.start(serve, Echo(), "tcp://127.0.0.1:0")
    port = int(server.uris[0].rpartition(":")[2])
    wrong = prefixed(SetupFrame(9, 9, 1000, 1000).encode())
    async with connect(server.uris[0]) as requester:
        for _ in range(50):
            with socket.socket() as client:
                client.connect(("127.0.0.1", port))
                client.send(wrong)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await trio.lowlevel.checkpoint()
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")
    await server.aclose(grace=1)
