"""The encrypted stream itself, from its handshake to its end, over streams in memory."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
import trustme

from rsocket_trio.sockets.tls_stream import TLSStream

CA = trustme.CA()
SERVER = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
CA.issue_cert("localhost").configure_cert(SERVER)
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def client_context(version):
    context = ssl.create_default_context()
    CA.configure_trust(context)
    context.minimum_version = context.maximum_version = version
    return context


@pytest.fixture(params=VERSIONS, ids=lambda version: version.name)
async def pair(request):
    """Client and server, after their handshake."""
    return await connected(request.param)


async def connected(version):
    below = trio.testing.memory_stream_pair()
    client = TLSStream(below[0], client_context(version), server_hostname="localhost")
    server = TLSStream(below[1], SERVER, server_side=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.do_handshake)
        nursery.start_soon(server.do_handshake)
    return client, server


async def rest_of(stream):
    received = b""
    while data := await stream.receive_some():
        received += data
    return received


async def test_both_ends_send_much_at_the_same_time(pair):
    """More than a record, a read or a buffer holds."""
    data = bytes(range(256)) * 4000

    async def send(stream):
        await stream.send_all(memoryview(data))
        await stream.send_eof()

    received = []

    async def receive(stream):
        received.append(await rest_of(stream))

    async with trio.open_nursery() as nursery:
        for stream in pair:
            nursery.start_soon(send, stream)
            nursery.start_soon(receive, stream)
    assert received == [data, data]


@pytest.mark.parametrize("ours_first", [True, False])
async def test_an_end_that_was_sent_does_not_end_receiving(pair, ours_first):
    """What has come before the end was sent is not lost, and what comes behind it is not either."""
    one, other = pair if ours_first else reversed(pair)
    await other.send_all(b"before")
    with trio.move_on_after(0):  # takes the bytes of the stream below, and no others
        await one.receive_some(1)
    await one.send_eof()
    assert await rest_of(other) == b""
    await other.send_all(b", and behind")
    await other.send_eof()
    assert (await rest_of(one)).endswith(b", and behind")
    with pytest.raises(trio.ClosedResourceError, match="the end of this stream was sent"):
        await one.send_all(b"more")


async def test_records_that_wait_are_kept_when_the_end_is_sent(pair):
    """OpenSSL drops a record that waits when it sends its close_notify."""
    one, other = pair
    await other.send_all(b"first")
    await other.send_all(b"second")
    assert await one.receive_some(1) == b"f"
    await one.send_eof()
    await other.send_eof()
    assert await rest_of(one) == b"irstsecond"


async def test_many_records_that_wait_are_kept_when_the_end_is_sent(pair):
    """More than one read would return."""
    one, other = pair
    for _ in range(1000):
        await other.send_all(b"x")
    assert await one.receive_some(1) == b"x"
    await one.send_eof()
    await other.send_eof()
    assert await rest_of(one) == b"x" * 999


async def test_all_records_of_one_read_come_together(pair):
    """A record for each item of a peer is no turn of the loop for each item."""
    one, other = pair
    for _ in range(20):
        await one.send_all(b"item")
    assert await other.receive_some() == b"item" * 20


async def test_a_flood_of_records_is_cut(pair):
    """One read returns 256 records at most, whatever has come."""
    one, other = pair
    for _ in range(300):
        await one.send_all(b"x")
    assert len(await other.receive_some()) == 256
    assert len(await other.receive_some()) == 44


async def test_no_more_than_was_asked_for(pair):
    one, other = pair
    await one.send_all(b"abcde")
    assert [await other.receive_some(2) for _ in range(3)] == [b"ab", b"cd", b"e"]


async def test_an_end_without_a_close_notify_is_an_end(pair):
    """Many implementations just close."""
    one, other = pair
    await one.send_all(b"last")
    await one.transport_stream.send_eof()
    assert await rest_of(other) == b"last"


BAD_RECORD = "bad record mac|record layer failure"
"""What OpenSSL 3.0 and 3.6 say."""


async def test_a_bad_record_comes_behind_what_was_good(pair):
    """The bytes before it, then the error, each time; and the peer gets its alert."""
    one, other = pair
    await one.send_all(b"good")
    await one.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert await other.receive_some() == b"good"
    for _ in range(2):
        with pytest.raises(trio.BrokenResourceError, match=BAD_RECORD) as caught:
            await other.receive_some()
        assert isinstance(caught.value.__cause__, ssl.SSLError)
    with pytest.raises(trio.BrokenResourceError, match=BAD_RECORD):
        await other.send_all(b"more")
    with pytest.raises(trio.BrokenResourceError, match="sent the TLS alert bad record mac"):
        await one.receive_some()


async def test_a_write_between_a_bad_record_and_its_error_keeps_the_reason(pair):
    """OpenSSL says once why it failed. Whoever writes and reads afterwards is told that too."""
    one, other = pair
    await one.send_all(b"good")
    await one.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert await other.receive_some() == b"good"
    for use in (partial(other.send_all, b"answer"), other.receive_some):
        with pytest.raises(trio.BrokenResourceError, match="bad record mac"):
            await use()
    with pytest.raises(trio.BrokenResourceError, match="sent the TLS alert bad record mac"):
        await one.receive_some()


async def test_a_cancelled_write_breaks_the_stream():
    """A part of a record may have left, so nothing may follow it."""
    one, other = await connected(ssl.TLSVersion.TLSv1_3)
    with trio.CancelScope() as scope:

        async def cut():
            scope.cancel()
            await trio.sleep_forever()

        one.transport_stream.send_stream.send_all_hook = cut
        await one.send_all(b"x" * 100)
    assert scope.cancelled_caught
    with pytest.raises(trio.BrokenResourceError, match="a write of this stream was cut off"):
        await one.send_all(b"more")
    await other.aclose()


async def test_a_ticket_waits_for_data():
    """A client that never reads would reset the connection if its ticket were unread."""
    client, server = await connected(ssl.TLSVersion.TLSv1_3)
    with trio.move_on_after(0.01) as scope:
        await client.transport_stream.receive_some()
    assert scope.cancelled_caught
    await client.send_all(b"x")
    await server.receive_some()  # does not send the ticket either
    await server.send_all(b"data")
    await server.aclose()
    assert await rest_of(client) == b"data"


async def test_closed(pair):
    one, other = pair
    await one.aclose()
    await one.aclose()
    for use in (one.receive_some, one.send_eof, one.wait_send_all_might_not_block):
        with pytest.raises(trio.ClosedResourceError):
            await use()
    with pytest.raises(trio.ClosedResourceError):
        await one.send_all(b"x")
    assert await rest_of(other) == b""


async def test_the_peer_ends_within_the_handshake():
    below = trio.testing.memory_stream_pair()
    server = TLSStream(below[1], SERVER, server_side=True)
    await below[0].send_all(b"\x16\x03\x01")
    await below[0].send_eof()
    with pytest.raises(trio.BrokenResourceError, match="closed the connection during the TLS"):
        await server.do_handshake()


async def test_an_alert_waits_for_a_peer_that_does_not_read_but_not_for_long(autojump_clock):
    """The handshake fails in a second, not never."""
    below = trio.testing.memory_stream_pair()
    below[1].send_stream.send_all_hook = trio.sleep_forever
    server = TLSStream(below[1], SERVER, server_side=True)
    await below[0].send_all(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
    with pytest.raises(trio.BrokenResourceError):
        await server.do_handshake()
    assert trio.current_time() == pytest.approx(1.0)


# -- OpenSSL's own programs as peers


@pytest.fixture
def openssl(tmp_path):
    """Start the program, which sees its own certificate and the authority's."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no program openssl")
    CA.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "s.pem")
    CA.cert_pem.write_to_path(tmp_path / "ca.pem")

    @asynccontextmanager
    async def start(arguments):
        command = ["openssl", *arguments.split()]
        process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
        )
        printed = b""

        async def until(text):
            nonlocal printed
            while text not in printed:
                more = await process.stdout.receive_some()
                assert more, f"openssl ended, and printed {printed!r}"
                printed += more
            printed = printed.partition(text)[2]

        try:
            yield process.stdin.send_all, until
        finally:
            process.kill()
            await process.wait()
            await process.stdin.aclose()
            await process.stdout.aclose()

    return start


