"""Pairs of transports of every kind, and certificates for them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
import trio_websocket
import trustme

from rsocket_trio.sockets import readiness
from rsocket_trio.transports import (
    FrameTransport,
    TrioWebSocketTransport,
    accept_transports,
    open_transport,
)
from rsocket_trio.uri import Uri, as_uri

MakePair = Callable[[], AbstractAsyncContextManager[tuple[FrameTransport, FrameTransport]]]


@attrs.frozen
class Contexts:
    """TLS for both sides: a server called localhost, a client that trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext

    def for_server(self, uri: str | Uri) -> ssl.SSLContext | None:
        """Return the server's context if the address is encrypted."""
        return self.server if as_uri(uri).is_encrypted else None

    def for_client(self, uri: str | Uri) -> ssl.SSLContext | None:
        """Return the client's context if the address is encrypted."""
        return self.client if as_uri(uri).is_encrypted else None


@pytest.fixture(scope="session")
def tls() -> Contexts:
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return Contexts(server, client)


@asynccontextmanager
async def served(
    uri: str, tls: Contexts
) -> AsyncIterator[tuple[str, trio.MemoryReceiveChannel[FrameTransport]]]:
    """A server whose transports come out of a memory channel, and live as long as the block."""
    send, receive = trio.open_memory_channel[FrameTransport](10)

    async def handle(transport: FrameTransport) -> None:
        await send.send(transport)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        listen = partial(accept_transports, uri, handle, ssl_context=tls.for_server(uri))
        uris = await nursery.start(listen)
        with send, receive:
            yield str(uris[0]), receive
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def pair_over(
    uri: str, tls: Contexts
) -> AsyncIterator[tuple[FrameTransport, FrameTransport]]:
    async with served(uri, tls) as (bound, accepted):
        async with open_transport(bound, ssl_context=tls.for_client(bound)) as client:
            yield client, await accepted.receive()


@asynccontextmanager
async def trio_websocket_client(
    tls: Contexts,
) -> AsyncIterator[tuple[FrameTransport, FrameTransport]]:
    """A trio-websocket client to our server."""
    async with served("ws://127.0.0.1:0/rsocket", tls) as (bound, accepted):
        async with trio_websocket.open_websocket_url(bound, max_message_size=2**24) as ws:
            client = TrioWebSocketTransport(ws)
            yield client, await accepted.receive()
            await client.aclose()


@asynccontextmanager
async def trio_websocket_server(
    tls: Contexts,
) -> AsyncIterator[tuple[FrameTransport, FrameTransport]]:
    """Our client to a trio-websocket server."""
    send, receive = trio.open_memory_channel[FrameTransport](1)

    async def handle(request: trio_websocket.WebSocketRequest) -> None:
        await send.send(TrioWebSocketTransport(await request.accept()))
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(
                trio_websocket.serve_websocket,
                handle,
                "127.0.0.1",
                0,
                ssl_context=None,
                max_message_size=2**24,
            )
        )
        with send, receive:
            async with open_transport(f"ws://127.0.0.1:{server.port}/any") as client:
                yield client, await receive.receive()
            nursery.cancel_scope.cancel()


@pytest.fixture(
    params=[
        *("tcp", "tls", "unix", "ws", "wss"),
        *("plain tcp", "plain unix", "plain ws"),
        *("trio-websocket client", "trio-websocket server"),
    ]
)
def make_pair(
    request: pytest.FixtureRequest,
    tls: Contexts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> MakePair:
    """Return a function that connects two transports, the client's first.

    Plain ones use sockets as trio does.
    """
    kind = request.param.removeprefix("plain ")
    if kind != request.param:
        monkeypatch.setattr("rsocket_trio.os_support.DIRECT_SOCKETS", False)
    # Real time: sockets do not use the test clock.
    monkeypatch.setattr("rsocket_trio.transports.websocket._CLOSE_GRACE", 0.02)
    if kind == "trio-websocket client":
        return partial(trio_websocket_client, tls)
    if kind == "trio-websocket server":
        return partial(trio_websocket_server, tls)
    uri = {
        "unix": f"unix://{tmp_path}/socket",
        "ws": "ws://127.0.0.1:0/rsocket",
        "wss": "wss://127.0.0.1:0/rsocket",
    }.get(kind, f"{kind}://127.0.0.1:0")
    return partial(pair_over, uri, tls)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection counts as many."""
    monkeypatch.setattr(readiness, "MANY", 1)
