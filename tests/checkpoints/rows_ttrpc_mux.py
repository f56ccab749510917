"""Rows of the table: the streams of a trunk."""

from __future__ import annotations

from functools import partial

import trio
import trio.testing

from rsocket_trio.ttrpc.mux import Trunk, multiplexed
from rsocket_trio.ttrpc.mux.branch import Branch
from rsocket_trio.ttrpc.mux.writer import PieceWriter
from rsocket_trio.ttrpc.wire.trunk import encode_piece
from tests.checkpoints.scene import Call, Scene, row


async def trunk(scene: Scene) -> tuple[Trunk, trio.abc.Stream]:
    here, there = trio.testing.memory_stream_pair()
    return await scene.stack.enter_async_context(multiplexed(here)), there


@row("ttrpc.mux.trunk.multiplexed", "entering")
async def _(scene: Scene) -> Call:
    here, _ = trio.testing.memory_stream_pair()
    return partial(scene.stack.enter_async_context, multiplexed(here))


@row("ttrpc.mux.trunk.multiplexed", "leaving")
async def _(scene: Scene) -> Call:
    here, _ = trio.testing.memory_stream_pair()
    block = multiplexed(here)
    await block.__aenter__()
    return partial(block.__aexit__, None, None, None)


@row("ttrpc.mux.stream.MultiplexedStream.send_all")
async def _(scene: Scene) -> Call:
    one, _ = await trunk(scene)
    return partial(one.open(1).send_all, b"data")


@row("ttrpc.mux.stream.MultiplexedStream.send_all", "no bytes")
async def _(scene: Scene) -> Call:
    one, _ = await trunk(scene)
    return partial(one.open(1).send_all, b"")


@row("ttrpc.mux.stream.MultiplexedStream.wait_send_all_might_not_block")
async def _(scene: Scene) -> Call:
    one, _ = await trunk(scene)
    return one.open(1).wait_send_all_might_not_block


@row("ttrpc.mux.stream.MultiplexedStream.receive_some")
async def _(scene: Scene) -> Call:
    one, there = await trunk(scene)
    await there.send_all(encode_piece(1, b"data"))
    return one.open(1).receive_some


@row("ttrpc.mux.stream.MultiplexedStream.receive_some", "the end")
async def _(scene: Scene) -> Call:
    one, there = await trunk(scene)
    await there.aclose()
    return one.open(1).receive_some


@row("ttrpc.mux.stream.MultiplexedStream.aclose")
async def _(scene: Scene) -> Call:
    one, _ = await trunk(scene)
    return one.open(1).aclose


@row("ttrpc.mux.branch.Branch.wait_for_change")
async def _(scene: Scene) -> Call:
    branch = Branch(1, PieceWriter(trio.testing.memory_stream_pair()[0]), 10)

    async def call() -> None:
        scene.nursery.start_soon(put, branch)
        await branch.wait_for_change()

    return call


async def put(branch: Branch) -> None:
    branch.put(b"data")


@row("ttrpc.mux.writer.PieceWriter.wait_idle_or_changed")
async def _(scene: Scene) -> Call:
    writer = PieceWriter(trio.testing.memory_stream_pair()[0])

    async def call() -> None:
        scene.nursery.start_soon(wake, writer)
        await writer.wait_idle_or_changed()

    return call


async def wake(writer: PieceWriter) -> None:
    writer.wake_waiting()
