"""Transports by address: bound addresses, failures and their texts, and their effects."""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, connect
from rsocket_trio.errors import ConnectFailed
from rsocket_trio.sockets.failures import describe_failure
from rsocket_trio.transports import FrameTransport, accept_transports, open_transport
from rsocket_trio.uri import Uri, parse_uri
from tests.ports import held_port

MakePair = Callable[[], AbstractAsyncContextManager[tuple[FrameTransport, FrameTransport]]]
Serve = Callable[..., Any]


async def echo(transport: FrameTransport) -> None:
    while frames := await transport.receive_frames():
        await transport.send_frames(frames)


async def listen(nursery: trio.Nursery, uri: str, handle: Any = echo, **options: Any) -> list[Uri]:
    uris: list[Uri] = await nursery.start(partial(accept_transports, uri, handle, **options))
    return uris


async def test_facts_about_a_transport(make_pair: MakePair, request: Any, tmp_path: Path) -> None:
    """Both ends know the scheme, the peer, and the facts of the handshake."""
    kind = request.node.callspec.params["make_pair"].removeprefix("plain ")
    async with make_pair() as (client, server):
        for info in (client.info, server.info):
            assert info.scheme == (kind if "trio" not in kind else "ws")
        if kind == "unix":
            path = f"{tmp_path}/socket"
            assert (client.info.peer, server.info.local) == (path, path)
            own = (os.getpid(), os.getuid(), os.getgid())
            assert client.info.extra["peer_credentials"] == own
            assert server.info.extra["peer_credentials"] == own
        else:
            assert client.info.peer == server.info.local
            assert client.info.local == server.info.peer
        if "ws" in kind:
            assert client.info.path == server.info.path == "/rsocket"
            assert (server.info.header("Host") or "").startswith("127.0.0.1:")
        if kind in {"tls", "wss"}:
            certificate: Any = client.info.extra["peer_certificate"]
            assert ("DNS", "localhost") in certificate["subjectAltName"]
            assert server.info.extra["peer_certificate"] is None
        assert client.info.listener == ""
        if kind in {"tcp", "tls", "unix", "ws", "wss"}:
            path = "/rsocket" if "ws" in kind else ""
            assert server.info.listener == f"{kind}://{server.info.local}{path}"


async def test_the_listener_of_a_transport(nursery: trio.Nursery) -> None:
    """A name of several addresses is one listener, as it was written."""
    heard: list[str] = []

    async def handle(transport: FrameTransport) -> None:
        heard.append(transport.info.listener)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for name in (f"tcp://localhost:{port}", "tcp://localhost:0"):
        uris = await listen(nursery, name, handle)
        for uri in uris:
            async with open_transport(str(uri)) as transport:
                assert await transport.receive_frames() == []
        wanted = name if name.endswith(str(port)) else str(uris[0])
        assert heard == [wanted] * len(uris)
        heard.clear()


