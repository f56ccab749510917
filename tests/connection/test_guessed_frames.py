"""A peer that knows which ids we will use, and answers what has not left yet: nothing breaks.

Handlers wait for answers of this peer. The answers, errors and cancellations come in the same read
as the requests, so they may end a wait of which trio does not know.
"""

from __future__ import annotations

import random

import pytest
import trio

from rsocket_trio import ConnectionConfig, ConnectionStatistics, ErrorCode, Payload, Responder
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    KeepaliveFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.testing.in_memory import frame_peer_client, frame_peer_server

CONFIG = ConnectionConfig(close_timeout=0.1)
NOTHING = ConnectionStatistics(open_streams=0, active_requests=0, queued_size=0, unread_size=0)
ERRANDS = [b"respond", b"stream", b"channel", b"body", b"forget", b"closed", b"large", b"nothing"]


class Asks(Responder):
    """Handlers that ask the peer, as each request says, before they answer."""

    async def accept(self, setup, requester):
        self.requester = requester
        return self

    async def run(self, payload):
        requester = self.requester
        match payload.data:
            case b"respond":
                await requester.request_response()
            case b"stream":
                async with requester.request_stream(prefetch=2) as items:
                    async for _item in items:
                        pass
            case b"channel":
                async with requester.request_channel([Payload()] * 3, prefetch=2) as items:
                    async for _item in items:
                        pass
            case b"body":
                async with requester.request_response_streamed(Payload()) as body:
                    if body is not None:
                        async for _chunk in body:
                            pass
            case b"forget":
                await requester.fire_and_forget(Payload(bytes(100_000)))
            case b"closed":
                await requester.wait_closed()
            case b"large":
                return Payload(bytes(100_000))
        return payload

    request_response = run

    async def fire_and_forget(self, payload):
        await self.run(payload)

    async def request_stream(self, payload):
        for _ in range(3):
            yield await self.run(payload)

    async def request_channel(self, payload, payloads):
        async for item in payloads:
            yield await self.run(item)


def random_frames(chance, ids, first, theirs):
    """Requests, and frames for streams of ``theirs`` that do not exist yet, or do."""
    for _ in range(chance.choice([2, 5, 40])):
        data = chance.choice(ERRANDS)
        guess = theirs + 2 * chance.randrange(8)
        recent = max(first, ids[0] - 2 * chance.randint(1, 6))
        kind = chance.random()
        if kind < 0.4:
            stream_id = ids[0]
            ids[0] += 2
            yield chance.choice(
                [
                    *[RequestResponseFrame(stream_id, data=data)] * 6,
                    RequestFnfFrame(stream_id, data=data),
                    RequestStreamFrame(stream_id, 2, data=data),
                    RequestChannelFrame(stream_id, 2, data=data),
                ]
            )
        elif kind < 0.65:
            yield PayloadFrame(
                guess, next=True, complete=chance.random() < 0.5, follows=chance.random() < 0.2
            )
        elif kind < 0.98:
            yield chance.choice(
                [
                    ErrorFrame(guess, ErrorCode.APPLICATION_ERROR, b""),
                    CancelFrame(guess),
                    RequestNFrame(guess, 2),
                    CancelFrame(recent),
                    CancelFrame(recent),
                    PayloadFrame(recent, next=True, data=data, complete=chance.random() < 0.3),
                    RequestNFrame(recent, 2),
                    KeepaliveFrame(respond=True),
                ]
            )
        else:
            yield chance.choice([b"junk", ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"")])


async def attack(peer, chance, first, theirs):
    ids = [first]
    for _ in range(chance.randint(1, 6)):
        try:
            await peer.send(*random_frames(chance, ids, first, theirs))
        except trio.BrokenResourceError:
            return
        if chance.random() < 0.7:
            with trio.move_on_after(0.002):
                await peer.transport.receive_frames()


@pytest.mark.parametrize("seed", range(20))
async def test_a_client_that_guesses(seed):
    responder = Asks()
    async with frame_peer_client(responder, config=CONFIG) as peer:
        await attack(peer, random.Random(seed), 1, 2)
    assert responder.requester.statistics() == NOTHING


@pytest.mark.parametrize("seed", range(20))
async def test_a_server_that_guesses(seed):
    responder = Asks()
    async with frame_peer_server(responder, config=CONFIG) as (peer, _requester):
        await attack(peer, random.Random(seed), 2, 1)
    assert responder.requester.statistics() == NOTHING
