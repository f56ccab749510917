"""The limit of connections, and faults of one connection that affect no other."""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ConnectFailed,
    ConnectionClosed,
    ConnectionConfig,
    Payload,
    Responder,
    Server,
    connect,
    serve,
    serve_transport,
)
from rsocket_trio.sockets.connection_limit import counts_of
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.transports import (
    ConnectionLimit,
    FrameTransport,
    accept_transports,
    open_transport,
)
from rsocket_trio.uri import Uri

ENOUGH = 20
"""More clients than may be told at a time that there is no place."""


class Echo(Responder):
    """Answers."""

    async def request_response(self, payload: Payload) -> Payload:
        return payload


async def echo(transport: FrameTransport) -> None:
    while frames := await transport.receive_frames():
        await transport.send_frames(frames)


async def listen(nursery: trio.Nursery, uri: str, handle: Any = echo, **options: Any) -> Uri:
    uris: list[Uri] = await nursery.start(partial(accept_transports, uri, handle, **options))
    return uris[0]


async def is_served(uri: Uri | str, **options: Any) -> None:
    async with open_transport(uri, **options) as client:
        await client.send_frames([b"frame"])
        assert await client.receive_frames() == [b"frame"]


async def until_free(limit: ConnectionLimit) -> None:
    with trio.fail_after(20):
        while limit.open:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_limit_below_one_is_refused(wrong: int) -> None:
    """A limit that admits no client is refused."""
    assert ConnectionLimit(1).open == 0
    with pytest.raises(ValueError, match="max_connections must be at least 1"):
        ConnectionLimit(wrong)


@pytest.mark.parametrize("wrong", ["10", 1.5])
def test_a_limit_of_a_wrong_type_is_refused(wrong: Any) -> None:
    """It is refused at once, and not at the first connection."""
    with pytest.raises(TypeError, match="max_connections must be of type int"):
        ConnectionLimit(wrong)


@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_a_websocket_client_past_the_limit(
    scheme: str, nursery: trio.Nursery, tls: Any
) -> None:
    """It gets 503 before the handshake; when another leaves there is room again."""
    limit = ConnectionLimit(2)
    uri = f"{scheme}://127.0.0.1:0/x"
    uri = await listen(nursery, uri, ssl_context=tls.for_server(uri), max_connections=limit)
    dial = partial(open_transport, uri, ssl_context=tls.for_client(uri))
    async with dial(), dial():
        for _ in range(3):
            with pytest.raises(ConnectFailed, match="HTTP 503 Service Unavailable"):
                async with dial():
                    raise AssertionError("connected")
    await until_free(limit)
    await is_served(uri, ssl_context=tls.for_client(uri))
    nursery.cancel_scope.cancel()


