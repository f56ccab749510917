"""What a peer speaks that does not speak our protocol, in the texts of errors."""

from __future__ import annotations

import logging
from functools import partial

import pytest
import trio
import trio.testing

import rsocket_trio
from rsocket_trio import (
    ConnectFailed,
    ConnectionClosed,
    Router,
    RSocketError,
    TransportInfo,
    lumberjack,
    rsio,
    ttrpc,
)
from rsocket_trio.errors import ErrorCode
from rsocket_trio.foreign import recognise_foreign
from rsocket_trio.frames.error import encode_error
from rsocket_trio.sockets.tls import start_tls_client
from rsocket_trio.transports.byte_stream import ByteStreamTransport

REFUSED = encode_error(0, ErrorCode.INVALID_SETUP, b"no SETUP within 10 s")
RSIO = b"\x02\x00\x00\x03\x31protocol error: hello-expected not type 0x00"


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"OPTIONS * HTTP/1.1\r\n", "HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
        (bytes.fromhex("15030300020246"), "TLS"),
        (bytes.fromhex("160301020001000001fc0303"), "TLS"),
        (RSIO, "rsio"),
        (REFUSED, "RSocket"),
        (len(REFUSED).to_bytes(3, "big") + REFUSED, "RSocket"),
    ],
)
def test_protocols_are_recognised_and_no_less_is_sure(first, name):
    assert recognise_foreign(first) == name
    assert recognise_foreign(first[:5]) is None
    assert recognise_foreign(b"\x00" + first) is None


def over(stream):
    return ByteStreamTransport(
        stream, info=TransportInfo(scheme="stream"), max_frame_size=2**24 - 1
    )


@pytest.mark.parametrize("first", [b"", b"H", b"\x02\x00\x00", b"\x00" * 64, b"\x16\x03\x01"])
def test_nothing_is_said_where_it_is_not_sure(first):
    assert recognise_foreign(first) is None


async def test_a_client_of_rsocket_at_a_server_of_rsio():
    async with trio.open_nursery() as nursery:
        server = await nursery.start(rsio.serve, {}, "rsio://127.0.0.1:0")
        uri = str(server.uris[0]).replace("rsio", "tcp")
        with pytest.raises(RSocketError, match="does not speak RSocket, but rsio"):
            async with rsocket_trio.connect(uri):
                raise AssertionError("it connected")
        nursery.cancel_scope.cancel()


async def store(batch):
    raise AssertionError("a batch arrived")


SERVERS = {
    "tcp": partial(rsocket_trio.serve, Router()),
    "tcp, RSocket 1.0 alone": partial(rsocket_trio.serve, Router(), protocols=["rsocket"]),
    "ws": partial(rsocket_trio.serve, Router()),
    "rsio": partial(rsio.serve, {}),
    "rsio+ws": partial(rsio.serve, {}),
    "lumberjack": partial(lumberjack.serve, store),
    "ttrpc+tcp": partial(ttrpc.serve, ttrpc.Service("a.B")),
}


@pytest.mark.parametrize("scheme", SERVERS)
async def test_a_client_of_tls_at_a_server_without_it(scheme, caplog):
    """The log names TLS, and not the length that its first octets would be."""
    caplog.set_level(logging.DEBUG, logger="rsocket_trio")
    async with trio.open_nursery() as nursery:
        address = f"{scheme.partition(',')[0]}://127.0.0.1:0"
        server = await nursery.start(SERVERS[scheme], address)
        port = int(str(server.uris[0]).split(":")[2].partition("/")[0])
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        with pytest.raises(trio.BrokenResourceError), trio.fail_after(20):
            await start_tls_client(stream, "localhost", None)
        await stream.aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()
    assert "TLS" in caplog.text


async def test_a_client_of_rsio_at_a_server_of_rsocket(autojump_clock):
    """The server waits for a frame of 64 KiB, and says so when its patience is over."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rsocket_trio.serve_transport, Router(), over(theirs))
        config = rsio.RsioConfig(hello_timeout=20)
        with pytest.raises(ConnectFailed, match="does not speak rsio, but RSocket"):
            async with rsio.connect(ours, config=config):
                raise AssertionError("it connected")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak rsio, but HTTP"),
        (b"\x07", "does not speak rsio: protocol error"),
        (b"", "without a hello: it may not speak rsio"),
    ],
)
async def test_a_client_of_rsio_at_another_server(answer, text):
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(answer)
    await theirs.send_eof()
    with pytest.raises(ConnectFailed, match=text):
        async with rsio.connect(ours):
            raise AssertionError("it connected")


async def test_a_client_of_rsio_where_nobody_answers(autojump_clock):
    ours, _theirs = trio.testing.memory_stream_pair()
    with pytest.raises(ConnectFailed, match="the peer does not speak rsio, or is busy"):
        async with rsio.connect(ours):
            raise AssertionError("it connected")


async def test_a_client_of_rsocket_at_a_server_of_http():
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await theirs.send_eof()
    with pytest.raises(ConnectionClosed, match="does not speak RSocket, but HTTP"):
        async with rsocket_trio.connect(over(ours)):
            raise AssertionError("it connected")


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP"),
        (bytes.fromhex("1603010200010001fc0303") + bytes(500), b"TLS"),
    ],
)
async def test_a_client_of_something_else_at_a_server_of_rsocket(first, name):
    """The length that its first bytes seem to have is refused at once, and says whose it is."""
    async with trio.open_nursery() as nursery:
        start = partial(rsocket_trio.serve, Router(), "tcp://127.0.0.1:0")
        server = await nursery.start(start)
        host, port = server.uris[0].removeprefix("tcp://").split(":")
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            await stream.send_all(first)
            with trio.fail_after(5):
                answer = await stream.receive_some()
        assert b"the peer does not speak RSocket, but " + name in answer
        nursery.cancel_scope.cancel(reason="the test is over")
