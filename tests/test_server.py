"""serve and serve_transport: addresses, counts, the connections of a server."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from rsocket_trio import (
    ConnectionConfig,
    Payload,
    Responder,
    Server,
    ServerStatistics,
    connect,
    parse_uri,
    serve,
    serve_transport,
)
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import accept_transports, open_transport
from rsocket_trio.transports.memory import memory_transport_pair
from tests.gated import LOCAL, Gated


async def test_the_server_reports_its_addresses():
    """task_status gets the server, with the real ports, one address each."""
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, Gated(), LOCAL, LOCAL)
        assert isinstance(server, Server)
        assert len(set(server.uris)) == 2
        for uri in server.uris:
            assert not uri.endswith(":0")
            async with connect(uri) as requester:
                assert await requester.request_response(Payload(b"x")) == Payload(b"x")
        await server.aclose(grace=0)


async def test_statistics():
    """Connections that are set up are counted, now and since the start."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Gated(), LOCAL)
        async with connect(server.uris[0]), connect(server.uris[0]):
            now = server.statistics()
            assert now == ServerStatistics(connections=2, accepted=2, dropped_events=0)
        await server.aclose(grace=1)
        now = server.statistics()
        assert now == ServerStatistics(connections=0, accepted=2, dropped_events=0)


@pytest.mark.parametrize(
    ("uris", "error"),
    [
        ([], ValueError),
        (["nonsense"], ValueError),
        (["gopher://127.0.0.1:0"], ValueError),
        (["tcp://256.1.1.1:0"], OSError),
        ([LOCAL, "tcp://192.0.2.1:1"], OSError),
    ],
)
async def test_bad_addresses(uris, error):
    """A wrong or unavailable address is a bare error; no socket stays open."""
    async with assert_no_leaks():
        with pytest.raises(error) as caught:
            await serve(Gated(), *uris)
        assert not isinstance(caught.value, BaseExceptionGroup)


async def test_an_address_in_use():
    """A second server on the same port is refused with OSError."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Gated(), LOCAL)
        with pytest.raises(OSError):
            await serve(Gated(), server.uris[0])
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("form", [str, parse_uri], ids=["text", "Uri"])
async def test_an_address_is_text_or_a_uri(nursery, form):
    """All functions with an address take both."""
    server = await nursery.start(serve, KnownAnswers(), form(LOCAL))
    address = form(server.uris[0])
    async with connect(address) as requester:
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")
    async with open_transport(address) as transport:
        assert transport.info.scheme == "tcp"
    bound = await nursery.start(partial(accept_transports, form(LOCAL), lambda _: trio.sleep(0)))
    assert bound[0].port
    await server.aclose()
    nursery.cancel_scope.cancel()


async def test_a_transport_closed_under_a_connection(caplog):
    """Closing the transport of serve_transport ends its connection without an error."""
    here, there = memory_transport_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_transport, Responder(), there)
        async with FramePeer(here) as peer:
            await peer.setup()
            await peer.expect_alive()
            await there.aclose()
            await peer.expect_closed()
    assert "crashed" not in caplog.text


async def test_config_is_used():
    """A server keeps to its own limits."""
    config = ConnectionConfig(fragment_size=64)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            lambda task_status: serve(Gated(), LOCAL, config=config, task_status=task_status)
        )
        async with connect(server.uris[0]) as requester:
            payload = Payload(b"x" * 1000)
            assert await requester.request_response(payload) == payload
        nursery.cancel_scope.cancel()
