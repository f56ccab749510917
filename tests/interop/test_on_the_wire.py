"""Facts that only the wire shows: demand, fragments, CANCEL, KEEPALIVE and cut connections.

A proxy between this package and the peer records every frame; over TCP only.
"""

from __future__ import annotations

import pytest
import trio

import rsocket_trio
from rsocket_trio import ConnectionConfig, Payload
from rsocket_trio.frames import (
    CancelFrame,
    KeepaliveFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)

pytestmark = pytest.mark.interop

CLIENT = "client"
SERVER = "server"
SMALL_FRAMES = ConnectionConfig(fragment_size=1024)
LARGE = Payload(bytes(range(256)) * 400, b"metadata" * 400)


def assert_demand_was_kept(wire, by: str, items: int) -> None:
    """Check that a side sent this number of items, and never more than its credit."""
    on_the_way = wire.on_the_way(by)
    assert len(on_the_way) == items
    assert all(sent <= granted for sent, granted in on_the_way)


async def test_demand_of_our_stream(tcp_stack, wire_to):
    """The peer's items stay within our demand, and we never grant more than the window."""
    async with tcp_stack.serve() as (uri, _), wire_to(uri) as wire:
        async with rsocket_trio.connect(wire.uri) as requester:
            async with requester.request_stream(Payload(b"100"), prefetch=8) as stream:
                assert len([item async for item in stream]) == 100
    assert_demand_was_kept(wire, SERVER, 100)
    assert all(granted - sent < 8 for sent, granted in wire.on_the_way(SERVER))


async def test_demand_of_the_peers_stream(tcp_stack, served, wire_to):
    """We send as many items as the peer's client requested, and go on when it asks for more."""
    async with (
        served() as (uri, _),
        wire_to(uri) as wire,
        tcp_stack.connect(wire.uri) as client,
    ):
        call = await client.start("request_stream", b"100", initial_n=3)
        for number in range(3):
            assert (await client.next_item(call))[0] == b"%d" % number
        await client.response(b"had more been sent, it would be on record now")
        assert len(wire.on_the_way(SERVER)) == 3
        await client.request_n(call, 90)
        await client.request_n(call, 7)
        assert await client.items(call) == [b"%d" % number for number in range(3, 100)]
    assert_demand_was_kept(wire, SERVER, 100)


async def test_demand_of_our_channel(tcp_stack, wire_to):
    """Both directions of a channel we open keep to the other side's demand."""
    sent = [Payload(b"%d" % number) for number in range(100)]
    async with tcp_stack.serve() as (uri, _), wire_to(uri) as wire:
        async with rsocket_trio.connect(wire.uri) as requester:
            async with requester.request_channel(sent, prefetch=8) as echo:
                assert len([item async for item in echo]) == 100
    # The first item was in the REQUEST_CHANNEL frame.
    assert_demand_was_kept(wire, CLIENT, 99)
    assert_demand_was_kept(wire, SERVER, 100)


async def test_demand_of_the_peers_channel(tcp_stack, served, wire_to):
    """Both directions of a channel the peer opens keep to the other side's demand."""
    items = [b"%d" % number for number in range(100)]
    async with (
        served() as (uri, _),
        wire_to(uri) as wire,
        tcp_stack.connect(wire.uri) as client,
    ):
        call = await client.start("request_channel", items=items, initial_n=40, open=False)
        await wire.wait_for(CLIENT, PayloadFrame, 99)
        await client.response(b"had more been echoed than asked for, it would be on record now")
        assert len(wire.on_the_way(SERVER)) == 40
        await client.request_n(call, 60)
        assert await client.items(call) == items
    assert_demand_was_kept(wire, CLIENT, 99)
    assert_demand_was_kept(wire, SERVER, 100)


