"""Every interaction, cancelled at every point, on both sides: nothing is left behind."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio.config import ConnectionConfig
from rsocket_trio.payload import Payload
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.testing.in_memory import connected_pair
from rsocket_trio.testing.leaks import all_tasks, assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers

SMALL = ConnectionConfig(fragment_size=64, prefetch=4)
LARGE = Payload(b"d" * 300, b"m" * 100)


class Waiting(KnownAnswers):
    """Handlers that wait at every step, and note the resources they have not released."""

    def __init__(self):
        super().__init__()
        self.open = 0

    async def request_response(self, payload):
        self.open += 1
        try:
            await trio.lowlevel.checkpoint()
            return payload
        finally:
            self.open -= 1

    async def fire_and_forget(self, payload):
        await self.request_response(payload)

    async def metadata_push(self, metadata):
        await self.request_response(Payload(metadata))

    async def request_stream(self, payload):
        self.open += 1
        try:
            for number in range(20):
                await trio.lowlevel.checkpoint()
                yield Payload(b"%d" % number)
        finally:
            self.open -= 1

    async def request_channel(self, payload, payloads):
        self.open += 1
        try:
            async for item in payloads:
                await trio.lowlevel.checkpoint()
                yield item
        finally:
            self.open -= 1


async def source():
    for number in range(10):
        await trio.lowlevel.checkpoint()
        yield Payload(b"%d" % number)


async def response(requester):
    assert await requester.request_response(Payload(b"r")) == Payload(b"r")


async def large_response(requester):
    assert await requester.request_response(LARGE) == LARGE


async def forget(requester):
    await requester.fire_and_forget(LARGE)


async def push(requester):
    await requester.metadata_push(b"p")


async def stream(requester):
    async with requester.request_stream(Payload(b"s")) as items:
        assert len([item async for item in items]) == 20


async def channel(requester):
    async with requester.request_channel(source()) as items:
        assert [item.data async for item in items] == [b"%d" % number for number in range(10)]


INTERACTIONS = [response, large_response, forget, push, stream, channel]


@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
@pytest.mark.parametrize("by_server", [False, True], ids=["client asks", "server asks"])
@pytest.mark.parametrize("interaction", INTERACTIONS)
async def test_an_interaction_may_be_cancelled_at_any_point(interaction, by_server, every_task):
    """No stream, handler or task is left, and the next request works."""
    responder = Waiting()
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return responder

    async with connected_pair(acceptor, client_responder=responder, config=SMALL) as client:
        requesters.append(client)
        asking = requesters[0 if by_server else 1]
        await interaction(asking)
        await trio.testing.wait_all_tasks_blocked()
        tasks = len(all_tasks())

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            assert responder.open == 0
            for requester in requesters:
                statistics = requester.statistics()
                assert statistics.open_streams == 0
                assert statistics.active_requests == 0
                assert statistics.unread_size == 0
                assert statistics.queued_size == 0
            # A few workers may be idle; they belong to the connection, and end with it.
            assert len(all_tasks()) <= tasks + 8
            await interaction(asking)
            await trio.testing.wait_all_tasks_blocked()

        places = await cancel_everywhere(partial(interaction, asking), check, every_task=every_task)
        assert places >= 1


@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
async def test_connecting_may_be_cancelled_at_any_point(every_task):
    """Set-up, use and close of a connection leave nothing behind when cancelled."""

    async def connect_and_ask():
        async with connected_pair(Waiting(), config=SMALL) as requester:
            await response(requester)

    async def nothing_more():
        await trio.testing.wait_all_tasks_blocked()

    async with assert_no_leaks():
        await cancel_everywhere(connect_and_ask, nothing_more, every_task=every_task)
