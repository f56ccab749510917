"""Attacks that only WebSocket makes possible: ping floods, text, messages without end."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    Request,
    TextMessage,
)

from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    ErrorFrame,
    KeepaliveFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    SetupFrame,
    decode,
)
from rsocket_trio.payload import Payload

MIB = 2**20


class RawWebSocket:
    """A WebSocket client that sends any bytes."""

    def __init__(self, stream, lifetime: float) -> None:
        self.stream = stream
        self.ws = WSConnection(ConnectionType.CLIENT)
        self.lifetime = lifetime
        self.events = []

    async def handshake(self, host: str, target: str) -> None:
        await self.stream.send_all(self.ws.send(Request(host=host, target=target)))
        assert isinstance(await self.event(), AcceptConnection)

    async def event(self):
        """Return the next event, ``None`` at the end."""
        with trio.fail_after(20):
            while not self.events:
                try:
                    data = await self.stream.receive_some()
                except trio.BrokenResourceError:
                    return None
                if not data:
                    return None
                self.ws.receive_data(data)
                self.events += self.ws.events()
        return self.events.pop(0)

    async def send(self, *frames) -> None:
        await self.stream.send_all(
            b"".join(self.ws.send(BytesMessage(data=frame.encode())) for frame in frames)
        )

    async def setup(self) -> None:
        await self.send(SetupFrame(1, 0, 500, round(self.lifetime * 1000)))

    async def alive(self) -> bool:
        await self.send(KeepaliveFrame(respond=True, data=b"alive?"))
        answer = KeepaliveFrame(respond=False, data=b"alive?").encode()
        while (event := await self.event()) is not None:
            if isinstance(event, BytesMessage) and bytes(event.data) == answer:
                return True
        return False

    async def last_word(self):
        """Return the ERROR on stream 0 before the end, if there is one, and the close code."""
        error = code = None
        while (event := await self.event()) is not None:
            if isinstance(event, BytesMessage):
                frame = decode(bytes(event.data))
                if isinstance(frame, ErrorFrame) and not frame.stream_id:
                    error = frame
            elif isinstance(event, CloseConnection):
                code = event.code
                return error, code
        return error, code


@asynccontextmanager
async def websocket(target, lifetime=90.0):
    address, _, path = target.ws.removeprefix("ws://").partition("/")
    host, port = address.split(":")
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        raw = RawWebSocket(stream, lifetime)
        await raw.handshake(address, "/" + path)
        yield raw


async def flood(stream, data: bytes, at_most: int) -> int:
    sent = 0
    while sent < at_most:
        with trio.move_on_after(0.5) as scope:
            try:
                await stream.send_all(data)
            except trio.BrokenResourceError:
                return sent
        if scope.cancelled_caught:
            return sent
        sent += len(data)
    return sent


async def test_pings_whose_pongs_are_read(target):
    """Pings are answered and cost nothing; at least the last of a batch is answered."""
    async with target.attacked():
        async with websocket(target) as raw:
            await raw.setup()
            for number in range(20):
                pings = [Ping(payload=b"%03d %04d" % (number, i)) for i in range(1000)]
                await raw.stream.send_all(b"".join(raw.ws.send(ping) for ping in pings))
                while True:
                    event = await raw.event()
                    assert isinstance(event, Pong)
                    if bytes(event.payload) == pings[-1].payload:
                        break
            assert await raw.alive()


async def test_pings_whose_pongs_are_not_read(target):
    """Pongs do not pile up in the server: it skips them, or stops reading and ends."""
    async with target.attacked() as requester:
        async with websocket(target, target.short_lifetime) as raw:
            await raw.setup()
            pings = b"".join(raw.ws.send(Ping(payload=b"p" * 125)) for _ in range(1000))
            await flood(raw.stream, pings, 64 * MIB)
            await target.wait_until_alone(requester)


async def test_a_message_without_end(target):
    """A message that goes on past the limit of a frame ends the connection."""
    async with target.attacked():
        async with websocket(target) as raw:
            await raw.setup()
            assert await raw.alive()
            part = raw.ws.send(BytesMessage(data=bytes(60_000), message_finished=False))
            more = raw.ws.send(BytesMessage(data=bytes(60_000), message_finished=False))
            sent = len(part)
            await raw.stream.send_all(part)
            # The last words get some time, in which what still comes is dropped, within 64 MiB.
            sent += await flood(raw.stream, more, 128 * MIB)
            error, code = await raw.last_word()
            assert sent < 128 * MIB
            assert error is None or error.code == ErrorCode.CONNECTION_ERROR
            assert error is not None or code is not None or sent


async def test_empty_continuations_without_end(target):
    """Some of hundreds of thousands are accepted, then the connection ends."""
    async with target.attacked():
        async with websocket(target) as raw:
            await raw.setup()
            assert await raw.alive()
            first = raw.ws.send(BytesMessage(data=b"\0", message_finished=False))
            empty = b"\x00\x80\x00\x00\x00\x00"  # continuation, masked, no data
            await raw.stream.send_all(first + empty * 100)
            # A client that sends much after the end may lose the ERROR to a reset: this is one
            # read's worth.
            await raw.stream.send_all(empty * 1000)
            error, code = await raw.last_word()
            assert error.code == ErrorCode.CONNECTION_ERROR
            assert "empty parts" in error.data.decode()
            assert code == 1008
            await flood(raw.stream, empty * 1000, MIB)


@pytest.mark.parametrize(
    "frame",
    [b"\x89\x80mask", b"\x8a\x80mask", b"\x00\x81maskx"],
    ids=["pings", "pongs", "tiny parts"],
)
async def test_tiny_frames_without_end(target, frame):
    """Frames of six bytes, by the hundred thousand: others are served, and memory is bounded."""
    async with target.attacked() as requester:
        async with websocket(target) as raw:
            await raw.setup()
            assert await raw.alive()
            await raw.stream.send_all(b"\x02\x81maskx" if frame[0] == 0 else b"")
            async with trio.open_nursery() as nursery:

                async def send():
                    await flood(raw.stream, frame * 10_000, 3 * MIB // 2)
                    nursery.cancel_scope.cancel()

                async def read():
                    while await raw.stream.receive_some():
                        pass

                async def ask():
                    while True:
                        assert await requester.request_response(Payload(b"a")) == Payload(b"a")

                for task in (send, read, ask):
                    nursery.start_soon(task)


async def test_a_message_longer_than_the_limit(target):
    """R-FRAME-03: a whole message past the limit ends the connection as on TCP."""
    async with target.attacked():
        async with websocket(target) as raw:
            await raw.setup()
            assert await raw.alive()
            too_long = RequestFnfFrame(1, data=bytes(target.limits["max_frame_size"])).encode()
            await flood(raw.stream, raw.ws.send(BytesMessage(data=too_long)), len(too_long))
            error, code = await raw.last_word()
            assert error is not None or code is not None


async def test_a_message_that_announces_terabytes(target):
    """No memory is reserved for the length in the WebSocket header."""
    async with target.attacked(16 * MIB):
        async with websocket(target) as raw:
            await raw.setup()
            assert await raw.alive()
            await raw.stream.send_all(b"\x82\xff" + (2**40).to_bytes(8, "big") + b"mask" + b"x")
            await flood(raw.stream, bytes(64 * 1024), 64 * MIB)
            error, code = await raw.last_word()
            assert error is None or error.code == ErrorCode.CONNECTION_ERROR
            assert code != 1000


async def test_a_text_message_ends_the_connection(target):
    """The end has a reason."""
    async with target.attacked():
        async with websocket(target) as raw:
            await raw.setup()
            assert await raw.alive()
            await raw.stream.send_all(raw.ws.send(TextMessage(data="hello")))
            error, code = await raw.last_word()
            assert error is not None or code in (1002, 1003)


async def test_requests_whose_answers_are_not_read(target):
    """Over WebSocket too most are refused, and then the client is treated as dead."""
    async with target.attacked() as requester:
        async with websocket(target, target.short_lifetime) as raw:
            await raw.setup()
            for first in range(1, 200_001, 2000):
                requests = b"".join(
                    raw.ws.send(
                        BytesMessage(data=RequestResponseFrame(i, data=b"r" * 1000).encode())
                    )
                    for i in range(first, first + 2000, 2)
                )
                if await flood(raw.stream, requests, len(requests)) < len(requests):
                    break  # The connection has ended already.
            await target.wait_until_alone(requester)


@pytest.mark.parametrize(
    "opening",
    [
        b"",
        b"GET /rsocket HTTP/1.1\r\nHost: x\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 100_000,
        b"A" * 1_000_000,
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 100_000,
        bytes(range(256)) * 10,
    ],
    ids=["nothing", "half a request", "endless headers", "endless line", "POST", "noise"],
)
async def test_a_connection_without_a_handshake(target, opening):
    """It is ended within the set-up timeout."""
    address = target.ws.removeprefix("ws://").partition("/")[0]
    host, port = address.split(":")
    async with target.attacked():
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            await flood(stream, opening, len(opening))
            with trio.fail_after(15):
                try:
                    while await stream.receive_some():
                        pass
                except trio.BrokenResourceError:
                    pass
