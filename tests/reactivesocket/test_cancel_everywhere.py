"""Every interaction over the draft, cancelled at every point, on both sides."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, Payload, Responder, connect, serve_transport
from rsocket_trio.reactivesocket import ReactiveSocketTransport, request_subscription
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.transports.memory import memory_transport_pair

SMALL = ConnectionConfig(fragment_size=64, prefetch=4)
LARGE = Payload(b"d" * 300, b"m" * 100)


class Waiting(Responder):
    """Handlers that wait at every step."""

    async def request_response(self, payload):
        await trio.lowlevel.checkpoint()
        return payload

    async def fire_and_forget(self, payload):
        await trio.lowlevel.checkpoint()

    async def request_stream(self, payload):
        for number in range(10):
            await trio.lowlevel.checkpoint()
            yield Payload(b"%d" % number)

    async def request_channel(self, payload, payloads):
        async for item in payloads:
            await trio.lowlevel.checkpoint()
            yield item


async def source():
    for number in range(10):
        await trio.lowlevel.checkpoint()
        yield Payload(b"%d" % number)


async def response(requester):
    assert await requester.request_response(LARGE) == LARGE


async def forget(requester):
    await requester.fire_and_forget(LARGE)


async def stream(requester):
    async with requester.request_stream(LARGE) as items:
        assert len([item async for item in items]) == 10


async def subscription(requester):
    async with request_subscription(requester, LARGE) as items:
        for _ in range(5):
            await items.receive()


async def channel(requester):
    async with requester.request_channel(source(), payload=LARGE) as items:
        assert len([item async for item in items]) == 11


@pytest.mark.parametrize("by_server", [False, True], ids=["client asks", "server asks"])
@pytest.mark.parametrize("interaction", [response, forget, stream, subscription, channel])
async def test_an_interaction_may_be_cancelled_at_any_point(interaction, by_server, nursery):
    """Both tables of streams are empty afterwards, and the next request works."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return Waiting()

    ours, theirs = memory_transport_pair()
    ends = [
        ReactiveSocketTransport(ours, client=True),
        ReactiveSocketTransport(theirs, client=False),
    ]
    nursery.start_soon(partial(serve_transport, acceptor, ends[1], config=SMALL))
    async with connect(ends[0], responder=Waiting(), config=SMALL) as client:
        requesters.append(client)
        asking = requesters[0 if by_server else 1]

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            for requester in requesters:
                statistics = requester.statistics()
                assert statistics.open_streams == statistics.active_requests == 0
            for end in ends:
                table = end._incoming._table
                assert not table.by_wire
                assert not table.by_engine
            await interaction(asking)
            await trio.testing.wait_all_tasks_blocked()

        await check()
        assert await cancel_everywhere(partial(interaction, asking), check) >= 1
