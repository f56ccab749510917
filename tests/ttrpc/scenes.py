"""Scripted peers for the tests of ttrpc: a `Stranger` to a server, and to a client."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio
import trio.testing

from rsocket_trio.ttrpc import Method, MethodKind, Service, Status, connect, serve_stream
from rsocket_trio.ttrpc.wire.decoder import FrameDecoder
from rsocket_trio.ttrpc.wire.envelopes import (
    Request,
    Response,
    decode_response,
    encode_ok,
    encode_request,
    encode_response,
)
from rsocket_trio.ttrpc.wire.frames import (
    HEADER,
    NO_DATA,
    REMOTE_CLOSED,
    REMOTE_OPEN,
    MessageType,
    encode_frame,
)

SERVICE = "test.Things"
END = REMOTE_CLOSED | NO_DATA

ECHO = Method.raw(SERVICE, "Echo")
COUNT = Method.raw(SERVICE, "Count", MethodKind.SERVER_STREAM)
JOIN = Method.raw(SERVICE, "Join", MethodKind.CLIENT_STREAM)
CHAT = Method.raw(SERVICE, "Chat", MethodKind.BIDI_STREAM)


@attrs.frozen
class Frame:
    """One frame."""

    stream_id: int
    kind: MessageType
    flags: int
    body: bytes

    @property
    def response(self) -> Response:
        assert self.kind is MessageType.RESPONSE
        return decode_response(self.body)

    @property
    def status(self) -> Status:
        status = self.response.status
        assert status is not None, f"the call {self.stream_id} has succeeded"
        return status

    @property
    def code(self) -> int:
        status = self.response.status
        return 0 if status is None else status.code

    @property
    def payload(self) -> bytes:
        assert self.code == 0, self.status
        return self.response.payload

    @property
    def is_last(self) -> bool:
        """Whether a server has ended the call with it."""
        return self.kind is MessageType.RESPONSE or bool(self.flags & REMOTE_CLOSED)


def frame_of(data: bytes) -> Frame:
    _, stream_id, kind, flags = HEADER.unpack_from(data)
    return Frame(stream_id, MessageType(kind), flags, bytes(data[HEADER.size :]))


def request(
    stream_id: int,
    method: str = "Echo",
    payload: bytes = b"",
    *,
    flags: int = 0,
    timeout: int = 0,
    metadata: tuple[tuple[str, str], ...] = (),
    service: str = SERVICE,
) -> bytes:
    body = encode_request(Request(service, method, payload, timeout, metadata))
    return encode_frame(stream_id, MessageType.REQUEST, flags, body)


def opening(stream_id: int, method: str = "Join", **settings) -> bytes:
    """A request whose stream of messages is open."""
    return request(stream_id, method, flags=REMOTE_OPEN, **settings)


def data(stream_id: int, body: bytes = b"", flags: int = 0) -> bytes:
    return encode_frame(stream_id, MessageType.DATA, flags, body)


def end(stream_id: int) -> bytes:
    return data(stream_id, flags=END)


def answer(stream_id: int, payload: bytes = b"") -> bytes:
    return encode_frame(stream_id, MessageType.RESPONSE, 0, encode_ok(payload))


def refusal(stream_id: int, code: int, text: str = "", details=()) -> bytes:
    body = encode_response(Response(Status(code, text, details)))
    return encode_frame(stream_id, MessageType.RESPONSE, 0, body)


class Stranger:
    """A peer of bytes. It reads all the time, unless it is told not to.

    Attributes:
        received: The frames that have arrived and that no test has looked at.
        ended: Whether the other end has closed the connection.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.received: list[Frame] = []
        self.ended = False
        self._changed = trio.Event()
        self._may_read = trio.Event()
        self._may_read.set()
        self._reading = trio.CancelScope()

    async def read(self) -> None:
        decoder = FrameDecoder()
        chunk = None
        try:
            while chunk != b"":
                await self._may_read.wait()
                with trio.CancelScope() as self._reading:
                    chunk = await self.stream.receive_some(2**16)
                    self.received += map(frame_of, decoder.feed(chunk))
                    self._change()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        self.ended = True
        self._change()

    def pause(self) -> None:
        """Read no more, until `resume`."""
        self._may_read = trio.Event()
        self._reading.cancel(reason="a peer that does not read")

    def resume(self) -> None:
        self._may_read.set()

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def send(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(frames))

    async def frame(self) -> Frame:
        """The next frame."""
        with trio.fail_after(60):
            while not self.received:
                assert not self.ended, "the connection is over"
                await self._changed.wait()
        return self.received.pop(0)

    async def drain(self) -> list[Frame]:
        """All frames, once every task waits."""
        await trio.testing.wait_all_tasks_blocked()
        frames, self.received = self.received, []
        return frames

    async def until_end(self) -> list[Frame]:
        """All frames, up to the end of the connection."""
        with trio.fail_after(60):
            while not self.ended:
                await self._changed.wait()
        return await self.drain()

    async def ask(self, stream_id: int, payload: bytes = b"alive?") -> bytes:
        """Send a request and return its answer, which is the next frame."""
        await self.send(request(stream_id, "Echo", payload))
        frame = await self.frame()
        assert frame.stream_id == stream_id
        return frame.payload

    async def end_sending(self) -> None:
        assert isinstance(self.stream, trio.abc.HalfCloseableStream)
        await self.stream.send_eof()

    async def leave(self) -> None:
        await self.stream.aclose()


