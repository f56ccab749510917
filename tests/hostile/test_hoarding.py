"""Peers that make the server keep data: fragments, unread items, unlimited credit."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    ErrorFrame,
    KeepaliveFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestFnfFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    decode,
)

MIB = 2**20
MOST = 2**31 - 1


async def test_fragments_without_end(target):
    """An endless request is refused at the limit; the rest of it is ignored."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            await raw.send(RequestResponseFrame(1, follows=True, data=b"x"))
            more = raw.encode(*[PayloadFrame(1, next=True, follows=True, data=bytes(10_000))] * 100)
            for _ in range(50):
                await raw.stream.send_all(more)
            error = decode(await raw.frame())
            assert isinstance(error, ErrorFrame)
            assert error.stream_id == 1
            assert await raw.alive()


@pytest.mark.parametrize("metadata", [None, b""], ids=["bare", "empty metadata"])
async def test_empty_fragments_without_end(target, metadata):
    """Fragments without a byte add no memory either, by the hundred thousand."""
    nothing = PayloadFrame(1, next=True, follows=True, metadata=metadata)
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            await raw.send(RequestResponseFrame(1, follows=True))
            for _ in range(200):
                await raw.send(*[nothing] * 1000)
            assert await raw.alive()


async def test_one_byte_fragments_without_end(target):
    """A million fragments of one byte cost one payload, not a million objects."""
    crumb = PayloadFrame(1, next=True, follows=True, data=b"x")
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            await raw.send(RequestResponseFrame(1, follows=True))
            for _ in range(900):
                await raw.send(*[crumb] * 1000)
            assert await raw.alive()


async def test_many_requests_in_fragments(target):
    """The unfinished requests of a connection are bounded in bytes together."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            for i in range(1, 1601, 2):
                await raw.send(RequestFnfFrame(i, follows=True, data=bytes(100_000)))
            assert await raw.alive()


async def send_keepalives(raw) -> None:
    """Send frames all the time, so that only the missing reads can end the connection."""
    while True:
        try:
            await raw.send(KeepaliveFrame(respond=False))
        except trio.BrokenResourceError:
            return
        await trio.sleep(0.3)


async def test_unlimited_credit_and_no_reading(target):
    """A client that grants 2**31-1 and reads nothing costs an outbox, and is then found dead."""
    async with target.attacked() as requester:
        async with target.raw() as raw:
            await raw.setup(target.short_lifetime)
            for i in range(1, 200, 2):
                await raw.send(RequestStreamFrame(i, MOST, data=b"1000000000"))
                await raw.send(RequestNFrame(i, MOST), RequestNFrame(i, MOST))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_keepalives, raw)
                await target.wait_until_alone(requester)
                nursery.cancel_scope.cancel()
            assert len(await raw.frames()) > 1000  # the frames that the buffers of the network held


async def test_items_beyond_the_credit(target):
    """A requester that overruns the channel's credit loses the channel, not the connection."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            await raw.send(RequestChannelFrame(1, 10, data=b"stuck"))
            item = raw.encode(*[PayloadFrame(1, next=True, data=bytes(100))] * 100)
            for _ in range(50):
                await raw.stream.send_all(item)
            grant, error = decode(await raw.frame()), decode(await raw.frame())
            assert isinstance(grant, RequestNFrame)
            assert isinstance(error, ErrorFrame)
            assert (error.stream_id, error.code) == (1, ErrorCode.INVALID)
            assert await raw.alive()


async def test_unread_items_within_the_credit(target):
    """Large items within the credit fill the connection's limit of unread bytes, and no more."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            for i in range(1, 41, 2):
                await raw.send(RequestChannelFrame(i, 10, data=b"stuck"))
                await raw.send(*[PayloadFrame(i, next=True, data=bytes(500_000))] * 10)
            assert await raw.alive()


async def test_large_requests_that_wait(target):
    """Requests whose handlers wait are bounded in bytes: further ones are REJECTED."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            for i in range(1, 201, 2):
                await raw.send(RequestChannelFrame(i, 1, data=b"stuck", metadata=bytes(500_000)))
            answers = [decode(frame) for frame in await raw.frames_before_probe()]
            refused = [frame for frame in answers if isinstance(frame, ErrorFrame)]
            assert {frame.code for frame in refused} == {ErrorCode.REJECTED}
            assert len(refused) > 90
