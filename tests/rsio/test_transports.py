"""rsio over every transport, once: TCP, TLS, Unix sockets, WebSocket, sockets and memory pairs."""

from __future__ import annotations

import socket
import ssl
from functools import partial

import pytest
import trio
import trustme

from rsocket_trio import ConnectFailed, rsio, serve
from rsocket_trio.reactive_streams import collect, from_iterable
from rsocket_trio.transports import memory_transport_pair
from tests.rsio.engine_scenes import numbers, words

TARGET = {
    "count": from_iterable(numbers(300)),
    "big": from_iterable([b"x" * 200_000] * 3),
    "ints": rsio.fixed_size(words(30_000), 8),
}


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def server_context(authority):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def client_context(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def exchange(connection: rsio.Connection) -> None:
    assert await collect(connection.publisher("count")) == numbers(300)
    assert await collect(connection.publisher("big")) == [b"x" * 200_000] * 3
    octets = b""
    async with connection.publisher("ints").open_packed() as blocks:
        async for block in blocks:
            octets += block.data
    assert octets == b"".join(words(30_000))


@pytest.mark.parametrize(
    "address", ["rsio://127.0.0.1:0", "rsio+unix://{}/socket", "rsio+ws://127.0.0.1:0/path"]
)
async def test_by_address(address, tmp_path):
    uri = address.format(tmp_path)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(rsio.serve, TARGET, uri)
        async with rsio.connect(server.uris[0]) as connection:
            assert connection.info.scheme == address.partition(":")[0]
            await exchange(connection)
        await server.aclose()


@pytest.mark.parametrize("address", ["rsios://localhost:0", "rsio+wss://localhost:0/path"])
async def test_over_tls(address, server_context, client_context):
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(rsio.serve, TARGET, address, ssl_context=server_context)
        )
        async with rsio.connect(server.uris[0], ssl_context=client_context) as connection:
            await exchange(connection)
        with pytest.raises(ConnectFailed):
            async with rsio.connect(server.uris[0]):
                raise AssertionError("the certificate is of no known authority")
        await server.aclose()


async def test_tls_offers_and_chooses_rsio(server_context, client_context):
    """What is offered by ALPN is rsio/0, and that is chosen."""
    offered = []
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(rsio.serve, TARGET, "rsios://localhost:0", ssl_context=server_context)
        )
        port = int(server.uris[0].rpartition(":")[2])
        client_context.set_alpn_protocols(["http/1.1", "rsio/0"])
        stream = await trio.open_ssl_over_tcp_stream(
            "localhost", port, ssl_context=client_context, https_compatible=True
        )
        await stream.do_handshake()
        offered.append(stream.selected_alpn_protocol())
        await stream.aclose()
        await server.aclose()
    assert offered == ["rsio/0"]


async def test_a_client_of_another_protocol_is_refused_by_alpn(server_context, client_context):
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(rsio.serve, TARGET, "rsios://localhost:0", ssl_context=server_context)
        )
        port = int(server.uris[0].rpartition(":")[2])
        client_context.set_alpn_protocols(["http/1.1"])
        stream = await trio.open_ssl_over_tcp_stream(
            "localhost", port, ssl_context=client_context, https_compatible=True
        )
        await stream.send_all(b"\x01\x00\x00")
        with trio.fail_after(5):
            assert await stream.receive_some(100) == b""
        await stream.aclose()
        await server.aclose()


async def test_over_a_pair_of_sockets():
    ours, theirs = socket.socketpair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rsio.serve_stream, TARGET, theirs)
        async with rsio.connect(ours) as connection:
            await exchange(connection)


async def test_over_a_pair_of_transports():
    ours, theirs = memory_transport_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rsio.serve_stream, TARGET, theirs)
        async with rsio.connect(ours) as connection:
            assert connection.info.scheme == "memory"
            await exchange(connection)


async def test_over_any_stream_of_trio():
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rsio.serve_stream, TARGET, theirs)
        async with rsio.connect(ours) as connection:
            await exchange(connection)


async def test_the_serve_of_the_package_serves_by_the_wire_of_the_address():
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, TARGET, "rsio://127.0.0.1:0")
        assert isinstance(server, rsio.RsioServer)
        async with rsio.connect(server.uris[0]) as connection:
            assert await collect(connection.publisher("count")) == numbers(300)
        assert server.statistics().accepted == 1
        await server.aclose()


async def test_addresses_of_several_wires_need_several_calls():
    with pytest.raises(ValueError, match=r"several wires.*rsocket_trio\.rsio\.serve for rsio://"):
        await serve(TARGET, "rsio://127.0.0.1:0", "tcp://127.0.0.1:0")


async def test_an_argument_of_another_wire_is_refused():
    with pytest.raises(ValueError, match="resume is given, but rsio has no use for it"):
        await serve(TARGET, "rsio://127.0.0.1:0", resume=object())


async def test_a_server_that_stops_lets_streams_finish():
    async with trio.open_nursery() as nursery:
        server = await nursery.start(rsio.serve, TARGET, "rsio://127.0.0.1:0")
        async with rsio.connect(server.uris[0]) as connection:
            async with connection.publisher("count").open(prefetch=1) as elements:
                assert await elements.receive() == b"0"
                nursery.start_soon(partial(server.aclose, grace=60))
                rest = [element async for element in elements]
            assert len(rest) == 299
            assert isinstance(await connection.wait_closed(), rsio.GoodbyeReceived)


async def test_wrong_arguments_are_found_before_anything_is_opened():
    with pytest.raises(ValueError, match="is not an address"):
        async with rsio.connect("tcp://127.0.0.1:1"):
            pass
    with pytest.raises(TypeError, match="config must be an RsioConfig"):
        async with rsio.connect("rsio://127.0.0.1:1", config=object()):
            pass
    with pytest.raises(TypeError, match="an address, an open stream"):
        async with rsio.connect(None):
            pass
    with pytest.raises(ValueError, match="name an address"):
        await rsio.serve(TARGET)
    with pytest.raises(TypeError, match="two arguments"):
        await rsio.serve(lambda: None, "rsio://127.0.0.1:0")
    with pytest.raises(TypeError, match="'x' is no Publisher"):
        await rsio.serve({"x": 1}, "rsio://127.0.0.1:0")
    with pytest.raises(ValueError, match="ssl_context is given"):
        async with rsio.connect("rsio://127.0.0.1:1", ssl_context=ssl.create_default_context()):
            pass
