"""Rows of the pool."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import trio

from rsocket_trio import NotConnected, connect_pool
from rsocket_trio.pool import target_file
from tests.checkpoints.scene import Call, Scene, leaving, raising, row


@asynccontextmanager
async def nowhere():
    await trio.sleep_forever()
    yield


@row("pool.pool.connect_pool", "entering")
async def _(scene: Scene) -> Call:
    return partial(scene.enter, connect_pool([nowhere]))


@row("pool.pool.connect_pool", "leaving")
async def _(scene: Scene) -> Call:
    return await leaving(connect_pool([nowhere]))


@row("pool.pool.Pool.metadata_push", "there is no target")
async def _(scene: Scene) -> Call:
    pool = await scene.enter(connect_pool([nowhere]))
    return raising(NotConnected, partial(pool.metadata_push, b"m"))


@row("pool.pool.Pool.wait_draining", "there is no target")
async def _(scene: Scene) -> Call:
    return (await scene.enter(connect_pool([nowhere]))).wait_draining


@row("pool.pool.Pool.wait_closed", "closed already")
async def _(scene: Scene) -> Call:
    async with connect_pool([nowhere]) as pool:
        pass
    return pool.wait_closed


@row("pool.sources.Watch.__anext__", "the first set")
async def _(scene: Scene) -> Call:
    file = scene.directory / "targets"
    file.write_text("tcp://127.0.0.1:1\n")
    return target_file(file).__anext__


@row("pool.sources.Watch.ask")
async def _(scene: Scene) -> Call:
    return target_file(scene.directory / "targets").ask