async def test_the_peer_asks_for_a_new_key(openssl):
    """A KeyUpdate of ours leaves with the next data (RFC 8446, 4.6.3), and both keys hold."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]

    async def serve(stream):
        async with TLSStream(stream, SERVER, server_side=True) as secure:
            await secure.do_handshake()
            while data := await secure.receive_some():
                await secure.send_all(data.upper())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        client = f"s_client -tls1_3 -CAfile ca.pem -connect 127.0.0.1:{port} -msg"
        async with openssl(client) as (write, until):
            await until(b"Verify return code")
            await write(b"K\n")
            await until(b"KEYUPDATE")
            await write(b"echo\n")
            await until(b"<<< TLS 1.3, Handshake [length 0005], KeyUpdate")
            await until(b"ECHO")
            await write(b"again\n")
            await until(b"AGAIN")
        nursery.cancel_scope.cancel()


async def test_the_peer_begins_a_new_handshake(openssl):
    """TLS 1.2 allows it within a connection; who sends waits for its end."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    server = f"s_server -tls1_2 -cert s.pem -key s.pem -accept 127.0.0.1:{port}"
    async with openssl(server) as (write, until), trio.open_nursery() as nursery:
        await until(b"ACCEPT")
        context = client_context(ssl.TLSVersion.TLSv1_2)
        below = await trio.open_tcp_stream("127.0.0.1", port)
        async with TLSStream(below, context, server_hostname="localhost") as secure:
            await secure.do_handshake()
            await secure.send_all(b"first\n")
            await until(b"first")
            await write(b"r\n")
            nursery.start_soon(secure.receive_some)
            await until(b"SSL_do_handshake -> 1")
            await secure.send_all(b"second\n")
            await until(b"second")
            nursery.cancel_scope.cancel()