async def test_a_small_frame_leaves_at_once(nursery: trio.Nursery) -> None:
    """TCP_NODELAY is set on both sides."""
    options: list[int] = []

    async def note(transport: Any) -> None:
        options.append(transport.stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        await transport.receive_frames()

    (uri,) = await listen(nursery, "tcp://127.0.0.1:0", note)
    async with open_transport(uri) as client:
        await note_client(client, options)
    await trio.testing.wait_all_tasks_blocked()
    assert options == [1, 1]
    nursery.cancel_scope.cancel()


async def note_client(client: Any, options: list[int]) -> None:
    options.append(client.stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
async def test_an_ipv6_address_is_bound_and_dialled(nursery: trio.Nursery) -> None:
    """The bound address can be dialled, with its brackets."""
    try:
        (uri,) = await listen(nursery, "ws://[::1]:0/rsocket")
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert uri.port
    async with open_transport(str(uri)) as client:
        assert client.info.peer == uri.authority
        await client.send_frames([b"frame"])
        assert await client.receive_frames() == [b"frame"]
    nursery.cancel_scope.cancel()


@pytest.fixture
def unused_port() -> Iterator[int]:
    with held_port() as port:
        yield port


@pytest.mark.parametrize("scheme", ["tcp", "tls", "ws", "wss"])
async def test_connecting_where_no_server_listens(scheme: str, unused_port: int) -> None:
    """The error is plain, names the address and the reason, and has the OSError as its cause."""
    uri = parse_uri(f"{scheme}://127.0.0.1:{unused_port}")
    with pytest.raises(ConnectFailed, match=r"cannot connect to .*: Connection refused") as caught:
        async with open_transport(uri):
            raise AssertionError("connected")
    assert str(uri) in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


async def test_several_addresses_fail() -> None:
    """If a name has several addresses, each reason is given once."""
    cause = ExceptionGroup("", [OSError(111, "Connection refused")] * 2 + [OSError("odd")])
    error = OSError("all attempts failed")
    error.__cause__ = cause
    assert describe_failure(error) == "Connection refused; odd"
    assert describe_failure(ssl.SSLError(1, "certificate")) == "certificate"
    assert describe_failure(trio.BrokenResourceError()) == "BrokenResourceError"


async def test_a_host_that_cannot_be_resolved() -> None:
    """A name that cannot exist (a label has 63 characters at most) is a failure to connect."""
    host = "a" * 64 + ".invalid"
    with pytest.raises(ConnectFailed, match=host):
        async with open_transport(f"tcp://{host}:1"):
            raise AssertionError("connected")


async def test_a_wrong_address_is_a_value_error() -> None:
    """Both sides read the address before they try it."""
    with pytest.raises(ValueError, match="no scheme"):
        async with open_transport("localhost:1"):
            raise AssertionError("connected")
    with pytest.raises(ValueError, match="no scheme"):
        await accept_transports("localhost:1", echo)
    with pytest.raises(ValueError, match="ssl_context"):
        await accept_transports("tls://localhost:1", echo)


async def test_an_address_in_use(nursery: trio.Nursery) -> None:
    """A second listener at one port is a plain OSError."""
    (uri,) = await listen(nursery, "tcp://127.0.0.1:0")
    with pytest.raises(OSError, match="in use"):
        await accept_transports(uri, echo)
    nursery.cancel_scope.cancel()


async def test_a_certificate_that_is_not_trusted(
    nursery: trio.Nursery, tls: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a context the system's authorities decide; both sides say why it failed."""
    (uri,) = await listen(nursery, "tls://127.0.0.1:0", ssl_context=tls.server)
    what = "certificate verify failed: .*: the authority that issued it is not trusted"
    with pytest.raises(ConnectFailed, match=what):
        async with open_transport(uri):
            raise AssertionError("connected")
    with trio.fail_after(30):
        while "handshake with 127.0.0.1" not in caplog.text:
            await trio.lowlevel.checkpoint()
    async with open_transport(uri, ssl_context=tls.client) as client:
        await client.send_frames([b"still there"])
        assert await client.receive_frames() == [b"still there"]
    nursery.cancel_scope.cancel()


async def test_tls_with_a_server_that_does_not_use_it(nursery: trio.Nursery, tls: Any) -> None:
    """The error says so, and not only "wrong version number"."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    nursery.start_soon(trio.serve_listeners, answer, listeners)
    port = listeners[0].socket.getsockname()[1]
    with pytest.raises(ConnectFailed, match=r"WRONG_VERSION_NUMBER.*: the other end does"):
        async with open_transport(f"tls://127.0.0.1:{port}", ssl_context=tls.client):
            raise AssertionError("connected")
    nursery.cancel_scope.cancel()


async def test_a_path_that_does_not_exist(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets HTTP 404, and the server goes on."""
    (uri,) = await listen(nursery, "ws://127.0.0.1:0/rsocket")
    with pytest.raises(ConnectFailed, match="HTTP 404 Not Found") as caught:
        async with open_transport(f"ws://{uri.authority}/elsewhere"):
            raise AssertionError("connected")
    assert f"ws://{uri.authority}/elsewhere" in str(caught.value)
    async with open_transport(f"ws://{uri.authority}/rsocket?a=b", headers=[("X", "y")]) as client:
        assert client.info.header("x") == "y"
    nursery.cancel_scope.cancel()


async def test_a_header_that_cannot_be_sent(nursery: trio.Nursery) -> None:
    """A wrong header is the caller's error, not a failure to connect."""
    (uri,) = await listen(nursery, "ws://127.0.0.1:0/rsocket")
    with pytest.raises(ValueError, match="header"):
        async with open_transport(uri, headers=[("no name", "")]):
            raise AssertionError("connected")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("scheme", ["tls", "ws", "wss"])
async def test_a_handshake_that_never_ends(
    scheme: str,
    nursery: trio.Nursery,
    tls: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A silent client is closed after the timeout, and others are served meanwhile."""
    uri = f"{scheme}://127.0.0.1:0"
    (uri,) = await listen(nursery, uri, ssl_context=tls.for_server(uri), handshake_timeout=0.05)
    async with await trio.open_tcp_stream("127.0.0.1", uri.port) as silent:
        assert await silent.receive_some() == b""
    assert "not finished within 0.05 s" in caplog.text
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("scheme", ["tls", "ws", "wss"])
@pytest.mark.parametrize("drips", [False, True])
async def test_a_server_that_does_not_complete_the_handshake(
    scheme: str, drips: bool, nursery: trio.Nursery
) -> None:
    """A silent or very slow server fails the attempt after the timeout."""
    ended = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        with pytest.raises(trio.BrokenResourceError):
            while drips:
                await stream.send_all(b"\x16" if scheme != "ws" else b"H")
                await trio.sleep(0.02)
            while await stream.receive_some():
                pass
            raise trio.BrokenResourceError
        ended.set()

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, serve, [listener])
    uri = f"{scheme}://localhost:{port}/x" if "ws" in scheme else f"{scheme}://localhost:{port}"
    what = "within 0.2 s|WRONG_VERSION" if drips and scheme != "ws" else "within 0.2 s"
    with trio.fail_after(30), pytest.raises(ConnectFailed, match=what):
        async with open_transport(uri, handshake_timeout=0.2):
            raise AssertionError("connected")
    with trio.fail_after(30):
        await ended.wait()  # No socket is left open.
    with trio.fail_after(30), pytest.raises(ConnectFailed, match=what):
        async with connect(uri, config=ConnectionConfig(setup_timeout=0.2)):
            raise AssertionError("connected")
    nursery.cancel_scope.cancel()


async def test_a_crash_ends_one_connection(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of a handler is logged; its transport is closed and the server goes on."""

    async def handle(transport: FrameTransport) -> None:
        (frame,) = await transport.receive_frames()
        if frame == b"fail":
            raise ValueError("a fault")
        if frame == b"group":
            raise BaseExceptionGroup("", [ExceptionGroup("", [ValueError("deep")])])
        await transport.send_frames([frame])

    (uri,) = await listen(nursery, "tcp://127.0.0.1:0", handle)
    for frame, answer in ((b"fail", []), (b"group", []), (b"fine", [b"fine"])):
        async with open_transport(uri) as client:
            await client.send_frames([frame])
            assert await client.receive_frames() == answer
            if answer:
                assert await client.receive_frames() == []
    crashes = [record for record in caplog.records if "crashed" in record.message]
    assert [record.levelno for record in crashes] == [logging.ERROR] * 2
    assert "a fault" in caplog.text
    assert "deep" in caplog.text
    nursery.cancel_scope.cancel()


async def test_an_interrupt_in_a_handler_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    """An interrupt is raised further, and errors beside it are logged."""

    async def handle(transport: FrameTransport) -> None:
        raise BaseExceptionGroup("", [KeyboardInterrupt(), ValueError("beside")])

    async def interrupted() -> None:
        async with trio.open_nursery() as nursery:
            (uri,) = await listen(nursery, "tcp://127.0.0.1:0", handle)
            async with open_transport(uri) as client:
                await client.receive_frames()
                await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await interrupted()
    assert caught.group_contains(KeyboardInterrupt)
    assert not caught.group_contains(ValueError)
    assert "beside" in caplog.text


async def test_a_connection_past_the_limit_is_closed(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """It is closed at once; when another one leaves there is room again."""
    (uri,) = await listen(nursery, "tcp://127.0.0.1:0", max_connections=1)
    async with open_transport(uri) as first:
        await first.send_frames([b"frame"])
        assert await first.receive_frames() == [b"frame"]
        async with open_transport(uri) as second:
            assert await second.receive_frames() == []
    assert "max_connections" in caplog.text
    await trio.testing.wait_all_tasks_blocked(0.01)
    async with open_transport(uri) as third:
        await third.send_frames([b"frame"])
        assert await third.receive_frames() == [b"frame"]
    nursery.cancel_scope.cancel()


async def test_connections_may_outlive_the_listening(nursery: trio.Nursery) -> None:
    """With a nursery of their own they go on when the listener is cancelled."""
    listening = trio.CancelScope()

    async def run(task_status: trio.TaskStatus[list[Uri]]) -> None:
        with listening:
            await accept_transports(
                "tcp://127.0.0.1:0", echo, handler_nursery=nursery, task_status=task_status
            )

    (uri,) = await nursery.start(run)
    async with open_transport(uri) as client:
        await client.send_frames([b"one"])
        assert await client.receive_frames() == [b"one"]
        listening.cancel()
        await client.send_frames([b"two"])
        assert await client.receive_frames() == [b"two"]
        with pytest.raises(ConnectFailed):
            async with open_transport(uri):
                raise AssertionError("connected")


async def test_cancelled_while_dialling(nursery: trio.Nursery) -> None:
    """A cancelled handshake leaves no socket open: the other side gets the end."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]

    async def dial(scope: trio.CancelScope) -> None:
        with scope:
            async with open_transport(f"ws://127.0.0.1:{port}/"):
                raise AssertionError("connected")

    scope = trio.CancelScope()
    async with listener:
        nursery.start_soon(dial, scope)
        async with await listener.accept() as stream:
            assert await stream.receive_some()
            scope.cancel()
            assert await stream.receive_some() == b""
