"""The parts of the source in trio are cancelled at every step, and leave nothing behind."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import serve
from rsocket_trio.collector import reading_router
from rsocket_trio.spark.spool_source.embedded import Embedded
from rsocket_trio.spark.spool_source.fleet import Fleet, Limit
from rsocket_trio.spark.spool_source.offsets import Offsets, Since
from rsocket_trio.spark.spool_source.reading import Place, open_stored
from rsocket_trio.spark.spool_source.settings import SourceSettings
from rsocket_trio.spool import open_spool
from rsocket_trio.testing import cancel_everywhere
from tests.ports import held_port
from tests.spark.collectors import json_lines

pytestmark = pytest.mark.chaos


@pytest.fixture
async def spool(tmp_path):
    async with open_spool(tmp_path / "spool") as spool:
        for _ in range(3):
            await spool.append(json_lines([b"{}"] * 5))
        yield spool


@pytest.fixture
async def server(spool, nursery):
    return await nursery.start(serve, reading_router(spool), "tcp://127.0.0.1:0")


async def test_reading_a_range(spool, server):
    place = Place(spool_id=spool.spool_id, start=2, stop=13, uri=server.uris[0])

    async def read():
        async with open_stored(place) as batches:
            assert [each.stop async for each in batches] == [5, 10, 13]

    async def check():
        with trio.fail_after(30):
            while server.statistics().connections:
                await trio.sleep(0.001)

    assert await cancel_everywhere(read, check) > 5


async def test_questions_to_the_collectors(spool, server, nursery):
    """The next question has the answer."""
    settings = SourceSettings(collectors=(server.uris[0],), poll_timeout=0.0)
    fleet = await nursery.start(Fleet(settings.collectors, settings).serve)
    begin = await fleet.latest(Offsets(), Limit())
    assert begin.spools == {spool.spool_id: 0}
    half = {spool.spool_id: 7}

    async def ask():
        assert (await fleet.latest(begin, Limit(rows=7))).spools == half
        await fleet.commit(begin)
        await fleet.locate([spool.spool_id])
        assert await fleet.since(Since("startingTimestamp", 0.0)) == {spool.spool_id: 0}

    async def check():
        with trio.fail_after(30):
            assert (await fleet.latest(begin, Limit(rows=7))).spools == half

    assert await cancel_everywhere(ask, check) > 3


async def test_the_embedded_collector(tmp_path, monkeypatch):
    """The spool, the port and the socket are free."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    directory = tmp_path / "spool"

    async def run():
        async with trio.open_nursery() as nursery:
            embedded = Embedded(str(directory), uris, max_size=2**30, timeout=0.01)
            await nursery.start(embedded.serve)
            nursery.cancel_scope.cancel()

    async def check():
        if directory.exists():
            async with open_spool(directory):
                pass

    with held_port() as port:
        uris = [f"lumberjack://127.0.0.1:{port}"]
        assert await cancel_everywhere(run, check, every_task=True) > 10
