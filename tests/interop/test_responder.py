"""This package as the server and responder with known answers, the peers as clients."""

from __future__ import annotations

import pytest

from rsocket_trio import Payload

pytestmark = pytest.mark.interop

MEBIBYTE = bytes(range(256)) * 4096


async def test_request_response(stack, serving):
    """The peer gets its data and metadata back, and no metadata if it sent none."""
    async with serving(stack) as (client, _):
        assert await client.response(b"hello", b"meta") == (b"hello", b"meta")
        assert await client.response(b"bare") == (b"bare", None)


async def test_many_requests_at_once(stack, serving):
    """A hundred requests of the peer in flight each get their own answer."""
    async with serving(stack) as (client, _):
        ids = [await client.start("request_response", b"%d" % number) for number in range(100)]
        for number, call in enumerate(ids):
            assert (await client.next_item(call))[0] == b"%d" % number


async def test_one_mebibyte(stack, serving):
    """A mebibyte comes as the peer sends it and goes back in fragments."""
    async with serving(stack) as (client, _):
        assert (await client.response(MEBIBYTE))[0] == MEBIBYTE


async def test_application_error(stack, serving):
    """Our error arrives there with its text, and the connection lives."""
    async with serving(stack) as (client, _):
        call = await client.start("request_response", b"error:no such thing")
        assert "no such thing" in await client.error(call)
        assert (await client.response(b"after"))[0] == b"after"


@pytest.mark.needs("to be completed without a value")
async def test_completion_without_a_payload(stack, serving):
    """The peer sees completion without a payload."""
    async with serving(stack) as (client, _):
        call = await client.start("request_response", b"empty")
        assert await client.items(call) == []


async def test_cancelled_request_response(stack, serving):
    """The peer's CANCEL cancels the handler, and the connection lives."""
    async with serving(stack) as (client, responder):
        call = await client.start("request_response", b"never")
        assert (await client.response(b"behind"))[0] == b"behind"
        await client.cancel(call)
        await responder.response_cancelled.wait()
        assert (await client.response(b"after"))[0] == b"after"


async def test_fire_and_forget(stack, serving):
    """The peer's message has arrived before its next request is answered."""
    async with serving(stack) as (client, _):
        call = await client.start("fire_and_forget", b"note")
        assert (await client.event(call))["event"] == "sent"
        assert (await client.response(b"last-fnf"))[0] == b"note"


async def test_metadata_push(stack, serving):
    """The peer's metadata arrive, also from rsocket-js, which does not set the M flag."""
    async with serving(stack) as (client, _):
        call = await client.start("metadata_push", metadata=b"pushed")
        assert (await client.event(call))["event"] == "sent"
        assert (await client.response(b"last-push"))[0] == b"pushed"


@pytest.mark.parametrize("count", [0, 1, 1000])
async def test_request_stream(stack, serving, count):
    """The peer gets all items of a stream in order, and its end."""
    async with serving(stack) as (client, _):
        call = await client.start("request_stream", b"%d" % count, initial_n=2**31 - 1)
        assert await client.items(call) == [b"%d" % number for number in range(count)]


async def test_stream_by_request_n(stack, serving):
    """The peer gets the requested items, and no more until it requests them."""
    async with serving(stack) as (client, _):
        call = await client.start("request_stream", b"5", initial_n=2)
        assert [(await client.next_item(call))[0] for _ in range(2)] == [b"0", b"1"]
        # The peer would report a further item before this one.
        other = await client.start("request_stream", b"1", initial_n=1)
        assert await client.items(other) == [b"0"]
        assert not client.pending(call)
        await client.request_n(call, 3)
        assert await client.items(call) == [b"2", b"3", b"4"]


async def test_cancelled_stream(stack, serving):
    """A stream that the peer cancels ends, and the connection lives."""
    async with serving(stack) as (client, _):
        call = await client.start("request_stream", b"1000000", initial_n=1)
        assert (await client.next_item(call))[0] == b"0"
        await client.cancel(call)
        assert (await client.response(b"after"))[0] == b"after"


async def test_request_channel(stack, serving):
    """The peer's channel is echoed in order and ends when the peer's source does."""
    sent = [b"%d" % number for number in range(300)]
    async with serving(stack) as (client, _):
        call = await client.start("request_channel", items=sent, initial_n=2**31 - 1, open=False)
        assert await client.items(call) == sent


async def test_channel_of_one_item(stack, serving):
    """A channel of one item, which rsocket-py completes in the request frame itself."""
    async with serving(stack) as (client, _):
        call = await client.start("request_channel", items=[b"only"], initial_n=10, open=False)
        assert await client.items(call) == [b"only"]


@pytest.mark.needs("items without data")
async def test_items_without_data(stack, serving):
    """Items without data are items too."""
    items = [b"a", b"", b"c", b""]
    async with serving(stack) as (client, _):
        call = await client.start("request_channel", items=items, initial_n=10, open=False)
        assert await client.items(call) == items


async def test_cancelled_channel(stack, serving):
    """The peer's CANCEL of a channel ends our half of it, and the connection lives."""
    async with serving(stack) as (client, responder):
        call = await client.start("request_channel", items=[b"once"], initial_n=10, open=True)
        while (event := await client.event(call))["event"] != "next":
            assert event["event"] == "granted"
        await client.cancel(call)
        await responder.channel_cancelled.wait()
        assert (await client.response(b"after"))[0] == b"after"


async def test_the_client_answers_too(stack, serving):
    """Our server sends requests to the peer's client: both ways on one connection."""
    async with serving(stack) as (client, responder):
        await client.response(b"the connection is accepted")
        requester = responder.requester
        reply = await requester.request_response(Payload(b"how are you?"))
        assert reply.data == b"how are you?"
        async with requester.request_stream(Payload(b"20"), prefetch=4) as stream:
            assert [item.data async for item in stream] == [b"%d" % n for n in range(20)]
        sent = [Payload(b"a"), Payload(b"b"), Payload(b"c")]
        async with requester.request_channel(sent) as echo:
            assert [item.data async for item in echo] == [b"a", b"b", b"c"]


async def test_connection_loss(stack, serving):
    """When the peer's process dies, its handlers are cancelled."""
    async with serving(stack) as (client, responder):
        await client.start("request_response", b"never")
        await client.response(b"behind")
        await client.kill()
        await responder.response_cancelled.wait()


async def test_the_peers_close_cancels_its_handlers(stack, serving):
    async with serving(stack) as (client, responder):
        await client.start("request_response", b"never")
        await client.response(b"behind")
        await client.close()
        await responder.response_cancelled.wait()


async def test_the_peer_notices_our_close(stack, serving):
    """The peer notices that our server is gone."""
    async with serving(stack) as (client, responder):
        await client.response(b"hello")
        await responder.server.aclose(grace=0)
        assert (await client.event())["event"] == "closed"
