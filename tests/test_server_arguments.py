"""Wrong arguments of serve, serve_transport and connect are errors before anything is opened."""

from __future__ import annotations

import ssl
from functools import partial

import pytest
import trio

from rsocket_trio import ClientResume, Responder, Router, connect, rsio, serve, serve_transport
from rsocket_trio.transports import accept_transports, open_transport
from rsocket_trio.transports.memory import memory_transport_pair
from tests.gated import LOCAL


@pytest.mark.parametrize(
    ("responder", "text"),
    [(Responder, r"write Responder\(\)"), (Router, r"write Router\(\)"), (None, "not NoneType")],
)
async def test_a_wrong_responder_is_refused(responder, text):
    """This happens at once, on either side, and not at the first connection."""
    with pytest.raises(TypeError, match=text):
        await serve(responder, LOCAL)
    here, there = memory_transport_pair()
    with pytest.raises(TypeError, match=text):
        await serve_transport(responder, there)
    if responder is not None:
        with pytest.raises(TypeError, match=text):
            async with connect(here, responder=responder):
                raise AssertionError("there is no connection")


async def test_a_wrong_type_of_resumption_is_refused():
    """A True is refused, and the error names the options to use."""
    here, there = memory_transport_pair()
    with pytest.raises(TypeError, match=r"write ServerResume\(\)"):
        await serve(Responder(), LOCAL, resume=True)
    with pytest.raises(TypeError, match=r"write ServerResume\(\)"):
        await serve_transport(Responder(), there, resume=ClientResume())
    with pytest.raises(TypeError, match=r"write ClientResume\(\)"):
        async with connect(lambda: here, resume=True):
            raise AssertionError("there is no connection")


async def test_arguments_of_a_wrong_type_are_named():
    """Both functions do so before they listen."""
    _here, there = memory_transport_pair()
    with pytest.raises(TypeError, match="config must be a ConnectionConfig, not dict"):
        await serve(Responder(), LOCAL, config={})
    with pytest.raises(TypeError, match="config must be a ConnectionConfig, not dict"):
        await serve_transport(Responder(), there, config={})
    with pytest.raises(TypeError, match=r"ssl_context must be an ssl\.SSLContext, not str"):
        await serve(Responder(), "tls://127.0.0.1:0", ssl_context="cert.pem")
    with pytest.raises(TypeError, match=r"ssl_context must be an ssl\.SSLContext, not str"):
        await accept_transports("tls://127.0.0.1:0", trio.sleep, ssl_context="cert.pem")


async def test_arguments_that_no_address_can_use_are_refused():
    """A server that should be encrypted, or closed to web pages, does not start open."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(ValueError, match="use tls:// or wss://"):
        await serve(Responder(), LOCAL, "ws://127.0.0.1:0", ssl_context=context)
    with pytest.raises(ValueError, match="no address is ws:// or wss://"):
        await serve(Responder(), LOCAL, allowed_origins=["https://example.org"])


async def test_a_context_of_the_other_side_is_refused():
    """With it each handshake would fail, and a server would run for nobody."""
    of_client = ssl.create_default_context()
    with pytest.raises(ValueError, match=r"is for clients, and this is a server.*CLIENT_AUTH"):
        await serve(Responder(), "tls://127.0.0.1:0", ssl_context=of_client)
    with pytest.raises(ValueError, match="is for clients, and this is a server"):
        await rsio.serve({}, "rsios://127.0.0.1:0", ssl_context=of_client)
    of_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with pytest.raises(ValueError, match=r"is for servers, and this is a client.*SERVER_AUTH"):
        async with connect("tls://127.0.0.1:1", ssl_context=of_server):
            raise AssertionError("there is no connection")
    with pytest.raises(ValueError, match="is for servers, and this is a client"):
        async with rsio.connect("rsios://127.0.0.1:1", ssl_context=of_server):
            raise AssertionError("there is no connection")


async def test_an_argument_that_one_address_can_use_is_accepted():
    """Addresses of every kind may share the arguments: encrypted ones use the context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    async with trio.open_nursery() as nursery:
        start = partial(serve, ssl_context=context, allowed_origins=[])
        server = await nursery.start(start, Responder(), LOCAL, "wss://127.0.0.1:0")
        assert [uri[:4] for uri in server.uris] == ["tcp:", "wss:"]
        await server.aclose(grace=0)


@pytest.mark.parametrize("address", [Router(), b"tcp://127.0.0.1:0", 7878])
async def test_a_wrong_type_of_address_is_named(address):
    """Both ends name it."""
    with pytest.raises(TypeError, match=f"not {type(address).__name__}"):
        await serve(Responder(), LOCAL, address)
    with pytest.raises(TypeError, match=f"not {type(address).__name__}"):
        async with connect(address):
            raise AssertionError("there is no connection")
    with pytest.raises(TypeError, match=f"not {type(address).__name__}"):
        await accept_transports(address, trio.sleep)
    with pytest.raises(TypeError, match=f"not {type(address).__name__}"):
        async with open_transport(address):
            raise AssertionError("there is no connection")
