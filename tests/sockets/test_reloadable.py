"""`ReloadableContext`; tests/cli/test_reload.py has all wires, and files."""

from __future__ import annotations

import ssl
from functools import partial

import pytest
import trio
import trustme

from rsocket_trio import (
    ConnectFailed,
    ConnectionLost,
    Payload,
    ReloadableContext,
    Router,
    connect,
    rsio,
    serve,
)
from rsocket_trio.reactive_streams import collect, just

OLD, NEW = trustme.CA(), trustme.CA()


def loads(authority, purpose=ssl.Purpose.CLIENT_AUTH):
    context = ssl.create_default_context(purpose)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def trusting(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_a_server_gets_a_new_certificate():
    """Connections go on with the old one, and a load that fails changes nothing."""
    router = Router()

    @router.request_response("echo")
    async def echo(data: bytes) -> bytes:
        return data

    files = [OLD]
    context = ReloadableContext(lambda: loads(files[0]))
    async with trio.open_nursery() as nursery:
        start = partial(serve, router, "tls://127.0.0.1:0", ssl_context=context)
        uri = (await nursery.start(start)).uris[0]
        async with connect(uri, ssl_context=trusting(OLD)) as before:
            files[0] = None
            with pytest.raises(AttributeError):
                context.reload()
            async with connect(uri, ssl_context=trusting(OLD)):
                pass
            files[0] = NEW
            await trio.to_thread.run_sync(context.reload)
            async with connect(uri, ssl_context=trusting(NEW)) as after:
                for requester in (before, after):
                    answer = await requester.request_response(Payload(b"x"), route="echo")
                    assert answer.data == b"x"
            with pytest.raises(ConnectFailed, match="is not trusted"):
                async with connect(uri, ssl_context=trusting(OLD)):
                    pass
        nursery.cancel_scope.cancel()


async def test_the_alpn_of_rsio_stays():
    """The server sets it once; a client that asks for another protocol is still refused."""
    context = ReloadableContext(partial(loads, NEW))
    async with trio.open_nursery() as nursery:
        start = partial(rsio.serve, {"one": just(b"1")}, "rsios://127.0.0.1:0", ssl_context=context)
        uri = (await nursery.start(start)).uris[0]
        context.reload()
        async with rsio.connect(uri, ssl_context=trusting(NEW)) as connection:
            assert await collect(connection.publisher("one")) == [b"1"]
        stream = await trio.open_tcp_stream("127.0.0.1", int(str(uri).rpartition(":")[2]))
        client = trusting(NEW)
        client.set_alpn_protocols(["rsio/0"])
        async with trio.SSLStream(stream, client, server_hostname="127.0.0.1") as secure:
            await secure.do_handshake()
            assert secure.selected_alpn_protocol() == "rsio/0"
        nursery.cancel_scope.cancel()


async def test_a_client_gets_a_new_certificate():
    """A client that connects again has the new one, and it is checked as before."""
    files = [OLD]

    def load():
        context = trusting(NEW)
        files[0].issue_cert("client@example").configure_cert(context)
        return context

    server, context = loads(NEW), ReloadableContext(load)
    NEW.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    async with trio.open_nursery() as nursery:
        start = partial(serve, Router(), "tls://127.0.0.1:0", ssl_context=server)
        uri = (await nursery.start(start)).uris[0]
        with pytest.raises((ConnectFailed, ConnectionLost)):
            async with connect(uri, ssl_context=context):
                pass
        files[0] = NEW
        context.reload()
        async with connect(uri, ssl_context=context):
            pass
        nursery.cancel_scope.cancel()


def test_what_is_loaded_is_a_context_of_the_same_side():
    """Else each handshake would fail, or each certificate pass."""
    with pytest.raises(TypeError, match="not NoneType"):
        ReloadableContext(lambda: None)
    contexts = [loads(OLD), trusting(OLD)]
    context = ReloadableContext(partial(contexts.pop, 0))
    assert context.protocol == ssl.PROTOCOL_TLS_SERVER
    with pytest.raises(TypeError, match="not as before"):
        context.reload()
