"""The table of checkpoints: `rsocket_trio.spool`."""

from __future__ import annotations

from functools import partial

from rsocket_trio.spool import (
    Batch,
    BatchTooLarge,
    OffsetNotStored,
    OffsetTrimmed,
    SpoolClosed,
    open_spool,
)
from tests.checkpoints.scene import Call, Scene, endless, leaving, raising, row

BATCH = Batch(2, b"1\n2\n", encoding="lines")


async def stored(scene: Scene, **options):
    """A spool with two batches."""
    spool = await scene.enter(open_spool(scene.directory / "spool", **options))
    await spool.append(BATCH)
    await spool.append(BATCH)
    return spool


async def closed(scene: Scene):
    async with open_spool(scene.directory / "spool") as spool:
        await spool.append(BATCH)
    return spool


@row("spool.spool.open_spool", "entering")
async def _(scene: Scene) -> Call:
    return partial(scene.enter, open_spool(scene.directory / "spool"))


@row("spool.spool.open_spool", "leaving")
async def _(scene: Scene) -> Call:
    return await leaving(open_spool(scene.directory / "spool"))


@row("spool.spool.Spool.append")
async def _(scene: Scene) -> Call:
    return partial((await stored(scene)).append, BATCH)


@row("spool.spool.Spool.append", "full")
async def _(scene: Scene) -> Call:
    return endless((await stored(scene, max_size=180)).append, BATCH)


@row("spool.spool.Spool.append", "too large")
async def _(scene: Scene) -> Call:
    large = Batch(1, bytes(200), encoding="zeros")
    return raising(BatchTooLarge, partial((await stored(scene, max_size=180)).append, large))


@row("spool.spool.Spool.append", "closed")
async def _(scene: Scene) -> Call:
    return raising(SpoolClosed, partial((await closed(scene)).append, BATCH))


@row("spool.spool.Spool.wait_room")
async def _(scene: Scene) -> Call:
    return (await stored(scene)).wait_room


@row("spool.spool.Spool.wait_room", "closed")
async def _(scene: Scene) -> Call:
    return raising(SpoolClosed, (await closed(scene)).wait_room)


@row("spool.spool.Spool.commit")
async def _(scene: Scene) -> Call:
    return partial((await stored(scene)).commit, "me", 1)


@row("spool.spool.Spool.commit", "again")
async def _(scene: Scene) -> Call:
    spool = await stored(scene)
    await spool.commit("me", 2)
    return partial(spool.commit, "me", 2)


@row("spool.spool.Spool.commit", "trimmed")
async def _(scene: Scene) -> Call:
    spool = await stored(scene)
    await spool.commit("me", 2)
    return raising(OffsetTrimmed, partial(spool.commit, "me", 1))


@row("spool.spool.Spool.commit", "not stored")
async def _(scene: Scene) -> Call:
    return raising(OffsetNotStored, partial((await stored(scene)).commit, "me", 5))


@row("spool.spool.Spool.reach")
async def _(scene: Scene) -> Call:
    return partial((await stored(scene)).reach, 1, 100)


@row("spool.spool.Spool.reach", "trimmed")
async def _(scene: Scene) -> Call:
    spool = await stored(scene)
    await spool.commit("me", 2)
    return raising(OffsetTrimmed, partial(spool.reach, 1, 100))


@row("spool.spool.Spool.forget")
async def _(scene: Scene) -> Call:
    return partial((await stored(scene)).forget, "me")


@row("spool.spool.Spool.forget", "closed")
async def _(scene: Scene) -> Call:
    return raising(SpoolClosed, partial((await closed(scene)).forget, "me"))


@row("spool.reader.SpoolReader.__anext__")
async def _(scene: Scene) -> Call:
    return (await stored(scene)).read(0).__anext__


@row("spool.reader.SpoolReader.__anext__", "from memory")
async def _(scene: Scene) -> Call:
    reader = (await stored(scene)).read(0)
    await reader.__anext__()
    return reader.__anext__


@row("spool.reader.SpoolReader.look_ahead")
async def _(scene: Scene) -> Call:
    return (await stored(scene)).read(0).look_ahead


@row("spool.reader.SpoolReader.look_ahead", "again")
async def _(scene: Scene) -> Call:
    reader = (await stored(scene)).read(0)
    await reader.look_ahead()
    return reader.look_ahead


@row("spool.reader.SpoolReader.look_ahead", "at the end")
async def _(scene: Scene) -> Call:
    return (await stored(scene)).read(4).look_ahead


@row("spool.reader.SpoolReader.__anext__", "at the end")
async def _(scene: Scene) -> Call:
    return raising(StopAsyncIteration, (await stored(scene)).read(4).__anext__)


@row("spool.spool.Spool.since")
async def _(scene: Scene) -> Call:
    return partial((await stored(scene)).since, 0)


@row("spool.spool.Spool.stored_at")
async def _(scene: Scene) -> Call:
    return partial((await stored(scene)).stored_at, [1])
