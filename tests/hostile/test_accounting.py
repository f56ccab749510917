"""The cost of abandoned requests is given back, or limits would block an honest connection."""

from __future__ import annotations

import gc

import pytest
import trio

from rsocket_trio.account import ITEM_COST
from rsocket_trio.config import ConnectionConfig, Limits
from rsocket_trio.errors import CustomError, ErrorCode
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    MetadataPushFrame,
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
        max_active_requests=3,
        max_payload_size=500,
        max_reassembly_size=1000,
        max_requests_size=1000,
        max_unread_size=1100,
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
async def test_abandoned_requests_are_given_back(name, in_one_batch):
    """After a hundred abandoned requests the connection's limits are as free as before."""
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
        assert (statistics.open_streams, statistics.active_requests) == (0, 0)
        assert (statistics.unread_size, statistics.queued_size) == (0, 0)

        # As many as the limits allow, of each kind.
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
    """A REQUEST_CHANNEL whose first item is past the limit of unread bytes fails alone."""
    async with frame_peer_client(KnownAnswers(), config=CONFIG) as peer:
        await peer.send(RequestChannelFrame(1, 1, data=b"x" * 1101))
        error = await peer.receive(ErrorFrame)
        assert error.stream_id == 1
        await peer.expect_alive()


class Stuck(KnownAnswers):
    """Never reads its channel."""

    async def request_channel(self, payload, payloads):
        await trio.sleep_forever()
        yield payload


async def test_empty_items_count_as_unread():
    """Thousands of channels full of empty items have no bytes, but would cost gigabytes."""
    limits = Limits(max_unread_size=100 * ITEM_COST)
    async with frame_peer_client(Stuck(), config=ConnectionConfig(limits=limits)) as peer:
        for stream_id in (1, 3, 5):
            await peer.send(RequestChannelFrame(stream_id, 1))
            await peer.send(*[PayloadFrame(stream_id, next=True)] * 40)
        (error,) = [frame for frame in await peer.drain() if isinstance(frame, ErrorFrame)]
        assert (error.stream_id, error.code) == (5, ErrorCode.CANCELED)
        await peer.expect_alive()


async def test_items_of_a_closed_half_are_not_kept():
    """Fragments behind the end of their half are ignored, however many come."""
    async with frame_peer_client(Stuck(), config=CONFIG) as peer:
        await peer.send(RequestChannelFrame(1, 1, complete=True))
        await peer.send(*[part(1, 2)] * 20)
        assert [type(frame) for frame in await peer.drain()] == [RequestNFrame]
        await peer.expect_alive()


class SlowPushes(KnownAnswers):
    """Handles each METADATA_PUSH slowly."""

    async def metadata_push(self, metadata):
        await trio.sleep(1)


async def test_messages_do_not_keep_a_closing_connection(autojump_clock):
    """A peer that has sent CONNECTION_CLOSE, and sends on, is ended once its streams are over."""
    async with frame_peer_client(SlowPushes(), config=CONFIG) as peer:
        await peer.send(MetadataPushFrame(b"m"), ErrorFrame(0, ErrorCode.CONNECTION_CLOSE))
        with pytest.raises(trio.BrokenResourceError), trio.fail_after(10):
            while True:
                await trio.sleep(0.4)
                await peer.send(MetadataPushFrame(b"m"))


class Listening(KnownAnswers):
    """Reads a channel to its end."""

    async def request_channel(self, payload, payloads):
        async for item in payloads:
            yield item


async def test_an_error_of_megabytes_is_freed_with_its_channel():
    """It is freed when the handler ends, also if Python does not collect cycles for a while."""
    async with frame_peer_client(Listening()) as peer:
        await peer.send(RequestChannelFrame(1, 9, data=DATA))
        await peer.drain()
        gc.collect()
        gc.disable()
        try:
            await peer.send(ErrorFrame(1, 0x301, b"x" * 1000))
            await peer.drain()
            errors = [each for each in gc.get_objects() if isinstance(each, CustomError)]
            assert not [each for each in errors if len(each.data) == 1000]
        finally:
            gc.enable()
