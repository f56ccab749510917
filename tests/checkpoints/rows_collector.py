"""The table of checkpoints: `rsocket_trio.collector`."""

from __future__ import annotations

from functools import partial

from rsocket_trio import serve
from rsocket_trio.collector import collect, connect_collector, reading_router
from rsocket_trio.spool import Batch, Spool, WrongSpool, open_spool
from tests.checkpoints.scene import Call, Scene, endless, leaving, raising, row

BATCH = Batch(2, b"1\n2\n", encoding="lines")


async def served(scene: Scene) -> tuple[Spool, str]:
    """A spool with two batches, and the address of a collector over it."""
    spool = await scene.enter(open_spool(scene.directory / "spool"))
    await spool.append(BATCH)
    await spool.append(BATCH)
    server = await scene.nursery.start(serve, reading_router(spool), "tcp://127.0.0.1:0")
    return spool, server.uris[0]


async def client(scene: Scene):
    spool, uri = await served(scene)
    return await scene.enter(connect_collector(uri)), spool.spool_id


@row("collector.client.connect_collector", "entering")
async def _(scene: Scene) -> Call:
    return partial(scene.enter, connect_collector((await served(scene))[1]))


@row("collector.client.connect_collector", "leaving")
async def _(scene: Scene) -> Call:
    return await leaving(connect_collector((await served(scene))[1]))


@row("collector.client.CollectorClient.info")
async def _(scene: Scene) -> Call:
    return (await client(scene))[0].info


@row("collector.client.CollectorClient.commit")
async def _(scene: Scene) -> Call:
    collector, spool_id = await client(scene)
    return partial(collector.commit, "q", 1, instance="a", spool_id=spool_id)


@row("collector.client.CollectorClient.commit", "of another spool")
async def _(scene: Scene) -> Call:
    collector, _ = await client(scene)
    call = partial(collector.commit, "q", 1, instance="a", spool_id="other")
    return raising(WrongSpool, call)


@row("collector.client.CollectorClient.forget")
async def _(scene: Scene) -> Call:
    collector, spool_id = await client(scene)
    await collector.commit("q", 1, instance="a", spool_id=spool_id)
    return partial(collector.forget, "q", spool_id=spool_id, force=True)


@row("collector.client.CollectorClient.forget", "of another spool")
async def _(scene: Scene) -> Call:
    collector, _ = await client(scene)
    return raising(WrongSpool, partial(collector.forget, "q", spool_id="other"))


@row("collector.range_reader.RangeReader.__anext__")
async def _(scene: Scene) -> Call:
    collector, spool_id = await client(scene)
    return (await scene.enter(collector.read(0, 4, spool_id=spool_id))).__anext__


@row("collector.range_reader.RangeReader.__anext__", "at the end")
async def _(scene: Scene) -> Call:
    collector, spool_id = await client(scene)
    reader = await scene.enter(collector.read(0, 4, spool_id=spool_id))
    await reader.__anext__()
    await reader.__anext__()
    return raising(StopAsyncIteration, reader.__anext__)


@row("collector.range_reader.RangeReader.__anext__", "behind the end")
async def _(scene: Scene) -> Call:
    collector, spool_id = await client(scene)
    reader = await scene.enter(collector.read(0, 4, spool_id=spool_id))
    assert [each.count async for each in reader] == [2, 2]
    return raising(StopAsyncIteration, reader.__anext__)


@row("collector.range_reader.RangeReader.__anext__", "of another spool")
async def _(scene: Scene) -> Call:
    collector, _ = await client(scene)
    reader = await scene.enter(collector.read(0, 4, spool_id="other"))
    return raising(WrongSpool, reader.__anext__)


async def collector(scene: Scene):
    """A collector that runs."""
    start = partial(collect, scene.directory / "spool", "tcp://127.0.0.1:0")
    return await scene.nursery.start(start)


@row("collector.collecting.collect")
async def _(scene: Scene) -> Call:
    return endless(collect, scene.directory / "spool", "tcp://127.0.0.1:0")


@row("collector.collecting.Collector.aclose")
async def _(scene: Scene) -> Call:
    return (await collector(scene)).aclose


@row("collector.collecting.Collector.aclose", "again")
async def _(scene: Scene) -> Call:
    running = await collector(scene)
    await running.aclose()
    return running.aclose


@row("collector.client.CollectorClient.statistics")
async def _(scene: Scene) -> Call:
    running = await collector(scene)
    return (await scene.enter(connect_collector(running.uris[0]))).statistics
