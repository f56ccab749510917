"""The parts of the table's rows: `row`, `Scene`, and helpers for many rows."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import attrs
import trio
import trio.testing

from rsocket_trio import connect, serve_transport
from rsocket_trio.config import ConnectionConfig
from rsocket_trio.connection.connection import Connection
from rsocket_trio.requester import Requester
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.base import FrameTransport, TransportInfo
from rsocket_trio.transports.byte_stream import ByteStreamTransport
from rsocket_trio.transports.memory import MemoryTransport, memory_transport_pair

CONFIG = ConnectionConfig()
INFO = TransportInfo(scheme="test")

Call = Callable[[], Awaitable[object]]


@attrs.frozen
class Row:
    """A promise, a state in which it has to be kept, and how to get there.

    Attributes:
        only_cancelled: It promises to be a cancellation point, and not to let other tasks run.
    """

    name: str
    state: str
    prepare: Callable[[Scene], Awaitable[Call]]
    only_cancelled: bool = False

    def __str__(self) -> str:
        return f"{self.name}, {self.state}" if self.state else self.name


@attrs.frozen
class Scene:
    """The environment of one row; its resources live as long as the test.

    Attributes:
        nursery: For tasks that run beside it.
        stack: For resources that have to be closed.
        directory: For files.
        server_tls: A certificate for ``localhost``.
        client_tls: Trusts it.
    """

    nursery: trio.Nursery
    stack: AsyncExitStack
    directory: Path
    server_tls: ssl.SSLContext
    client_tls: ssl.SSLContext

    async def enter(self, manager: AbstractAsyncContextManager[object]):
        return await self.stack.enter_async_context(manager)

    def start(self, function: Callable[..., Awaitable[object]], *arguments, **settings) -> None:
        """Start a task beside the row; its errors when the scene ends are ignored."""

        async def run() -> None:
            with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
                await function(*arguments, **settings)

        self.nursery.start_soon(run)

    async def requester(self, responder=None) -> Requester:
        """A client of a server over memory."""
        here, there = memory_transport_pair()
        self.start(serve_transport, KnownAnswers() if responder is None else responder, there)
        return await self.enter(connect(here))


def row(name: str, state: str = "", *, only_cancelled: bool = False) -> Callable:
    """Decorate a row: a function that prepares the scene and returns the call to await."""

    def enter(prepare: Callable[[Scene], Awaitable[Call]]):
        ROWS.append(Row(name, state, prepare, only_cancelled))
        return prepare

    return enter


ROWS: list[Row] = []


async def until_cancelled(call: Call) -> None:
    """For a call that ends only when it is cancelled: cancel it, by a deadline in the past."""
    with trio.move_on_after(0):
        await call()


def endless(function: Callable[..., Awaitable[object]], *arguments, **settings) -> Call:
    return partial(until_cancelled, partial(function, *arguments, **settings))


async def leaving(manager: AbstractAsyncContextManager[object]) -> Call:
    """A block that has been entered: leaving it has to be a checkpoint."""
    await manager.__aenter__()
    return partial(manager.__aexit__, None, None, None)


def raising(expected: type[Exception], call: Call) -> Call:
    """For a call that fails: it still has to be a checkpoint."""

    async def fail() -> None:
        try:
            await call()
        except expected:
            return
        raise AssertionError(f"it did not raise {expected.__name__}")

    return fail


def connection(*, client: bool = False, **settings) -> tuple[Connection, MemoryTransport]:
    """A connection that does not run, and the other end of its transport."""
    here, there = memory_transport_pair()
    made = Connection(here, CONFIG, client=client, **settings)
    made.open(KnownAnswers())
    return made, there


def over_bytes(stream: trio.abc.Stream, **settings) -> ByteStreamTransport:
    return ByteStreamTransport(stream, info=INFO, **settings)


class Quick(FrameTransport):
    """A transport that is never a checkpoint itself, so its caller has to be one."""

    def __init__(self, *batches: list[bytes] | Exception) -> None:
        self.info = INFO
        self.batches = list(batches)
        self.sent: list[bytes] = []

    async def send_frames(self, frames) -> None:
        self.sent += frames

    async def receive_frames(self) -> list[bytes]:
        if not self.batches:
            return []
        batch = self.batches.pop(0)
        if isinstance(batch, Exception):
            raise batch
        return batch

    async def close_sending(self) -> bool:
        return False

    async def aclose(self) -> None:
        pass


class QuickStream(trio.abc.Stream):
    """A stream that is never a checkpoint itself."""

    def __init__(self, *data: bytes) -> None:
        self.data = list(data)

    async def send_all(self, data) -> None:
        pass

    async def wait_send_all_might_not_block(self) -> None:
        pass

    async def receive_some(self, max_bytes=None) -> bytes:
        return self.data.pop(0) if self.data else b""

    async def aclose(self) -> None:
        pass