async def test_the_limit_holds_for_all_addresses_of_a_server(
    nursery: trio.Nursery, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where no reason can be sent, the connection is closed at once."""
    uris = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0/x", f"unix://{tmp_path}/socket"]
    server: Server = await nursery.start(partial(serve, Echo(), *uris, max_connections=2))
    tcp, ws, unix = server.uris
    async with connect(tcp), connect(unix):
        for uri in (tcp, unix):
            with pytest.raises(ConnectionClosed):
                async with connect(uri):
                    raise AssertionError("connected")
        with pytest.raises(ConnectFailed, match="503"):
            async with connect(ws):
                raise AssertionError("connected")
    assert caplog.text.count("as max_connections are open") == 3
    with trio.fail_after(20):
        while server.statistics().connections:
            await trio.lowlevel.checkpoint()
    async with connect(ws) as requester:
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")
    await server.aclose(grace=1)


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
async def test_silent_clients_count(scheme: str, nursery: trio.Nursery) -> None:
    """A handshake, and the wait for the first frame, take a place until their deadline."""
    limit = ConnectionLimit(1)
    uri = await listen(
        nursery,
        f"{scheme}://127.0.0.1:0/",
        partial(serve_transport, Echo(), config=ConnectionConfig(setup_timeout=1.0)),
        handshake_timeout=1.0,
        max_connections=limit,
    )
    async with await trio.open_tcp_stream("127.0.0.1", uri.port) as silent:
        with trio.fail_after(20):
            while not limit.open:
                await trio.lowlevel.checkpoint()
        with pytest.raises((ConnectFailed, ConnectionClosed)):
            async with connect(str(uri)):
                raise AssertionError("connected")
        while await silent.receive_some():
            pass
    await until_free(limit)
    async with connect(str(uri)) as requester:
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")
    nursery.cancel_scope.cancel()


async def test_a_crowd_past_the_limit(nursery: trio.Nursery) -> None:
    """Some clients at a time are told that there is no place; the others are closed at once."""
    limit = ConnectionLimit(1)
    uri = await listen(nursery, "ws://127.0.0.1:0/", max_connections=limit)
    async with open_transport(uri):
        silent = [await trio.open_tcp_stream("127.0.0.1", uri.port) for _ in range(ENOUGH)]
        with trio.fail_after(20):
            while not counts_of(limit).full_of_refused:
                await trio.lowlevel.checkpoint()
            told = counts_of(limit).refusing
            assert 0 < told < ENOUGH
            # They are accepted in the order in which they connected.
            for stream in silent[told:]:
                assert await stream.receive_some() == b""
            for stream in silent[:told]:
                await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 503 ")
                assert limit.open == 1
        for stream in silent:
            await stream.aclose()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_a_malformed_client_past_the_limit(
    scheme: str, nursery: trio.Nursery, tls: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Its bytes, or its reset, affect no other connection."""
    limit = ConnectionLimit(1)
    uri = f"{scheme}://127.0.0.1:0/"
    uri = await listen(nursery, uri, ssl_context=tls.for_server(uri), max_connections=limit)
    async with open_transport(uri, ssl_context=tls.for_client(uri)) as first:
        for data in (b"", b"\x16\x03\1", b"\r\n\r\n", b"x" * 100_000):
            async with await trio.open_tcp_stream("127.0.0.1", uri.port) as stream:
                try:
                    await stream.send_all(data)
                    await stream.send_eof()
                    while await stream.receive_some():
                        pass
                except trio.BrokenResourceError:
                    pass  # A reset: there were more bytes than the server reads.
        await first.send_frames([b"frame"])
        assert await first.receive_frames() == [b"frame"]
    assert "crashed" not in caplog.text
    nursery.cancel_scope.cancel()


async def test_places_are_given_back(nursery: trio.Nursery, tls: Any) -> None:
    """Failed handshakes, failing handlers and cancelled clients give their places back."""
    limit = ConnectionLimit(1)

    async def crash(_transport: FrameTransport) -> None:
        raise ValueError("a fault")

    uri = await listen(
        nursery, "wss://127.0.0.1:0/", crash, ssl_context=tls.server, max_connections=limit
    )
    for _ in range(3):
        with pytest.raises(ConnectFailed, match="certificate"):
            async with open_transport(uri):
                raise AssertionError("connected")
        await until_free(limit)
        async with open_transport(uri, ssl_context=tls.client) as client:
            assert await client.receive_frames() == []
        await until_free(limit)
    nursery.cancel_scope.cancel()


async def test_a_server_that_is_cancelled_gives_its_places_back(tls: Any) -> None:
    """A limit may be used again after the servers that shared it."""
    limit = ConnectionLimit(1)
    async with assert_no_leaks():
        async with trio.open_nursery() as nursery:
            uri = await listen(nursery, "ws://127.0.0.1:0/", max_connections=limit)
            async with open_transport(uri):
                stream = await trio.open_tcp_stream("127.0.0.1", uri.port)
                with trio.fail_after(20):
                    while not counts_of(limit).refusing:
                        await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        await stream.aclose()
    assert (limit.open, counts_of(limit).refusing) == (0, 0)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_connections": 0}, ValueError),
        ({"max_connections": "many"}, TypeError),
        ({"allowed_origins": ["example.org"]}, ValueError),
        ({"allowed_origins": "https://example.org"}, TypeError),
    ],
)
async def test_an_invalid_limit_is_refused_before_listening(
    options: Any, error: type[Exception]
) -> None:
    """Both functions that take it do so."""
    with pytest.raises(error):
        await serve(Echo(), "tcp://127.0.0.1:0", **options)
    with pytest.raises(error):
        await accept_transports("tcp://127.0.0.1:0", echo, **options)