async def test_our_cancel(tcp_stack, wire_to):
    """Leaving a request, a stream or a channel sends one CANCEL each."""
    send, receive = trio.open_memory_channel[Payload](1)
    async with tcp_stack.serve() as (uri, _), wire_to(uri) as wire:
        async with rsocket_trio.connect(wire.uri) as requester:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(requester.request_response, Payload(b"never"))
                [request] = await wire.wait_for(CLIENT, RequestResponseFrame)
                nursery.cancel_scope.cancel()
            async with requester.request_stream(Payload(b"1000"), prefetch=4) as stream:
                await stream.receive()
            with send:
                async with requester.request_channel(receive, prefetch=4) as echo:
                    await send.send(Payload(b"once"))
                    await echo.receive()
            cancels = await wire.wait_for(CLIENT, CancelFrame, 3)
            await requester.request_response(Payload(b"after"))
    [stream_request] = wire.frames(CLIENT, RequestStreamFrame)
    [channel_request] = wire.frames(CLIENT, RequestChannelFrame)
    opened = [request.stream_id, stream_request.stream_id, channel_request.stream_id]
    assert [cancel.stream_id for cancel in cancels] == opened
    assert wire.frames(CLIENT, CancelFrame) == cancels


async def test_the_peers_cancel(tcp_stack, served, wire_to):
    """The peer's CANCEL of a stream stops our items."""
    async with (
        served() as (uri, _),
        wire_to(uri) as wire,
        tcp_stack.connect(wire.uri) as client,
    ):
        call = await client.start("request_stream", b"1000000", initial_n=5)
        for _ in range(5):
            await client.next_item(call)
        await client.cancel(call)
        await wire.wait_for(CLIENT, CancelFrame)
        await client.request_n(call, 1000)
        await client.response(b"after")
    [request] = wire.frames(CLIENT, RequestStreamFrame)
    sent = [f for f in wire.frames(SERVER) if f.stream_id == request.stream_id]
    assert [type(frame) for frame in sent] == [PayloadFrame] * 5


async def test_our_fragments(tcp_stack, wire_to):
    """A request above the fragment size leaves in frames within it; the peer joins them."""
    async with tcp_stack.serve() as (uri, _), wire_to(uri) as wire:
        async with rsocket_trio.connect(wire.uri, config=SMALL_FRAMES) as requester:
            reply = await requester.request_response(LARGE)
            await requester.fire_and_forget(LARGE)
            remembered = await requester.request_response(Payload(b"last-fnf"))
            items = [LARGE, Payload(b"short"), LARGE]
            async with requester.request_channel(items) as echo:
                echoed = [item.data async for item in echo]
    assert reply.data == remembered.data == LARGE.data
    assert echoed == [item.data for item in items]
    assert max(wire.sizes(CLIENT)) <= 1024
    assert wire.frames(CLIENT, RequestResponseFrame)[0].follows


async def test_our_fragments_of_answers(tcp_stack, served, wire_to):
    """An answer above the fragment size leaves in frames within it; the peer joins them."""
    async with (
        served(config=SMALL_FRAMES) as (uri, _),
        wire_to(uri) as wire,
        tcp_stack.connect(wire.uri) as client,
    ):
        assert await client.response(LARGE.data, LARGE.metadata) == (LARGE.data, LARGE.metadata)
        items = [LARGE.data, b"short", LARGE.data]
        call = await client.start("request_channel", items=items, initial_n=10, open=False)
        assert await client.items(call) == items
    assert max(wire.sizes(SERVER)) <= 1024
    assert any(frame.follows for frame in wire.frames(SERVER, PayloadFrame))


@pytest.mark.needs("to send fragments")
async def test_the_peers_fragments_of_answers(tcp_stack, wire_to):
    """An answer that the peer sends in fragments is one payload here, data and metadata."""
    async with tcp_stack.serve(512) as (uri, _), wire_to(uri) as wire:
        async with rsocket_trio.connect(wire.uri) as requester:
            assert await requester.request_response(LARGE) == LARGE
            # One by one: rsocket-py mixes the fragments of payloads that wait on one stream.
            send, receive = trio.open_memory_channel[Payload](0)
            async with requester.request_channel(receive) as echo:
                with send:
                    for item in LARGE, Payload(b"short"), LARGE:
                        await send.send(item)
                        assert await echo.receive() == item
                assert [item async for item in echo] == []
    assert max(wire.sizes(SERVER)) <= 512
    assert any(frame.follows for frame in wire.frames(SERVER, PayloadFrame))


