"""The peers with each other: if these fail, the fault is not in this package."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from rsocket_trio.frames import CancelFrame, PayloadFrame, RequestNFrame, SetupFrame

pytestmark = pytest.mark.interop

PAIRS = [
    ("rsocket-js", "rsocket-py"),
    ("rsocket-py", "rsocket-js"),
    ("rsocket-js", "rsocket-js"),
    ("rsocket-java", "rsocket-java"),
]


@pytest.fixture(params=PAIRS, ids=" to ".join)
def pair(request, harness, wire_to):
    """``async with pair() as (client, wire)``: one peer as the client of the other, over TCP."""
    over_tcp = {stack.package: stack for stack in harness.stacks() if stack.transport == "tcp"}
    client_stack, server_stack = (over_tcp[name] for name in request.param)
    harness.require(client_stack.package, server_stack.package)

    @asynccontextmanager
    async def run():
        async with (
            server_stack.serve() as (uri, _),
            wire_to(uri) as wire,
            client_stack.connect(wire.uri) as client,
        ):
            yield client, wire

    return run


async def test_requests_are_answered(pair):
    """Each peer's client gets the known answers of the other peer's server."""
    async with pair() as (client, wire):
        assert (await client.response(b"hello", b"meta"))[0] == b"hello"
        call = await client.start("request_response", b"error:oops")
        assert "oops" in await client.error(call)
        await client.start("fire_and_forget", b"note")
        assert (await client.response(b"last-fnf"))[0] == b"note"
        # Not metadata_push: rsocket-js does not set METADATA there, and rsocket-py needs it.
        assert len(wire.frames("client", SetupFrame)) == 1


async def test_demand_is_kept(pair):
    """Neither peer's responder sends more than its credit; the proxy sees every item."""
    async with pair() as (client, wire):
        call = await client.start("request_stream", b"10", initial_n=4)
        first = [(await client.next_item(call))[0] for _ in range(4)]
        assert first == [b"0", b"1", b"2", b"3"]
        await client.request_n(call, 6)
        assert await client.items(call) == [b"%d" % i for i in range(4, 10)]
        assert all(sent <= granted for sent, granted in wire.on_the_way("server"))
        assert [frame.n for frame in wire.frames("client", RequestNFrame)] == [6]


async def test_channels_echo(pair):
    """A channel between the peers carries every item back and completes both ways."""
    items = [b"a", b"b", b"c", b"d"]
    async with pair() as (client, wire):
        call = await client.start("request_channel", items=items, initial_n=10, open=False)
        assert await client.items(call) == items
        assert all(sent <= granted for sent, granted in wire.on_the_way("server"))


async def test_cancel_is_sent(pair):
    """Cancelling a request_response and a stream puts a CANCEL on the wire."""
    async with pair() as (client, wire):
        never = await client.start("request_response", b"never")
        stream = await client.start("request_stream", b"1000", initial_n=1)
        assert (await client.next_item(stream))[0] == b"0"
        await client.cancel(never)
        await client.cancel(stream)
        cancelled = await wire.wait_for("client", CancelFrame, 2)
        assert len({frame.stream_id for frame in cancelled}) == 2
        assert (await client.response(b"still here"))[0] == b"still here"
        assert len(wire.frames("server", PayloadFrame)) == 2