def pair(over: str = "memory") -> tuple[trio.abc.Stream, trio.abc.Stream]:
    """Both ends of a connection.

    By ``memory`` or ``socket``: two ways to read in the engine. ``lockstep`` has no buffer: what
    one end sends has left when the other end has read it.
    """
    if over == "memory":
        return trio.testing.memory_stream_pair()
    if over == "lockstep":
        return trio.testing.lockstep_stream_pair()
    here, there = socket.socketpair()
    return tuple(trio.SocketStream(trio.socket.from_stdlib_socket(each)) for each in (here, there))


@asynccontextmanager
async def stranger_to(services, *, over: str = "memory", **settings) -> AsyncIterator[Stranger]:
    """Serve one connection; the test is its client."""
    here, there = pair(over)
    async with here, trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_stream, services, there, **settings))
        stranger = Stranger(here)
        nursery.start_soon(stranger.read)
        yield stranger
        await here.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


@asynccontextmanager
async def client_of_stranger(*, over: str = "memory", **settings):
    """Connect a client; the test is its server. Yields the client and the stranger."""
    here, there = pair(over)
    async with there, trio.open_nursery() as nursery:
        stranger = Stranger(there)
        nursery.start_soon(stranger.read)
        async with connect(here, **settings) as client:
            yield client, stranger
        await there.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


@asynccontextmanager
async def client_of(services, *, over: str = "memory", config=None, server_config=None, **settings):
    """A client of a server, over a stream."""
    here, there = pair(over)
    client_settings = settings | ({} if config is None else {"config": config})
    server_settings = {} if server_config is None else {"config": server_config}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_stream, services, there, **server_settings))
        async with connect(here, **client_settings) as client:
            yield client
        nursery.cancel_scope.cancel(reason="the test is over")


def things() -> Service:
    """A service with a method of each kind."""
    service = Service(SERVICE)

    @service.method("Echo")
    async def echo(request: bytes) -> bytes:
        return request

    @service.method("Count")
    async def count(request: bytes) -> AsyncIterator[bytes]:
        for number in range(int(request) if request.isdigit() else 0):
            yield b"%d" % number

    @service.method("Join")
    async def join(parts: trio.abc.ReceiveChannel[bytes]) -> bytes:
        return b"".join([part async for part in parts])

    @service.method("Chat")
    async def chat(lines: trio.abc.ReceiveChannel[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            yield line.upper()

    return service


def one(kind: MethodKind, function) -> Service:
    """A service with one method of raw messages, called ``Echo`` like that of `things`."""
    service = Service(SERVICE)
    service.add(Method.raw(SERVICE, "Echo", kind), function)
    return service
