"""Servers of both protocols, and clients that choose one of them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
import trustme

from rsocket_trio import (
    ClientResume,
    ConnectionClosed,
    LocalProtocolError,
    Payload,
    Router,
    connect,
    serve,
)
from rsocket_trio.reactivesocket import request_subscription
from rsocket_trio.testing.peer import KnownAnswers
from tests.reactivesocket.wires import WIRES, collect

LARGE = Payload(b"d" * 100_000, b"m" * 100_000)


def greeter():
    router = Router()

    @router.request_response("greet")
    async def greet(name: str) -> str:
        return f"hello {name}"

    @router.request_stream("ticks")
    async def ticks(start: int) -> AsyncIterator[str]:
        while True:
            start += 1
            yield f"{start}"

    @router.request_channel("upper")
    async def upper(words: trio.abc.ReceiveChannel[str]) -> AsyncIterator[str]:
        async for word in words:
            yield word.upper()

    return router


async def test_a_router_serves_both_at_the_same_time(nursery):
    """One port, clients of both protocols, the same handlers by route."""
    server = await nursery.start(serve, greeter(), *WIRES)
    for uri in server.uris:
        async with (
            connect(uri, data_mime_type="text/plain") as new,
            connect(uri, data_mime_type="text/plain", protocol="reactivesocket") as old,
        ):
            for requester in (new, old, new, old):
                reply = await requester.request_response(Payload(b"bob"), route="greet")
                assert reply.data == b"hello bob"
                async with request_subscription(requester, Payload(b"7"), route="ticks") as ticks:
                    assert (await ticks.receive()).data == b"8"
                words = [Payload(b"a"), Payload(b"b")]
                assert await collect(requester.request_channel(words, route="upper")) == [
                    Payload(b"A"),
                    Payload(b"B"),
                ]
    await server.aclose(grace=0)


async def test_every_transport_recognizes_the_protocol(nursery, tmp_path, protocol):
    """TLS, secure WebSocket and Unix sockets tell the two apart as TCP and WebSocket do."""
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    uris = ["tls://127.0.0.1:0", "wss://127.0.0.1:0/path", f"unix://{tmp_path}/socket"]
    server = await nursery.start(partial(serve, ssl_context=theirs), KnownAnswers(), *uris)
    for uri in server.uris:
        context = None if uri.startswith("unix") else ours
        async with connect(uri, protocol=protocol, ssl_context=context) as requester:
            assert await requester.request_response(LARGE) == LARGE
    await server.aclose(grace=0)


async def test_a_protocol_that_a_server_does_not_offer(nursery):
    """A server of 1.0 only refuses the draft, and the reverse."""
    new_only = partial(serve, protocols=["rsocket"])
    old_only = partial(serve, protocols=["reactivesocket"])
    one = await nursery.start(new_only, KnownAnswers(), WIRES[1])
    other = await nursery.start(old_only, KnownAnswers(), *WIRES)
    with pytest.raises(ConnectionClosed, match="0x0000 is not known"):
        async with connect(one.uris[0], protocol="reactivesocket"):
            pass
    for uri in other.uris:
        async with connect(uri, protocol="reactivesocket") as requester:
            assert await requester.request_response(Payload(b"x")) == Payload(b"x")
    with pytest.raises(ConnectionClosed, match="0x00 is not known"):
        async with connect(other.uris[1]):
            pass
    for server in (one, other):
        await server.aclose(grace=0)


@pytest.mark.parametrize("protocols", [[], ["http"], ["rsocket", "x"]])
async def test_unknown_protocols_of_a_server(protocols):
    """An unknown name, or no name, is the caller's error."""
    with pytest.raises(ValueError, match="protocols must be a list of 'rsocket' and"):
        await serve(KnownAnswers(), WIRES[0], protocols=protocols)


async def test_an_unknown_protocol_of_a_client():
    """It is the caller's error."""
    with pytest.raises(ValueError, match="protocol must be 'rsocket' or 'reactivesocket', not"):
        async with connect("tcp://127.0.0.1:1", protocol="http"):
            pass


async def test_the_draft_has_no_resumption():
    """A request for it is refused before the client dials."""
    with pytest.raises(LocalProtocolError, match="no resumption"):
        async with connect("tcp://127.0.0.1:1", protocol="reactivesocket", resume=ClientResume()):
            pass
