"""Payloads in chunks, cancelled at every point, on both ends: they leave no trace."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import BodyResponder, ConnectionConfig, Payload, Responder, StreamedPayload
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.testing.in_memory import connected_pair

SMALL = ConnectionConfig(fragment_size=128)


class Sources:
    """Sources of chunks, and how many of them are open."""

    def __init__(self):
        self.open = 0

    async def chunks(self):
        self.open += 1
        try:
            for _ in range(5):
                await trio.lowlevel.checkpoint()
                yield b"x" * 100
        finally:
            self.open -= 1


class Echo(Responder):
    """Reads bodies while they arrive, and answers in chunks."""

    def __init__(self, sources):
        self.sources = sources

    def body_responder(self, interaction, metadata):
        return EchoOfBodies(self.sources)

    async def request_stream(self, payload):
        for _ in range(2):
            yield StreamedPayload(self.sources.chunks(), b"m" * 200)


class EchoOfBodies(BodyResponder):
    def __init__(self, sources):
        self.sources = sources

    async def request_response(self, body):
        assert len(b"".join([chunk async for chunk in body])) == 500
        return StreamedPayload(self.sources.chunks(), b"m" * 200)

    async def fire_and_forget(self, body):
        await self.request_response(body)


async def there(requester, sources):
    answer = await requester.request_response(StreamedPayload(sources.chunks()))
    assert answer == Payload(b"x" * 500, b"m" * 200)


async def and_back(requester, sources):
    async with requester.request_response_streamed(StreamedPayload(sources.chunks())) as body:
        assert len(b"".join([chunk async for chunk in body])) == 500


async def forget(requester, sources):
    await requester.fire_and_forget(StreamedPayload(sources.chunks()))


async def stream(requester, sources):
    async with requester.request_stream() as items:
        assert [len(item.data) async for item in items] == [500, 500]


@pytest.mark.parametrize("every_task", [False, True], ids=["own steps", "all steps"])
@pytest.mark.parametrize("interaction", [there, and_back, forget, stream])
async def test_a_body_may_be_cancelled_at_any_point(interaction, every_task):
    """No stream, source or byte is left, and the next request works."""
    sources = Sources()
    servers = []

    async def acceptor(setup, requester):
        servers.append(requester)
        return Echo(sources)

    async with connected_pair(acceptor, config=SMALL) as requester:

        async def check():
            await trio.testing.wait_all_tasks_blocked()
            assert sources.open == 0
            for end in (requester, servers[0]):
                statistics = end.statistics()
                assert statistics.open_streams == 0
                assert statistics.active_requests == 0
                assert statistics.unread_size == 0
                assert statistics.queued_size == 0
            await interaction(requester, sources)
            await trio.testing.wait_all_tasks_blocked()

        ask = partial(interaction, requester, sources)
        assert await cancel_everywhere(ask, check, every_task=every_task) >= 1
