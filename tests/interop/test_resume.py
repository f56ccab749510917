"""Resumption with rsocket-java: the connection is cut in the middle of streams, in each role."""

from __future__ import annotations

import pytest

import rsocket_trio
from rsocket_trio import ClientResume, Payload, ServerResume
from rsocket_trio.frames import PayloadFrame, ResumeFrame, ResumeOkFrame, SetupFrame

pytestmark = pytest.mark.interop

CLIENT = "client"
SERVER = "server"
COUNT = 1000
ITEMS = [b"%d" % number for number in range(COUNT)]


@pytest.fixture
def java(harness):
    """rsocket-java over TCP."""
    harness.require("rsocket-java")
    (stack,) = (each for each in harness.stacks() if str(each) == "rsocket-java-tcp")
    return stack


def assert_resumed(wire, times: int) -> None:
    """There was one SETUP, and every RESUME was granted."""
    assert len(wire.frames(CLIENT, SetupFrame)) == 1
    assert len(wire.frames(CLIENT, ResumeFrame)) >= times
    assert len(wire.frames(SERVER, ResumeOkFrame)) == times


async def test_our_stream_goes_on(java, wire_to):
    """A stream of the peer that is cut twice brings each item once; later requests work."""
    async with (
        java.serve(0, "resume") as (uri, _),
        wire_to(uri) as wire,
        rsocket_trio.connect(wire.uri, resume=ClientResume()) as requester,
    ):
        async with requester.request_stream(Payload(b"%d" % COUNT), prefetch=64) as stream:
            received = []
            async for item in stream:
                received.append(item.data)
                if len(received) in {300, 600}:
                    await wire.cut()
        assert received == ITEMS
        assert await requester.request_response(Payload(b"after")) == Payload(b"after")
        assert_resumed(wire, 2)


async def test_our_channel_goes_on(java, wire_to):
    """A channel that is cut loses and doubles no item in either direction."""
    async with (
        java.serve(0, "resume") as (uri, _),
        wire_to(uri) as wire,
        rsocket_trio.connect(wire.uri, resume=ClientResume()) as requester,
    ):
        async with requester.request_channel(map(Payload, ITEMS), prefetch=64) as echo:
            received = []
            async for item in echo:
                received.append(item.data)
                if len(received) == 500:
                    await wire.cut()
        assert received == ITEMS
        assert_resumed(wire, 1)


async def test_the_peers_stream_goes_on(java, served, wire_to):
    """The peer reads a stream that is cut twice: each item comes once, and credit still works."""
    async with (
        served(resume=ServerResume()) as (uri, _),
        wire_to(uri) as wire,
        java.connect(wire.uri, 20_000, 0, "resume") as client,
    ):
        call = await client.start("request_stream", b"%d" % COUNT, initial_n=400)
        received = []
        for so_far in 400, 800:
            # The peer has not reported all granted items here: some may be lost on the way.
            await wire.wait_for(SERVER, PayloadFrame, so_far - 300)
            await wire.cut()
            await client.request_n(call, 400)
            while len(received) < so_far:
                received.append((await client.next_item(call))[0])
        assert received + await client.items(call) == ITEMS
        assert (await client.response(b"after"))[0] == b"after"
        assert_resumed(wire, 2)


async def test_the_peers_channel_goes_on(java, served, wire_to):
    """A channel of the peer that is cut loses and doubles no item in either direction."""
    async with (
        served(resume=ServerResume()) as (uri, _),
        wire_to(uri) as wire,
        java.connect(wire.uri, 20_000, 0, "resume") as client,
    ):
        call = await client.start("request_channel", items=ITEMS, initial_n=500, open=False)
        await wire.wait_for(SERVER, PayloadFrame, 100)
        await wire.cut()
        await client.request_n(call, COUNT)
        assert await client.items(call) == ITEMS
        assert_resumed(wire, 1)