@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_origins_of_a_server(scheme: str, nursery: trio.Nursery, tls: Any) -> None:
    """`serve` admits the pages of its list, and clients that are not browsers."""
    uri = f"{scheme}://127.0.0.1:0/x"
    start = partial(
        serve,
        Echo(),
        uri,
        ssl_context=tls.for_server(uri),
        allowed_origins=["https://example.org"],
    )
    server: Server = await nursery.start(start)
    dial = partial(connect, server.uris[0], ssl_context=tls.for_client(uri))
    with pytest.raises(ConnectFailed, match="HTTP 403 Forbidden"):
        async with dial(headers=[("Origin", "https://evil.example")]):
            raise AssertionError("connected")
    for headers in ([], [("Origin", "https://example.org")]):
        async with dial(headers=headers) as requester:
            assert await requester.request_response(Payload(b"x")) == Payload(b"x")
    assert server.statistics().accepted == 2
    await server.aclose(grace=1)


async def test_a_client_that_resets_before_its_address_is_read(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset at that moment ends the connection, and not the server."""
    served: list[str] = []

    async def handle(transport: FrameTransport) -> None:
        served.append(transport.info.peer)
        await echo(transport)

    accept = trio.SocketListener.accept

    async def late(self: trio.SocketListener) -> trio.SocketStream:
        stream = await accept(self)
        if not served:
            # Not before the reset has arrived: then there is no peer address any more.
            with pytest.raises((OSError, trio.BrokenResourceError)):
                while await stream.socket.recv(1):
                    pass
            with pytest.raises(OSError, match="not connected"):
                stream.socket.getpeername()
        return stream

    monkeypatch.setattr(trio.SocketListener, "accept", late)
    for scheme in ("tcp", "ws"):
        served.clear()
        uri = await listen(nursery, f"{scheme}://127.0.0.1:0/", handle)
        with socket.socket() as client:
            client.connect(("127.0.0.1", uri.port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        served.append("the second is not delayed")
        await trio.testing.wait_all_tasks_blocked(0.01)
        await is_served(uri)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("error", [RuntimeError("a bug"), ExceptionGroup("", [KeyError("a bug")])])
async def test_a_fault_in_a_handshake(
    error: Exception,
    nursery: trio.Nursery,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An error before the connection is set up affects no other connection."""
    uri = await listen(nursery, "ws://127.0.0.1:0/")
    async with open_transport(uri) as first:
        with monkeypatch.context() as patch:

            def fail(*_args: object) -> None:
                raise error

            patch.setattr("h11.Connection.receive_data", fail)
            async with await trio.open_tcp_stream("127.0.0.1", uri.port) as stream:
                await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
                assert await stream.receive_some() == b""
        await first.send_frames([b"frame"])
        assert await first.receive_frames() == [b"frame"]
    await is_served(uri)
    assert "a bug" in caplog.text
    assert "127.0.0.1" in next(
        r.getMessage() for r in caplog.records if "crashed" in r.getMessage()
    )
    nursery.cancel_scope.cancel()


def test_sixteen_refusals_are_answered_at_once() -> None:
    """A flood beyond the limit gets no further answers until one has ended."""
    counts = counts_of(1)
    with ExitStack() as stack:
        for _ in range(16):
            assert not counts.full_of_refused
            stack.enter_context(counts.count_refused())
        assert counts.full_of_refused
    assert not counts.full_of_refused
