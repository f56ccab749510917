"""Each operation of a reader and of a sender, cancelled at every step; then the connection works.

A receipt that is lost costs a duplicate, and nothing else.
"""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
import trio

from rsocket_trio import Invalid, Payload, connect
from rsocket_trio.collector import EVENTS, CollectorLimits
from rsocket_trio.testing import cancel_everywhere
from tests.collector.running import data, running
from tests.spool.helpers import collect, lines, sized
from tests.waiting import until


@pytest.fixture
async def client(spool, reading):
    for _ in range(4):
        await spool.append(lines(5))
    async with reading() as client:
        yield client


async def works(client, spool):
    """The connection is usable, and no range stays open."""
    info = await client.info()
    async with client.read(0, 20, spool_id=spool.spool_id) as batches:
        assert len(await collect(batches)) == 4
    await until(lambda: client.requester.statistics().open_streams == 0)
    assert info.head == 20


async def test_info(client, spool):
    async def operation():
        await client.info(reach_from=0, reach_size=100, since=0.0, lag_from=3, instances=True)

    async def check():
        await works(client, spool)

    assert await cancel_everywhere(operation, check) >= 3


async def test_commit(client, spool):
    await spool.commit("keeps all", 0)
    offsets = iter(range(1, 1000))

    async def operation():
        await client.commit("q", next(offsets) % 20, instance="a", spool_id=spool.spool_id)

    async def check():
        await client.commit("q", 3, instance="a", spool_id=spool.spool_id)
        assert spool.positions() == {"keeps all": 0, "q": 3}
        await works(client, spool)

    assert await cancel_everywhere(operation, check) >= 3


async def test_forget(client, spool):
    async def operation():
        with suppress(Invalid):  # An attempt before this one may have forgotten it.
            await client.forget("q", spool_id=spool.spool_id, force=True)

    async def check():
        await client.commit("q", 3, instance="a", spool_id=spool.spool_id)
        assert spool.positions()["q"] == 3
        await works(client, spool)

    await spool.commit("keeps all", 0)
    assert await cancel_everywhere(operation, check) >= 3


async def test_read(client, spool):
    async def operation():
        async with client.read(0, 20, spool_id=spool.spool_id) as batches:
            await collect(batches)

    async def check():
        await works(client, spool)

    assert await cancel_everywhere(operation, check) >= 5


async def test_read_large_batches(spool, reading):
    """Their memory is given back, at whatever step the range is cancelled."""
    for _ in range(2):
        await spool.append(sized(3 * 2**20))
    limits = CollectorLimits(max_read_memory=2**20, max_read_wait=1)
    async with reading(limits) as client:

        async def operation():
            async with client.read(0, 2, spool_id=spool.spool_id) as batches:
                assert len(await collect(batches)) == 2

        async def check():
            # One batch is all that fits, so this would wait for what was not given back.
            with trio.fail_after(20):
                await operation()
            await until(lambda: client.requester.statistics().open_streams == 0)

        assert await cancel_everywhere(operation, check) >= 5


async def test_a_channel(directory):
    acknowledged = 0

    async with running(directory) as collector:
        async with connect(collector.uris[0], data_mime_type="application/json") as requester:

            async def operation():
                nonlocal acknowledged
                items = [Payload(b"1"), Payload(b"2")]
                async with requester.request_channel(items, route=EVENTS) as replies:
                    async for reply in replies:
                        acknowledged += json.loads(reply.data)["count"]

            async def check():
                await until(lambda: requester.statistics().open_streams == 0)
                assert acknowledged <= collector.spool.head

            assert await cancel_everywhere(operation, check) >= 3
    assert acknowledged >= 2
    assert len(data(directory)) >= acknowledged