@pytest.mark.needs("to send fragments")
async def test_the_peers_fragments(tcp_stack, served, wire_to):
    """Requests that the peer sends in fragments are one payload each here."""
    async with (
        served() as (uri, _),
        wire_to(uri) as wire,
        tcp_stack.connect(wire.uri, 20_000, 512) as client,
    ):
        assert await client.response(LARGE.data, LARGE.metadata) == (LARGE.data, LARGE.metadata)
        forgotten = await client.start("fire_and_forget", LARGE.data)
        # Its last fragment has left: a later request could overtake the others.
        assert (await client.event(forgotten))["event"] == "sent"
        assert (await client.response(b"last-fnf"))[0] == LARGE.data
        # One item: rsocket-py mixes the fragments of payloads that wait on one stream.
        call = await client.start("request_channel", items=[LARGE.data], initial_n=10, open=True)
        while (event := await client.event(call))["event"] != "next":
            assert event["event"] == "granted"
        assert bytes.fromhex(event["data"]) == LARGE.data
    assert max(wire.sizes(CLIENT)) <= 512
    assert wire.frames(CLIENT, RequestResponseFrame)[0].follows


async def test_our_keepalive(tcp_stack, wire_to):
    """The peer answers each KEEPALIVE of ours with its data."""
    config = ConnectionConfig(keepalive_interval=0.05)
    async with tcp_stack.serve() as (uri, _), wire_to(uri) as wire:
        async with rsocket_trio.connect(wire.uri, config=config):
            # The first one confirms the SETUP; the others come by the clock. rsocket-java's server
            # asks too: that is neither an answer nor a KEEPALIVE of ours.
            answers = await wire.wait_for(
                SERVER, KeepaliveFrame, 3, where=lambda frame: not frame.respond
            )
    asked = [frame for frame in wire.frames(CLIENT, KeepaliveFrame) if frame.respond]
    assert [frame.data for frame in answers] == [frame.data for frame in asked[: len(answers)]]


async def test_the_peers_keepalive(tcp_stack, served, wire_to):
    """We answer each KEEPALIVE of the peer that has R."""
    async with (
        served() as (uri, _),
        wire_to(uri) as wire,
        tcp_stack.connect(wire.uri, 50) as client,
    ):
        answers = await wire.wait_for(SERVER, KeepaliveFrame, 3)
        assert not any(frame.respond for frame in answers)
        assert (await client.response(b"alive"))[0] == b"alive"


async def test_a_cut_towards_the_peers_server(tcp_stack, wire_to):
    """A cut connection ends all waiting calls with ConnectionClosed."""
    async with (
        tcp_stack.serve() as (uri, _),
        wire_to(uri) as wire,
        rsocket_trio.connect(wire.uri) as requester,
    ):

        async def ask() -> None:
            with pytest.raises(rsocket_trio.ConnectionClosed):
                await requester.request_response(Payload(b"never"))

        async def stream() -> None:
            async with requester.request_stream(Payload(b"10"), prefetch=0) as items:
                await items.receive()
                with pytest.raises(rsocket_trio.ConnectionClosed):
                    await items.receive()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            nursery.start_soon(stream)
            await wire.wait_for(CLIENT, RequestResponseFrame)
            await wire.wait_for(SERVER, PayloadFrame)
            await wire.cut()
        with pytest.raises(rsocket_trio.ConnectionClosed):
            await requester.request_response(Payload(b"anybody there?"))


async def test_a_cut_towards_the_peers_client(tcp_stack, served, wire_to):
    """A cut connection cancels its handlers; the server goes on."""
    async with served() as (uri, responder), wire_to(uri) as wire:
        async with tcp_stack.connect(wire.uri) as client:
            await client.start("request_response", b"never")
            await wire.wait_for(CLIENT, RequestResponseFrame)
            await client.response(b"behind")
            await wire.cut()
            await responder.response_cancelled.wait()
            assert (await client.event())["event"] == "closed"
        async with tcp_stack.connect(wire.uri) as client:
            assert (await client.response(b"again"))[0] == b"again"
