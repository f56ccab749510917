"""A server of WebSockets as a part of the web: pages, health checks, and refusals."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

import rsocket_trio
from rsocket_trio import ConnectFailed, Health, Router, rsio
from rsocket_trio.uri import Uri, as_uri

WIRES = {"ws": rsocket_trio, "wss": rsocket_trio, "rsio+ws": rsio, "rsio+wss": rsio}
GET = b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

router = Router()


@router.request_stream("ticks")
async def ticks() -> AsyncIterator[str]:
    yield "first"
    await trio.sleep_forever()


@asynccontextmanager
async def served(scheme, tls, **options):
    """A server of either wire; gives it and its address."""
    address = f"{scheme}://127.0.0.1:0/x"
    encrypted = scheme.endswith("wss")
    start = partial(
        WIRES[scheme].serve,
        router,
        address,
        ssl_context=tls.server if encrypted else None,
        **options,
    )
    async with trio.open_nursery() as nursery:
        server = await nursery.start(start)
        host, _, port = server.uris[0].split("//")[1].partition("/")[0].rpartition(":")
        yield server, Uri(scheme="wss" if encrypted else "ws", host=host, port=int(port))
        nursery.cancel_scope.cancel()


async def get(uri, tls, path):
    """Return the whole answer to a plain GET."""
    stream = await trio.open_tcp_stream(uri.host, uri.port)
    if uri.scheme == "wss":
        stream = trio.SSLStream(
            stream, tls.client, server_hostname="localhost", https_compatible=True
        )
    async with stream:
        await stream.send_all(GET % path)
        return b"".join([bytes(part) async for part in stream])


def lines(caplog):
    return [(each.levelname, each.getMessage()) for each in caplog.records]


@pytest.mark.parametrize("scheme", WIRES)
async def test_a_page_is_answered_with_one_line_of_the_log(scheme, tls, caplog):
    """A GET is no failed handshake: no warning."""
    caplog.set_level(logging.INFO, logger="rsocket_trio")
    async with served(scheme, tls) as (_, uri):
        answer = await get(uri, tls, b"/x")
    assert answer.startswith(b"HTTP/1.1 426 Upgrade Required\r\n")
    [(level, text)] = [each for each in lines(caplog) if "HTTP" in each[1]]
    assert level == "INFO"
    assert "asks for no WebSocket with HTTP 426" in text


@pytest.mark.parametrize("scheme", WIRES)
async def test_health_checks(scheme, tls, caplog):
    """Both pages while the server runs, and nothing in the log; 404 without a `Health`."""
    caplog.set_level(logging.INFO, logger="rsocket_trio")
    async with served(scheme, tls, health=Health()) as (_, uri):
        assert (await get(uri, tls, b"/ready")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert (await get(uri, tls, b"/live")).endswith(b"\r\n\r\nlive\n")
    assert lines(caplog) == []
    async with served(scheme, tls) as (_, uri):
        assert (await get(uri, tls, b"/ready")).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_a_server_that_drains_says_so(scheme, tls):
    """Not ready, but live, while a stream goes on; new clients get 503; then nobody listens."""
    context = tls.client if scheme == "wss" else None
    async with served(scheme, tls, health=Health()) as (server, uri):
        async with rsocket_trio.connect(server.uris[0], ssl_context=context) as client:
            async with client.request_stream(route="ticks") as stream:
                await stream.receive()
                server.stop(grace=60)
                await trio.testing.wait_all_tasks_blocked(0.01)
                for _ in range(2):
                    answer = await get(uri, tls, b"/ready")
                    assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
                    assert answer.endswith(b"\r\n\r\nnot ready\n")
                    assert (await get(uri, tls, b"/live")).startswith(b"HTTP/1.1 200 OK\r\n")
                    answer = await get(uri, tls, b"/x")
                    assert b"The server is being stopped" in answer
                with pytest.raises(ConnectFailed, match="HTTP 503"):
                    async with rsocket_trio.connect(server.uris[0], ssl_context=context):
                        raise AssertionError("connected")
        await server.aclose(grace=60)
        with pytest.raises(OSError, match=r"refused|attempts"):
            await trio.open_tcp_stream(uri.host, uri.port)


async def test_a_full_server_is_live(tls):
    """A busy process is not killed by its probe: `max_connections` do not count for pages."""
    async with served("ws", tls, health=Health(), max_connections=1) as (server, uri):
        async with rsocket_trio.connect(server.uris[0]):
            assert (await get(uri, tls, b"/live")).startswith(b"HTTP/1.1 200 ")
            assert (await get(uri, tls, b"/x")).startswith(b"HTTP/1.1 503 ")


async def test_a_server_without_connections_stops_at_once(tls, autojump_clock):
    """The listeners for health checks do not keep it."""
    async with served("ws", tls, health=Health()) as (server, _):
        await server.aclose(grace=60)
    assert trio.current_time() < 1


async def test_without_health_nobody_listens_while_the_server_drains(tls):
    async with served("ws", tls) as (server, uri):
        async with rsocket_trio.connect(server.uris[0]) as client:
            async with client.request_stream(route="ticks") as stream:
                await stream.receive()
                server.stop(grace=60)
                await trio.testing.wait_all_tasks_blocked(0.01)
                with pytest.raises(OSError, match=r"refused|attempts"):
                    await trio.open_tcp_stream(uri.host, uri.port)


@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_pages_of_others_may_not_connect_by_default(scheme, tls, caplog):
    """The error has the answer of the server; the log names what opens it."""
    context = tls.client if scheme == "wss" else None
    async with served(scheme, tls) as (server, _):
        dial = partial(rsocket_trio.connect, server.uris[0], ssl_context=context)
        with pytest.raises(ConnectFailed, match="HTTP 403 Forbidden") as caught:
            async with dial(headers=[("Origin", "https://evil.example")]):
                raise AssertionError("connected")
        own = f"http://{as_uri(server.uris[0]).authority}"
        for headers in ([], [("Origin", own)]):
            async with dial(headers=headers):
                pass
    assert caught.value.status == 403
    assert ("connection", "close") in caught.value.headers
    assert b"Pages of 'https://evil.example' may not connect here" in caught.value.body
    assert "--allow-origin" in caplog.text


@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_pages_of_all_may_connect_if_the_server_says_so(scheme, tls):
    context = tls.client if scheme == "wss" else None
    async with served(scheme, tls, allowed_origins=["*"]) as (server, _):
        headers = [("Origin", "https://evil.example")]
        async with rsocket_trio.connect(server.uris[0], ssl_context=context, headers=headers):
            pass


async def test_the_body_of_a_request_never_runs(tls):
    """Its octets would be frames: they are dropped, and the refusal arrives."""
    handshake = (
        b"GET /x HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    )
    async with served("ws", tls) as (server, uri):
        for field in (b"Content-Length: 100000", b"Transfer-Encoding: chunked"):
            async with await trio.open_tcp_stream(uri.host, uri.port) as stream:
                await stream.send_all(handshake + field + b"\r\n\r\n" + bytes(100_000))
                answer = b"".join([part async for part in stream])
                assert answer.startswith(b"HTTP/1.1 400 ")
        assert server.statistics().accepted == 0
