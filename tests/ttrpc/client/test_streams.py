"""Calls with streams of messages, as their callers see them."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionClosed, ConnectionLost, RemoteProtocolError
from rsocket_trio.ttrpc import NotFound, ResourceExhausted, TtrpcConfig, TtrpcLimits
from rsocket_trio.ttrpc.wire.frames import HEADER, MAX_BODY, MessageType
from tests.ttrpc.scenes import (
    CHAT,
    COUNT,
    ECHO,
    JOIN,
    answer,
    client_of,
    client_of_stranger,
    data,
    end,
    refusal,
    things,
)

BOTH = pytest.mark.parametrize("over", ["memory", "socket"])


def told_the_end(frames, stream_id=1):
    """Whether these frames are just the end of our messages."""
    return [(each.stream_id, each.kind, each.flags, each.body) for each in frames] == [
        (stream_id, MessageType.DATA, 0x05, b"")
    ]


# -- with our server ----------------------------------------------------------------------------


@BOTH
async def test_each_kind(over):
    async with client_of(things(), over=over) as client:
        for count in (0, 1, 1000):
            async with client.server_stream(COUNT, b"%d" % count) as replies:
                assert [each async for each in replies] == [b"%d" % n for n in range(count)]
        for parts in ([], [b"a"], [b"a", b"", b"c"] * 100, [bytes(10**6)] * 4):
            async with client.client_stream(JOIN) as call:
                for part in parts:
                    await call.send(part)
                assert await call.reply() == b"".join(parts)
        async with client.bidi_stream(CHAT) as call:
            await call.send(b"a")
            assert await call.receive() == b"A"
            await call.send(b"")
            assert await call.receive() == b""
            await call.end()
            assert [each async for each in call] == []
        assert client.statistics().open_calls == 0


@BOTH
async def test_both_directions_at_the_same_time(over):
    """More than fits into the outboxes of both ends, with two tasks."""
    async with (
        client_of(things(), over=over) as client,
        client.bidi_stream(CHAT) as call,
        trio.open_nursery() as nursery,
    ):

        async def send():
            for number in range(3000):
                await call.send(b"a%d" % number * 20)
            await call.end()

        nursery.start_soon(send)
        received = [each async for each in call]
        assert received == [b"A%d" % number * 20 for number in range(3000)]


# -- with a scripted server ---------------------------------------------------------------------


async def test_the_flags_of_requests():
    """A stream of requests: "remote open" and "no data", which Go and Rust both understand."""
    async with client_of_stranger() as (client, stranger):
        async with client.server_stream(COUNT, b"x"):
            frame = await stranger.frame()
            assert (frame.kind, frame.flags, frame.body[-3:]) == (1, 0x01, b"\x1a\x01x")
        async with client.client_stream(JOIN):
            assert (await stranger.frame()).flags == 0x06
        async with client.bidi_stream(CHAT):
            assert told_the_end([await stranger.frame()], 3)
            assert (await stranger.frame()).flags == 0x06


async def test_messages_as_they_are_sent():
    async with client_of_stranger() as (client, stranger), client.bidi_stream(CHAT) as call:
        await stranger.frame()
        await call.send(b"a")
        await call.send(b"")
        await call.end()
        await call.end()
        frames = await stranger.drain()
        assert [(each.flags, each.body) for each in frames] == [(0, b"a"), (0, b""), (0x05, b"")]
        with pytest.raises(trio.ClosedResourceError, match="closed here"):
            await call.send(b"late")


@pytest.mark.parametrize(
    ("frames", "received"),
    [
        ([data(1, b"a"), data(1), end(1)], [b"a", b""]),
        ([data(1, b"a", 0x01)], [b"a"]),
        ([data(1, b"", 0x01)], []),
        ([data(1, b"ignored", 0x04), data(1, b"ignored", 0x05)], []),
        ([data(1, b"a"), answer(1)], [b"a"]),
        ([data(1, b"a"), answer(1, b"b")], [b"a", b"b"]),
        ([end(1), data(1, b"late"), answer(1, b"late")], []),
    ],
)
@pytest.mark.parametrize("kind", ["server", "both"])
async def test_replies(frames, received, kind):
    async with client_of_stranger() as (client, stranger):
        opened = client.server_stream(COUNT, b"") if kind == "server" else client.bidi_stream(CHAT)
        async with opened as replies:
            await stranger.frame()
            await stranger.send(*frames)
            assert [each async for each in replies] == received
            with pytest.raises(trio.EndOfChannel):
                await replies.receive()


@BOTH
async def test_an_error_comes_behind_the_messages(over):
    async with (
        client_of_stranger(over=over) as (client, stranger),
        client.bidi_stream(CHAT) as call,
    ):
        await stranger.frame()
        await stranger.send(data(1, b"a"), data(1, b"b"), refusal(1, 5, "no more"))
        await stranger.drain()
        with pytest.raises(NotFound, match="no more"):
            await call.send(b"x")
        assert await call.receive() == b"a"
        assert await call.receive() == b"b"
        for _ in range(2):
            with pytest.raises(NotFound, match="no more"):
                await call.receive()
        await call.end()
        assert await stranger.drain() == []  # the server has ended the call


async def test_a_server_that_ends_a_call_while_the_client_sends():
    async with client_of_stranger() as (client, stranger), client.client_stream(JOIN) as call:
        await stranger.frame()
        await stranger.send(answer(1, b"enough"))
        await stranger.drain()
        with pytest.raises(trio.BrokenResourceError, match="the server has ended this call"):
            await call.send(b"more")
        assert await call.reply() == b"enough"
        with pytest.raises(trio.ClosedResourceError, match="received already"):
            await call.reply()
        assert await stranger.drain() == []


@pytest.mark.parametrize("kind", ["client", "both"])
async def test_leaving_tells_the_server_that_no_more_comes(kind):
    """Also when the block is cancelled or fails; a server that streams is told nothing."""
    async with client_of_stranger() as (client, stranger):
        opened = client.client_stream(JOIN) if kind == "client" else client.bidi_stream(CHAT)
        with trio.CancelScope() as scope:
            async with opened:
                await stranger.frame()
                scope.cancel()
                await trio.sleep_forever()
        assert told_the_end(await stranger.drain())
        await stranger.send(data(1, b"x"), answer(1))
        await stranger.drain()
        assert client.statistics().ignored_frames == 2
        with pytest.raises(ValueError, match="mine"):
            async with client.server_stream(COUNT, b""):
                await stranger.frame()
                raise ValueError("mine")
        assert await stranger.drain() == []
        assert client.statistics().open_calls == 0


async def test_streams_cannot_be_used_behind_their_block():
    async with client_of_stranger() as (client, _):
        async with client.bidi_stream(CHAT) as call:
            pass
        with pytest.raises(trio.ClosedResourceError):
            await call.send(b"x")
        with pytest.raises(trio.ClosedResourceError):
            await call.receive()
        async with client.client_stream(JOIN) as sending:
            pass
        with pytest.raises(trio.ClosedResourceError):
            await sending.reply()


@BOTH
async def test_a_message_that_is_too_long(over):
    """Nothing of it is sent, and the stream goes on."""
    async with client_of(things(), over=over) as client, client.client_stream(JOIN) as call:
        await call.send(b"a")
        with pytest.raises(ResourceExhausted, match="nothing was sent"):
            await call.send(bytes(MAX_BODY + 1))
        await call.send(bytes(MAX_BODY))
        with pytest.raises(ResourceExhausted):  # by the server: the answer is too long
            await call.reply()
        assert await client.unary(ECHO, b"x") == b"x"


@pytest.mark.parametrize("kind", [MessageType.DATA, MessageType.RESPONSE])
async def test_a_reply_that_is_too_long(kind):
    """It fails its call. Behind a RESPONSE the server waits for nothing; else it is told."""
    config = TtrpcConfig(limits=TtrpcLimits(max_message_size=1000))
    async with (
        client_of_stranger(config=config) as (client, stranger),
        client.bidi_stream(CHAT) as call,
    ):
        await stranger.frame()
        await stranger.send(HEADER.pack(1001, 1, kind, 0) + bytes(1001))
        with pytest.raises(ResourceExhausted, match="message length 1001 exceed"):
            await call.receive()
        assert told_the_end(await stranger.drain()) == (kind is MessageType.DATA)


@pytest.mark.parametrize("fault", ["data", "request", "garbage"])
async def test_a_server_that_breaks_the_protocol_on_a_client_stream(fault):
    """Its call fails, and a server that may be waiting is told that no more comes."""
    async with client_of_stranger() as (client, stranger):
        async with client.client_stream(JOIN) as call:
            await stranger.frame()
            await stranger.send(
                {
                    "data": data(1, b"x"),
                    "request": HEADER.pack(0, 1, 1, 0),
                    "garbage": HEADER.pack(1, 1, 2, 0) + b"\xff",
                }[fault]
            )
            with pytest.raises(RemoteProtocolError):
                await call.reply()
        frames = await stranger.drain()
        assert told_the_end(frames)
        assert client.statistics().open_calls == 0


async def test_the_connection_ends():
    async with client_of_stranger() as (client, stranger), client.bidi_stream(CHAT) as call:
        await stranger.frame()
        await stranger.send(data(1, b"a"))
        await stranger.drain()
        await stranger.leave()
        await client.wait_closed()
        assert await call.receive() == b"a"
        with pytest.raises(ConnectionLost):
            await call.receive()
        with pytest.raises(ConnectionClosed):
            await call.send(b"x")
        await call.end()


async def test_two_tasks_cannot_receive():
    async with (
        client_of_stranger() as (client, stranger),
        client.server_stream(COUNT, b"") as replies,
        trio.open_nursery() as nursery,
    ):

        async def receive():
            assert await replies.receive() == b"a"

        nursery.start_soon(receive)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await replies.receive()
        await stranger.send(data(1, b"a"))


async def test_a_stream_that_is_closed_drops_what_comes():
    async with (
        client_of_stranger() as (client, stranger),
        client.server_stream(COUNT, b"") as replies,
    ):
        await stranger.frame()
        await stranger.send(data(1, b"a"))
        await stranger.drain()
        await replies.aclose()
        await stranger.send(data(1, b"b"))
        await stranger.drain()
        assert client.statistics().unread_size == 0
        with pytest.raises(trio.ClosedResourceError):
            await replies.receive()


@BOTH
async def test_producers_wait_for_room(over):
    """A server that does not read stops the sender, and costs no more memory than the outbox."""
    config = TtrpcConfig(limits=TtrpcLimits(max_outbox_size=10_000))
    over = "lockstep" if over == "memory" else over
    async with client_of_stranger(over=over, config=config) as (client, stranger):
        stranger.pause()
        async with client.client_stream(JOIN) as call, trio.open_nursery() as nursery:
            sent = []

            async def send():
                for number in range(5000):
                    await call.send(bytes(1000))
                    sent.append(number)

            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            assert 0 < len(sent) < 1000
            assert client.statistics().queued_size <= 11_100
            stranger.resume()
        assert len(await stranger.drain()) == 5002
