"""This package as the client and requester, the peers as servers with known answers."""

from __future__ import annotations

import pytest
import trio

import rsocket_trio
from rsocket_trio import Payload

pytestmark = pytest.mark.interop

MEBIBYTE = bytes(range(256)) * 4096


async def test_request_response(stack):
    """The peer's echo returns the data."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        assert await requester.request_response(Payload(b"hello")) == Payload(b"hello")


@pytest.mark.needs("metadata in answers")
async def test_metadata_of_a_response(stack):
    """The peer's echo returns the metadata, and none if none was sent."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        payload = Payload(b"hello", b"meta")
        assert await requester.request_response(payload) == payload
        assert await requester.request_response(Payload(b"bare")) == Payload(b"bare", None)


async def test_metadata_of_a_request(stack):
    """Metadata do not change the data, even if the peer does not return them."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        for metadata in b"meta", b"":
            reply = await requester.request_response(Payload(b"hello", metadata))
            assert reply.data == b"hello"


async def test_many_requests_at_once(stack):
    """A hundred requests in flight each get their own answer."""
    replies: dict[int, Payload] = {}

    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:

        async def ask(number: int) -> None:
            replies[number] = await requester.request_response(Payload(b"%d" % number))

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(ask, number)
    assert replies == {number: Payload(b"%d" % number) for number in range(100)}


async def test_one_mebibyte(stack):
    """A mebibyte is sent in fragments and comes back as the peer sends it."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        assert (await requester.request_response(Payload(MEBIBYTE))).data == MEBIBYTE


async def test_application_error(stack):
    """The peer's error arrives with its code and text, and the connection lives."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        with pytest.raises(rsocket_trio.ApplicationError) as caught:
            await requester.request_response(Payload(b"error:no such thing"))
        assert caught.value.message == "no such thing"
        assert await requester.request_response(Payload(b"after")) == Payload(b"after")


@pytest.mark.needs("to complete without a value")
async def test_completion_without_a_payload(stack):
    """A response completed without a payload is None."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        assert await requester.request_response(Payload(b"empty")) is None


async def test_cancelled_request_response(stack):
    """The connection stays usable, and the next answer goes to the right call."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(requester.request_response, Payload(b"never"))
            # This is answered behind it on the same connection: so the first one was sent.
            await requester.request_response(Payload(b"second"))
            nursery.cancel_scope.cancel()
        assert await requester.request_response(Payload(b"third")) == Payload(b"third")


async def test_fire_and_forget(stack):
    """The peer has the message before it answers the next request."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        await requester.fire_and_forget(Payload(b"note", b"meta"))
        assert await requester.request_response(Payload(b"last-fnf")) == Payload(b"note")


async def test_metadata_push(stack):
    """Metadata pushed over the connection arrives."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        await requester.metadata_push(b"pushed")
        assert await requester.request_response(Payload(b"last-push")) == Payload(b"pushed")


@pytest.mark.parametrize("count", [0, 1, 1000])
async def test_request_stream(stack, count):
    """A stream brings all its items in order and ends."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        async with requester.request_stream(Payload(b"%d" % count), prefetch=16) as stream:
            items = [item.data async for item in stream]
        assert items == [b"%d" % number for number in range(count)]


async def test_manual_demand(stack):
    """With manual demand the peer sends the requested items, and waits for more demand."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        demand = {"prefetch": 0, "initial_request_n": 2}
        async with requester.request_stream(Payload(b"5"), **demand) as stream:
            assert [(await stream.receive()).data for _ in range(2)] == [b"0", b"1"]
            # A further item would be here before the answer to this request.
            await requester.request_response(Payload(b"behind"))
            with pytest.raises(trio.WouldBlock):
                stream.receive_nowait()
            stream.request_n(3)
            assert [item.data async for item in stream] == [b"2", b"3", b"4"]


async def test_leaving_a_stream_early(stack):
    """This cancels the stream at the peer: it sends no more, and the connection lives."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        async with requester.request_stream(Payload(b"1000000"), prefetch=8) as stream:
            assert (await stream.receive()).data == b"0"
        assert await requester.request_response(Payload(b"after")) == Payload(b"after")


