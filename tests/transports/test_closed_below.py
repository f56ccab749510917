"""An application closes the socket below a transport: the connection is lost, without a crash."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ConnectionConfig,
    ConnectionLost,
    FrameTransport,
    Payload,
    Responder,
    connect,
    serve_transport,
)
from rsocket_trio.sockets import readiness
from rsocket_trio.sockets.direct import DirectStream

from .conftest import Contexts, pair_over

CONFIG = ConnectionConfig(keepalive_interval=0.05, max_lifetime=0.2)
WAYS: dict[str, Callable[[trio.socket.SocketType], object]] = {
    "trio's close": lambda socket: socket.close(),
    "Python's close": lambda socket: socket._sock.close(),
    "the descriptor": lambda socket: os.close(socket.fileno()),
}


def close_below(transport: FrameTransport, way: str) -> None:
    stream = transport.stream
    while not hasattr(stream, "socket"):
        stream = stream.transport_stream
    WAYS[way](stream.socket)


class Closing(Responder):
    """Closes the socket of its own connection while it answers."""

    def __init__(self, transport: FrameTransport, way: str) -> None:
        self.transport = transport
        self.way = way

    async def request_response(self, payload: Payload) -> Payload:
        if payload.metadata is None:
            return payload
        close_below(self.transport, self.way)
        return Payload(bytes(10**7))

    async def fire_and_forget(self, payload: Payload) -> None:
        close_below(self.transport, self.way)


@pytest.fixture(params=["few", "many"])
def connections(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has few connections, or so many that they share an epoll."""
    if request.param == "many":
        monkeypatch.setattr(readiness, "MANY", 1)


@pytest.mark.usefixtures("connections")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scheme", ["tcp", "tls", "ws", "wss", "unix"])
@pytest.mark.parametrize("who", ["server", "server that is silent", "client", "idle client"])
async def test_the_connection_is_lost(
    scheme: str,
    way: str,
    who: str,
    tls: Contexts,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    mock_clock: trio.testing.MockClock,
) -> None:
    """Its requests get `ConnectionLost`; the log has no crash, and other connections work."""
    where = f"unix://{tmp_path}/socket" if scheme == "unix" else f"{scheme}://localhost:0"
    with trio.fail_after(30), caplog.at_level(logging.INFO):
        async with pair_over(where, tls) as (ours, theirs):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    partial(serve_transport, Closing(theirs, way), theirs, config=CONFIG)
                )
                async with connect(ours, config=CONFIG) as requester:
                    assert await requester.request_response(Payload(b"x")) == Payload(b"x")
                    mock_clock.rate = 1  # until now the time has stood still
                    with pytest.raises(ConnectionLost):
                        match who:
                            case "server":
                                await requester.request_response(Payload(b"", b"close"))
                            case "server that is silent":
                                await requester.fire_and_forget(Payload(b"", b"close"))
                            case "client":
                                close_below(ours, way)
                            case _:
                                await trio.testing.wait_all_tasks_blocked()
                                close_below(ours, way)
                                await trio.sleep(0.1)
                        while True:
                            await requester.request_response(Payload(b"x"))
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


@pytest.mark.parametrize("way", WAYS)
async def test_waits_of_a_stream(way: str) -> None:
    """Each wait raises an error of trio, and leaves nothing behind that fails later waits."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        for _ in range(2):
            stream = DirectStream(await trio.open_tcp_stream(*listener.socket.getsockname()[:2]))
            async with await listener.accept() as peer:
                WAYS[way](stream.socket)
                for operation in (
                    stream.receive_some,
                    partial(stream.send_all, bytes(10**7)),
                    stream.wait_send_all_might_not_block,
                    stream.send_eof,
                ):
                    with pytest.raises((trio.ClosedResourceError, trio.BrokenResourceError)):
                        await operation()
                stream.detach()
                if way == "the descriptor":
                    stream.socket._sock.detach()
                await peer.send_all(b"x")
