"""Our client calls servers in Go and Rust."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio

from rsocket_trio import ConnectionClosed, ttrpc
from rsocket_trio.testing.ttrpc_peer import SERVICE, EchoPayload, Part, Sum
from rsocket_trio.ttrpc import Method

pytestmark = pytest.mark.interop

LARGEST = 4 * 2**20
GO = "ttrpc (Go)"


@pytest.fixture
def server_of(peer, peers, address):
    """``async with server_of() as (client, server)``: our client of a peer's server."""

    @asynccontextmanager
    async def run(uri=address, **settings):
        async with (
            peers.serving(peer, uri) as server,
            ttrpc.connect(server.uri, **settings) as client,
        ):
            yield client, server

    return run


@pytest.fixture
def echo(peers):
    """``await echo(client, msg, **options)``: the answer of one unary call."""

    async def call(client, msg, **options):
        return await client.unary(peers.ECHO, EchoPayload(1, msg), **options)

    return call


async def test_unary_calls(server_of, echo):
    """A request with a text, one without, and 50 at the same time."""
    async with server_of() as (client, _):
        assert await echo(client, "hi") == EchoPayload(2, "hi")
        assert await echo(client, "") == EchoPayload(2, "")
        answers = {}

        async def ask(msg):
            answers[msg] = await echo(client, msg)

        messages = [f"call {number}" for number in range(50)]
        async with trio.open_nursery() as nursery:
            for msg in messages:
                nursery.start_soon(ask, msg)
        assert answers == {msg: EchoPayload(2, msg) for msg in messages}
        assert client.statistics().open_calls == 0


@pytest.mark.parametrize("where", ["tcp://127.0.0.1:0", "unix://@ttrpc-{}"])
async def test_other_addresses(server_of, echo, directory, where):
    """TCP, and a socket of the abstract namespace."""
    async with server_of(where.format(directory.name)) as (client, _):
        assert await echo(client, "hi") == EchoPayload(2, "hi")


async def test_metadata(server_of, echo):
    """A key may have several values."""
    async with server_of() as (client, _):
        pairs = [("some-key", "one"), ("other", "x"), ("some-key", "two")]
        answer = await echo(client, "md", metadata=pairs)
        assert answer.msg == "map[other:[x] some-key:[one two]]"


async def test_deadlines(server_of, echo):
    """The deadline of the cancel scope arrives, and ends the wait here too."""
    async with server_of() as (client, _):
        with trio.fail_after(20):
            answer = await echo(client, "deadline")
        assert 0 < int(answer.msg.removeprefix("dl=")) <= 20_000
        with trio.move_on_after(0.1) as scope:
            await echo(client, "sleep")
        assert scope.cancelled_caught
        assert await echo(client, "hi") == EchoPayload(2, "hi")


async def test_the_status_of_an_error(server_of, echo, peer):
    """Codes become exceptions; the connection goes on."""
    async with server_of() as (client, _):
        with pytest.raises(ttrpc.Unknown) as caught:
            await echo(client, "err")
        assert caught.value.message == "plain error"
        with pytest.raises(ttrpc.Unimplemented):
            await client.unary(Method.raw(SERVICE, "Nothing"), b"")
        # The Rust server has another code for a service that it does not have.
        expected = ttrpc.Unimplemented if peer == GO else ttrpc.InvalidArgument
        with pytest.raises(expected):
            await client.unary(Method.raw("no.such.Service", "Echo"), b"")
        with pytest.raises(ttrpc.CallError):
            await client.unary(Method.raw(SERVICE, "Echo"), b"\xff\xff")
        assert await echo(client, "hi") == EchoPayload(2, "hi")


async def test_the_largest_messages(server_of, echo):
    """Near the limit both ways; one that is too long is not sent, and harms no other call."""
    async with server_of() as (client, _):
        text = "y" * (LARGEST - 100)
        assert await echo(client, text) == EchoPayload(2, text)
        with pytest.raises(ttrpc.ResourceExhausted):
            await echo(client, "y" * LARGEST)
        assert await echo(client, "hi") == EchoPayload(2, "hi")


async def test_an_answer_that_is_too_long(server_of, echo, peer):
    """Go's server closes the connection over it, Rust's fails the call."""
    async with server_of() as (client, _):
        if peer == GO:
            with pytest.raises(ConnectionClosed):
                await echo(client, "big")
            return
        with pytest.raises(ttrpc.InvalidArgument):
            await echo(client, "big")
        assert await echo(client, "hi") == EchoPayload(2, "hi")


async def test_bidirectional_streams(server_of, peers):
    """Messages go both ways, empty ones too, until both ends are done."""
    async with (
        server_of() as (client, server),
        client.bidi_stream(peers.ECHO_STREAM) as call,
    ):
        for number in range(5):
            await call.send(EchoPayload(2 * number, "item"))
            assert await call.receive() == EchoPayload(2 * number + 1, "item")
        await call.send(EchoPayload())
        assert await call.receive() == EchoPayload(1)
        await call.end()
        assert [answer async for answer in call] == []
        assert await server.end_of_handler() == {"handler": "EchoStream", "error": ""}


