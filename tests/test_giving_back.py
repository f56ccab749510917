"""Unread data is given back to the limits, also when all goes well.

Data that a peer begins and abandons is in ``hostile/test_accounting.py``.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, Invalid, Limits, Payload, PayloadBody, Responder
from rsocket_trio.frames import (
    CancelFrame,
    KeepaliveFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_client

LIMIT = 5000
CONFIG = ConnectionConfig(
    fragment_size=128,
    limits=Limits(max_unread_size=LIMIT, max_reassembly_size=LIMIT, max_requests_size=LIMIT),
)
DATA = b"x" * 400


async def check_that_nothing_is_held(requesters):
    await trio.testing.wait_all_tasks_blocked()
    for requester in requesters:
        statistics = requester.statistics()
        assert (statistics.unread_size, statistics.queued_size) == (0, 0)
        assert (statistics.open_streams, statistics.active_requests) == (0, 0)


# -- the responding side


class Incurious(Responder):
    """Takes requests while they arrive, and reads at most a chunk of each."""

    def __init__(self, how):
        self.how = how
        self.whole = trio.Event()
        self.ends = trio.Event()
        self.requester = None

    async def accept(self, setup, requester):
        self.requester = requester
        return self

    def body_responder(self, interaction, metadata):
        return self

    async def end(self, body):
        assert isinstance(body, PayloadBody)
        match self.how:
            case "waits until it is whole":
                await self.whole.wait()
            case "reads a part":
                await body.receive()
            case "fails":
                raise Invalid("no")
            case "waits":
                await trio.sleep_forever()
            case "lingers":
                with trio.CancelScope(shield=True):
                    await self.ends.wait()
        return Payload(b"done")

    async def request_response(self, payload):
        return await self.end(payload)

    async def fire_and_forget(self, payload):
        await self.end(payload)

    async def request_stream(self, payload):
        yield Payload(b"item")
        yield await self.end(payload)


FIRST = {
    "response": lambda i: RequestResponseFrame(i, data=DATA, follows=True),
    "fire and forget": lambda i: RequestFnfFrame(i, data=DATA, follows=True),
    "stream": lambda i: RequestStreamFrame(i, 10, data=DATA, follows=True),
}


@pytest.mark.parametrize("interaction", FIRST)
@pytest.mark.parametrize(
    "how", ["ends at once", "waits until it is whole", "reads a part", "fails", "waits"]
)
async def test_a_request_that_is_not_read(how, interaction):
    """The unread bytes of a body are given back when its handler ends, in any way."""
    responder = Incurious(how)
    async with frame_peer_client(responder, config=CONFIG) as peer:
        for stream_id in range(1, 61, 2):
            responder.whole = trio.Event()
            await peer.send(FIRST[interaction](stream_id))
            await peer.drain()
            await peer.send(PayloadFrame(stream_id, next=True, follows=True, data=DATA))
            await peer.drain()
            await peer.send(PayloadFrame(stream_id, next=True, data=DATA))
            await peer.drain()
            responder.whole.set()
            if how == "waits":
                await peer.send(CancelFrame(stream_id))
            await peer.drain()
            await check_that_nothing_is_held([responder.requester])


@pytest.mark.parametrize("interaction", FIRST)
async def test_a_cancelled_handler_that_lingers(interaction):
    """Unread bytes are given back with the CANCEL, before the handler ends."""
    responder = Incurious("lingers")
    async with frame_peer_client(responder, config=CONFIG) as peer:
        await peer.send(FIRST[interaction](1))
        await peer.drain()
        assert responder.requester.statistics().unread_size > 0
        await peer.send(CancelFrame(1))
        await peer.drain()
        left = responder.requester.statistics().unread_size
        responder.ends.set()
        assert left == 0


@pytest.mark.parametrize("interaction", FIRST)
async def test_an_unread_request_is_given_back_with_its_connection(interaction):
    """A connection that ends while a body is unread holds nothing."""
    responder = Incurious("waits")
    async with frame_peer_client(responder, config=CONFIG) as peer:
        await peer.send(FIRST[interaction](1))
        await peer.drain()
        assert responder.requester.statistics().unread_size > 0
        await peer.aclose()
        await check_that_nothing_is_held([responder.requester])


# -- the requesting side


class Generous(Responder):
    """Answers with more than the request needs."""

    async def request_response(self, payload):
        return Payload(DATA * 3)

    async def request_stream(self, payload):
        for _ in range(5):
            yield Payload(DATA, b"metadata")

    async def request_channel(self, payload, payloads):
        async for item in self.request_stream(payload):
            yield item
        if payload.data == b"all":
            async for _ in payloads:
                pass


async def a_stream_left(requester):
    async with requester.request_stream() as items:
        await trio.testing.wait_all_tasks_blocked()
        assert items.statistics().unread == 5


async def a_stream_left_early(requester):
    async with requester.request_stream(prefetch=2) as items:
        await items.receive()


async def a_stream_closed(requester):
    async with requester.request_stream() as items:
        await items.receive()
        await items.aclose()
        await check_that_nothing_is_unread(requester)


async def a_stream_read(requester):
    async with requester.request_stream() as items:
        while items.statistics().received < 5:
            await items.receive()
        await items.receive_many()
        await check_that_nothing_is_unread(requester)


async def check_that_nothing_is_unread(requester):
    await trio.testing.wait_all_tasks_blocked()
    assert requester.statistics().unread_size == 0


async def a_channel_left(requester):
    async with requester.request_channel([Payload(b"few")]) as items:
        await trio.testing.wait_all_tasks_blocked()
        assert items.statistics().unread == 5


async def a_channel_whose_items_are_not_read(requester):
    """The handler ends without reading the items that were sent to it."""
    async with requester.request_channel([Payload(b"few"), *[Payload(DATA)] * 3]) as items:
        async for _ in items:
            pass


async def a_channel_whose_last_items_are_not_read(requester):
    async with requester.request_channel([Payload(b"all"), *[Payload(DATA)] * 3]) as items:
        await items.receive()
        items.close()


async def a_body_left(requester):
    async with requester.request_response_streamed() as body:
        await body.receive()


async def a_complete_body_left(requester):
    async with requester.request_response_streamed():
        await trio.testing.wait_all_tasks_blocked()
        assert requester.statistics().unread_size > 0


async def a_response_not_waited_for(requester):
    with trio.move_on_after(0):
        await requester.request_response()


@pytest.mark.parametrize(
    "ask",
    [
        a_stream_left,
        a_stream_left_early,
        a_stream_closed,
        a_stream_read,
        a_channel_left,
        a_channel_whose_items_are_not_read,
        a_channel_whose_last_items_are_not_read,
        a_body_left,
        a_complete_body_left,
        a_response_not_waited_for,
    ],
)
@pytest.mark.parametrize("by_server", [False, True], ids=["client asks", "server asks"])
async def test_unread_data_of_a_requester_is_given_back(ask, by_server):
    """Leaving a block early gives back what has arrived in it; so does the handler's end."""
    responder = Generous()
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return responder

    async with connected_pair(acceptor, client_responder=responder, config=CONFIG) as client:
        requesters.append(client)
        for _ in range(20):
            await ask(requesters[0 if by_server else 1])
            await check_that_nothing_is_held(requesters)
        # The same amount as before can be received.
        assert (await client.request_response()).data == DATA * 3


async def test_held_data_is_counted_for_each_connection():
    """Held data shows in the count: otherwise the tests above would prove nothing."""
    responder = Incurious("waits")
    async with frame_peer_client(responder, config=CONFIG) as peer:
        await peer.send(FIRST["response"](1), KeepaliveFrame(respond=True))
        await peer.drain()
        statistics = responder.requester.statistics()
        assert statistics.unread_size >= len(DATA)
        assert statistics.active_requests == 1
