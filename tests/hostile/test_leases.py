"""Clients that ask for leases, and then go beyond them, or send them without end."""

from __future__ import annotations

import trio

from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import (
    ErrorFrame,
    LeaseFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    decode,
)

MIB = 2**20
GRANTED = LeaseFrame(3_600_000, 10)


async def test_requests_beyond_the_lease(target):
    """Of ten thousand requests ten are answered; the others are REJECTED, and none is kept."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup(lease=True)
            assert decode(await raw.frame()) == GRANTED
            ids = range(1, 20_001, 2)
            answers = []
            async with trio.open_nursery() as nursery:

                async def ask():
                    for first in range(0, len(ids), 1000):
                        batch = ids[first : first + 1000]
                        await raw.send(*(RequestResponseFrame(i, data=b"x" * 100) for i in batch))

                nursery.start_soon(ask)
                for _ in ids:
                    answers.append(decode(await raw.frame()))
            answered = [each.stream_id for each in answers if isinstance(each, PayloadFrame)]
            rejected = [each for each in answers if isinstance(each, ErrorFrame)]
            assert sorted(answered) == list(ids[:10])
            assert {each.code for each in rejected} == {ErrorCode.REJECTED}
            assert len(rejected) == len(ids) - 10


async def test_requests_beyond_the_lease_without_reading(target):
    """1.5 MiB of REJECTEDs that a client does not read end it (max_unsent_control_size)."""
    async with target.attacked() as requester:
        async with target.raw() as raw:
            await raw.setup(target.short_lifetime, lease=True)
            requests = raw.encode(*(RequestResponseFrame(i) for i in range(1, 20_001, 2)))
            assert await raw.flood(requests, 512 * MIB) < 100 * MIB  # 5 MiB of answers a time
            await target.wait_until_alone(requester)


async def test_first_fragments_beyond_the_lease(target):
    """First fragments of requests that no lease allows are not kept."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup(lease=True)
            await raw.send(*(RequestFnfFrame(i) for i in range(1, 21, 2)))
            data = b"f" * 2**16
            for first in range(101, 2101, 20):
                await raw.send(
                    *(
                        RequestFnfFrame(i, follows=True, data=data)
                        for i in range(first, first + 20, 2)
                    )
                )
            assert await raw.frames_before_probe() == [GRANTED.encode()]


async def test_leases_without_end(target):
    """Of a hundred thousand leases only the newest is kept."""
    async with target.attacked():
        async with target.raw() as raw:
            await raw.setup(lease=True)
            leases = [LeaseFrame(1000, number, b"m" * 1000) for number in range(1000)]
            for _ in range(100):
                await raw.send(*leases)
            assert await raw.frames_before_probe() == [GRANTED.encode()]
