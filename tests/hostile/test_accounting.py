"""What a peer begins and abandons is given back, or limits would close on an honest connection."""

from __future__ import annotations

import pytest

from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.testing.in_memory import frame_peer_client
from rsocket_trio.testing.peer import KnownAnswers

CONFIG = ConnectionConfig(
    limits=Limits(
        max_streams=3,
        max_payload_size=500,
        max_reassembly_size=1000,
        max_requests_size=1000,
        max_unread_size=1000,
    )
)
DATA = b"x" * 60


def part(stream_id: int, size: int = 1) -> PayloadFrame:
    return PayloadFrame(stream_id, next=True, follows=True, data=DATA * size)


def failed(stream_id: int) -> ErrorFrame:
    return ErrorFrame(stream_id, ErrorCode.APPLICATION_ERROR)


ABANDONED = {
    "a request": lambda i: [RequestResponseFrame(i, data=b"never"), CancelFrame(i)],
    "a stream": lambda i: [RequestStreamFrame(i, 1, data=b"5"), CancelFrame(i)],
    "a channel": lambda i: [RequestChannelFrame(i, 1, data=DATA), CancelFrame(i)],
    "a channel, by error": lambda i: [RequestChannelFrame(i, 1, data=DATA), failed(i)],
    "a channel's item": lambda i: [
        RequestChannelFrame(i, 1),
        PayloadFrame(i, next=True, data=DATA),
        CancelFrame(i),
    ],
    "a channel's credit, overrun": lambda i: [
        RequestChannelFrame(i, 1),
        *[PayloadFrame(i, next=True, data=DATA)] * 300,
        CancelFrame(i),
    ],
    "a first fragment": lambda i: [RequestResponseFrame(i, follows=True), CancelFrame(i)],
    "fragments": lambda i: [RequestResponseFrame(i, follows=True, data=DATA), CancelFrame(i)],
    "fragments, by error": lambda i: [
        RequestResponseFrame(i, follows=True, data=DATA),
        failed(i),
    ],
    "fragments, completed": lambda i: [
        RequestFnfFrame(i, follows=True, data=DATA),
        PayloadFrame(i, complete=True),
    ],
    "fragments past the limit": lambda i: [
        RequestFnfFrame(i, follows=True, data=DATA),
        *[part(i, 2)] * 6,
    ],
    "an item's fragments": lambda i: [RequestChannelFrame(i, 1), part(i), CancelFrame(i)],
    "an item's fragments, by error": lambda i: [RequestChannelFrame(i, 1), part(i), failed(i)],
    "an item's fragments, completed": lambda i: [
        RequestChannelFrame(i, 1),
        part(i),
        PayloadFrame(i, complete=True),
        CancelFrame(i),
    ],
    "an item's fragments past the limit": lambda i: [
        RequestChannelFrame(i, 1),
        *[part(i, 2)] * 6,
    ],
}


@pytest.mark.parametrize("in_one_batch", [True, False], ids=["at once", "one by one"])
@pytest.mark.parametrize("name", ABANDONED)
async def test_what_is_abandoned_is_given_back(name, in_one_batch):
    """A hundred times begun and abandoned: then the connection's limits are as free as before."""
    requesters = []

    async def acceptor(setup, requester):
        requesters.append(requester)
        return KnownAnswers()

    async with frame_peer_client(acceptor, config=CONFIG) as peer:
        for stream_id in range(1, 200, 2):
            frames = ABANDONED[name](stream_id)
            for batch in [frames] if in_one_batch else [[frame] for frame in frames]:
                await peer.send(*batch)
                if not in_one_batch and len(frames) < 10:
                    await peer.drain()
            await peer.drain()

        statistics = requesters[0].statistics()
        assert (statistics.open_streams, statistics.running_requests) == (0, 0)
        assert (statistics.unread, statistics.queued) == (0, 0)

        # As much as the limits allow, of each kind.
        await peer.send(
            *(RequestResponseFrame(i, follows=True, data=DATA * 5) for i in (301, 303, 305)),
            *(PayloadFrame(i, next=True, data=b"!") for i in (301, 303, 305)),
        )
        answers = [frame.data for frame in await peer.drain()]
        assert answers == [DATA * 5 + b"!"] * 3
        await peer.send(RequestChannelFrame(307, 9, complete=True, data=DATA * 16))
        frames = [frame for frame in await peer.drain() if not isinstance(frame, RequestNFrame)]
        assert frames[0].data == DATA * 16


async def test_a_first_item_past_the_limit_ends_its_channel_only():
    """A REQUEST_CHANNEL whose own item is past the limit of unread bytes is an error of it."""
    async with frame_peer_client(KnownAnswers(), config=CONFIG) as peer:
        await peer.send(RequestChannelFrame(1, 1, data=b"x" * 1001))
        error = await peer.receive(ErrorFrame)
        assert error.stream_id == 1
        await peer.expect_alive()