async def test_request_channel(stack):
    """A channel's echo returns every item in order and ends when the source does."""
    sent = [Payload(b"%d" % number) for number in range(300)]
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        async with requester.request_channel(sent, prefetch=16) as echo:
            received = [item.data async for item in echo]
    assert received == [item.data for item in sent]


async def test_channel_of_one_item(stack):
    """A channel whose source has one item."""
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        async with requester.request_channel([Payload(b"only")]) as echo:
            assert [item.data async for item in echo] == [b"only"]


@pytest.mark.needs("items without data")
async def test_items_without_data(stack):
    """Items without data are items too."""
    sent = [Payload(b"a"), Payload(), Payload(b"c"), Payload()]
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        async with requester.request_channel(sent) as echo:
            assert [item async for item in echo] == sent


@pytest.mark.needs("metadata in answers")
async def test_metadata_in_a_channel(stack):
    """Each item of a channel keeps its metadata, absent or present, both ways."""
    sent = [Payload(b"a", b"1"), Payload(b"b"), Payload(b"c", b"3")]
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        async with requester.request_channel(sent) as echo:
            assert [item async for item in echo] == sent


async def test_channel_item_by_item(stack):
    """A channel is a dialogue: each item is answered before the next one is sent."""
    send, receive = trio.open_memory_channel[Payload](0)
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        async with requester.request_channel(receive) as echo:
            with send:
                for number in range(5):
                    await send.send(Payload(b"%d" % number))
                    assert (await echo.receive()).data == b"%d" % number
            assert [item async for item in echo] == []


async def test_leaving_a_channel_early(stack):
    """This ends both directions, and the connection lives."""
    send, receive = trio.open_memory_channel[Payload](1)
    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        with send:
            async with requester.request_channel(receive) as echo:
                await send.send(Payload(b"once"))
                assert (await echo.receive()).data == b"once"
        assert await requester.request_response(Payload(b"after")) == Payload(b"after")


async def test_interactions_beside_each_other(stack):
    """A stream, a channel and requests on one connection do not affect each other."""

    async def count(requester: rsocket_trio.Requester) -> None:
        async with requester.request_stream(Payload(b"500"), prefetch=7) as stream:
            assert len([item async for item in stream]) == 500

    async def echo(requester: rsocket_trio.Requester) -> None:
        sent = [Payload(b"x%d" % number) for number in range(200)]
        async with requester.request_channel(sent, prefetch=5) as items:
            assert [item.data async for item in items] == [item.data for item in sent]

    async def ask(requester: rsocket_trio.Requester) -> None:
        for number in range(50):
            reply = await requester.request_response(Payload(b"%d" % number))
            assert reply == Payload(b"%d" % number)

    async with stack.serve() as (uri, _), rsocket_trio.connect(uri) as requester:
        async with trio.open_nursery() as nursery:
            for task in count, echo, ask:
                nursery.start_soon(task, requester)


async def test_the_peer_closes_when_we_leave(stack):
    """The close does not need its time limit."""
    # An hour: the peer's program does not run so long, see support/processes.py.
    config = rsocket_trio.ConnectionConfig(close_timeout=3600)
    async with stack.serve() as (uri, _):
        async with rsocket_trio.connect(uri, config=config) as requester:
            assert await requester.request_response(Payload(b"hello")) == Payload(b"hello")
        with pytest.raises(trio.ClosedResourceError):
            await requester.request_response(Payload(b"too late"))


async def test_connection_loss(stack):
    """When the peer's process dies, waiting calls and later ones get an error."""
    async with stack.serve() as (uri, peer), rsocket_trio.connect(uri) as requester:
        # The request itself grants one item.
        async with requester.request_stream(Payload(b"1000"), prefetch=0) as stream:
            assert (await stream.receive()).data == b"0"
            await peer.kill()
            with pytest.raises(rsocket_trio.ConnectionClosed):
                await stream.receive()
        with pytest.raises(rsocket_trio.ConnectionClosed):
            await requester.request_response(Payload(b"anybody there?"))