async def test_answers_to_empty_messages(server_of, peers):
    """Messages without content are counted all the same."""
    async with (
        server_of() as (client, _),
        client.bidi_stream(peers.ECHO_NULL_STREAM) as call,
    ):
        for number in range(10):
            await call.send(EchoPayload(number))
            assert await call.receive() is None
        await call.end()
        assert [answer async for answer in call] == []


async def test_streams_of_the_client(server_of, peers):
    """The server has as many messages as were sent, also if there are none or empty ones."""
    async with server_of() as (client, _):
        async with client.client_stream(peers.SUM_STREAM) as call:
            for part in range(100):
                await call.send(Part(part))
            assert await call.reply() == Sum(4950, 100)
        async with client.client_stream(peers.SUM_STREAM) as call:
            assert await call.reply() == Sum()
        async with client.client_stream(peers.ECHO_NULL) as call:
            await call.send(EchoPayload(1, "item"))
            assert await call.reply() is None


async def test_streams_of_the_server(server_of, peers):
    """All messages arrive in order, and then the end."""
    async with server_of() as (client, _):
        async with client.server_stream(peers.DIVIDE_STREAM, Sum(12, 4)) as parts:
            assert [part async for part in parts] == [Part(3)] * 4
        async with client.server_stream(peers.DIVIDE_STREAM, Sum(12, 0)) as parts:
            assert [part async for part in parts] == []
        async with client.server_stream(peers.EMPTY_PAYLOAD_STREAM, None) as payloads:
            assert [one async for one in payloads] == [EchoPayload(1), EchoPayload(2)]


async def test_a_stream_that_fails(server_of, peers):
    """The status of the server ends the stream, behind what came before."""
    async with (
        server_of() as (client, _),
        client.bidi_stream(peers.ECHO_STREAM) as call,
    ):
        await call.send(EchoPayload(1, "item"))
        await call.send(EchoPayload(1, "err"))
        assert await call.receive() == EchoPayload(2, "item")
        with pytest.raises(ttrpc.Unknown) as caught:
            await call.receive()
        assert caught.value.message == "stream err"


async def test_calls_and_streams_at_the_same_time(server_of, peers, echo):
    """Each answer finds its own call."""
    async with (
        server_of() as (client, _),
        client.client_stream(peers.SUM_STREAM) as sums,
        client.bidi_stream(peers.ECHO_STREAM) as echoes,
    ):
        for number in range(20):
            await sums.send(Part(number))
            await echoes.send(EchoPayload(number, "stream"))
            assert await echo(client, "unary") == EchoPayload(2, "unary")
            assert await echoes.receive() == EchoPayload(number + 1, "stream")
        assert await sums.reply() == Sum(190, 20)


async def test_the_handler_of_an_abandoned_stream_ends(server_of, peers, echo):
    """Leaving the block tells the server that no more comes."""
    async with server_of() as (client, server):
        async with client.bidi_stream(peers.ECHO_STREAM) as call:
            await call.send(EchoPayload(1, "item"))
            assert await call.receive() == EchoPayload(2, "item")
        assert await server.end_of_handler() == {"handler": "EchoStream", "error": ""}
        with trio.move_on_after(0.1):
            async with client.bidi_stream(peers.ECHO_STREAM) as call:
                await call.receive()
        assert (await server.end_of_handler())["handler"] == "EchoStream"
        assert await echo(client, "hi") == EchoPayload(2, "hi")


async def test_a_stream_that_is_not_read_harms_no_other_call(server_of, peers, echo):
    """It fails when its room is full, and other calls are answered before and after."""
    async with (
        server_of() as (client, _),
        client.server_stream(peers.DIVIDE_STREAM, Sum(10**6, 10**5)) as parts,
    ):
        while client.statistics().open_calls:
            assert await echo(client, "hi") == EchoPayload(2, "hi")
        with pytest.raises(ttrpc.ResourceExhausted, match="faster than they are received"):
            async for part in parts:
                assert part == Part(10)
        assert await echo(client, "hi") == EchoPayload(2, "hi")


async def test_the_server_closes_the_connection(server_of, peers, echo, peer):
    """The calls in flight learn it, and so does `wait_closed`."""
    async with server_of() as (client, server), trio.open_nursery() as nursery:
        failed = []

        async def ask():
            with pytest.raises(ConnectionClosed):
                await echo(client, "sleep")
            failed.append("unary")

        async def listen():
            async with client.bidi_stream(peers.ECHO_STREAM) as call:
                with pytest.raises(ConnectionClosed):
                    await call.receive()
            failed.append("stream")

        nursery.start_soon(ask)
        nursery.start_soon(listen)
        assert await echo(client, "hi") == EchoPayload(2, "hi")
        await server.peer.kill()
        assert isinstance(await client.wait_closed(), ConnectionClosed)
    assert sorted(failed) == ["stream", "unary"]
