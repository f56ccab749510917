"""Floods of frames, answered and unanswered."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    KeepaliveFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    decode,
)

MIB = 2**20


async def test_keepalives_whose_answers_are_read(target):
    """A hundred thousand KEEPALIVEs are answered, every one."""
    total, batch = 100_000, 1000
    beats = [KeepaliveFrame(respond=True, data=b"%06d" % number) for number in range(batch)]
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            async with trio.open_nursery() as nursery:

                async def ask():
                    for _ in range(total // batch):
                        await raw.send(*beats)

                nursery.start_soon(ask)
                answers = [await raw.frame() for _ in range(total)]
            expected = [KeepaliveFrame(False, 0, beat.data).encode() for beat in beats]
            assert answers == expected * (total // batch)


async def test_keepalives_whose_answers_are_not_read(target):
    """The server stops reading from a client that does not read, and then ends the connection."""
    async with target.attacked() as requester:
        async with target.raw() as raw:
            await raw.setup(target.short_lifetime)
            beats = raw.encode(*[KeepaliveFrame(respond=True, data=b"k" * 1000)] * 100)
            assert await raw.flood(beats, 512 * MIB) < 100 * MIB
            await target.wait_until_alone(requester)


async def test_requests_whose_answers_are_not_read(target):
    """Most of a hundred thousand requests are refused; then the client is treated as dead."""
    async with target.attacked() as requester:
        async with target.raw() as raw:
            await raw.setup(target.short_lifetime)
            data = b"r" * 1000
            for first in range(1, 200_001, 2000):
                requests = raw.encode(
                    *(RequestResponseFrame(i, data=data) for i in range(first, first + 2000, 2))
                )
                if await raw.flood(requests, len(requests)) < len(requests):
                    break  # The connection has ended already.
            await target.wait_until_alone(requester)


async def test_more_open_requests_than_allowed(target):
    """Past the limit of open requests every further one is REJECTED, and the open ones go on."""
    allowed = target.limits["max_active_requests"]
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            ids = range(1, 2 * allowed + 200, 2)
            await raw.send(*(RequestResponseFrame(i, data=b"never") for i in ids))
            refused = [decode(await raw.frame()) for _ in range(100)]
            assert {frame.code for frame in refused} == {ErrorCode.REJECTED}
            assert [frame.stream_id for frame in refused] == list(ids)[allowed:]
            assert await raw.alive()
            await raw.send(*(CancelFrame(i) for i in ids))
            assert await raw.alive()  # The handlers have had the time to end.
            await raw.send(RequestResponseFrame(99_999, data=b"room again"))
            assert decode(await raw.frame()).data == b"room again"


@pytest.mark.parametrize("size", [0, 10_000])
async def test_cancelled_requests(target, size):
    """A hundred thousand requests, each cancelled at once, leave nothing in memory."""
    data = b"never" if not size else bytes(size)
    total = 100_000 if not size else 10_000
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            async with trio.open_nursery() as nursery:

                async def ask():
                    for first in range(1, 2 * total, 200):
                        await raw.send(
                            *(
                                frame
                                for i in range(first, first + 200, 2)
                                for frame in (RequestResponseFrame(i, data=data), CancelFrame(i))
                            )
                        )
                    await raw.send(KeepaliveFrame(respond=True, data=b"done"))

                nursery.start_soon(ask)
                done = KeepaliveFrame(respond=False, data=b"done").encode()
                while (frame := await raw.frame()) != done:
                    assert frame is not None
            assert await raw.alive()


@pytest.mark.parametrize("stuck", [False, True], ids=["handled", "never handled"])
@pytest.mark.parametrize("kind", ["fnf", "push"])
async def test_messages_without_answer(target, kind, stuck):
    """fire_and_forget and metadata_push by the ten thousand: handled, or dropped past limits."""
    data = (b"stuck" if stuck else b"quick") + bytes(5000)
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            for first in range(1, 40_000, 400):
                if kind == "fnf":
                    messages = [RequestFnfFrame(i, data=data) for i in range(first, first + 400, 2)]
                else:
                    messages = [MetadataPushFrame(data)] * 200
                await raw.send(*messages)
            assert await raw.alive()


async def test_many_requests_on_a_stream_in_use(target):
    """They are ignored, however many come; the stream goes on."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            await raw.send(RequestStreamFrame(1, 1, data=b"2"))
            assert decode(await raw.frame()) == PayloadFrame(1, next=True, data=b"0")
            for _ in range(100):
                await raw.send(*[RequestResponseFrame(1, data=b"x" * 100)] * 1000)
            assert await raw.alive()
            await raw.send(bytes.fromhex("000000012000 00000001"))
            assert decode(await raw.frame()).data == b"1"


async def test_many_requests_on_a_finished_id(target):
    """An id may come again once its stream has finished, and is served every time."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            for _ in range(2000):
                await raw.send(RequestResponseFrame(1, data=b"fresh_copy"))
                assert decode(await raw.frame()).data == b"fresh_copy"


async def test_frames_for_unknown_streams(target):
    """ERROR, CANCEL and PAYLOAD for unknown streams cost only the time to read them."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup()
            for first in range(1, 200_000, 2000):
                ids = range(first, first + 2000, 2)
                await raw.send(*(ErrorFrame(i, 0x201, b"x" * 100) for i in ids))
                await raw.send(*(CancelFrame(i) for i in ids))
                await raw.send(*(PayloadFrame(i, next=True, follows=True, data=b"x") for i in ids))
            assert await raw.alive()
