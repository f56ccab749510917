"""The table of checkpoints: `rsocket_trio.spark.sinks`."""

from __future__ import annotations

from functools import partial

from rsocket_trio import Router
from rsocket_trio.spark import CommittedBatch, sink_receiver
from tests.checkpoints.scene import Call, Scene, leaving, raising, row


async def nothing(batch: CommittedBatch) -> None:
    """Take a batch."""


def batch(*payloads: bytes) -> CommittedBatch:
    """A batch of one chunk that is there at once."""

    async def read() -> list[bytes]:
        return list(payloads)

    return CommittedBatch(
        query="q",
        batch=0,
        owner="",
        row_count=len(payloads),
        partitions=(0,),
        format="json",
        schema="{}",
        chunks=[(0, read)],
    )


@row("spark.sinks.receiving.receiver.sink_receiver", "entering, in memory")
async def _(scene: Scene) -> Call:
    return partial(scene.enter, sink_receiver(Router(), "alerts", nothing))


@row("spark.sinks.receiving.receiver.sink_receiver", "entering, with a directory")
async def _(scene: Scene) -> Call:
    where = scene.directory / "staged"
    return partial(scene.enter, sink_receiver(Router(), "alerts", nothing, directory=where))


@row("spark.sinks.receiving.receiver.sink_receiver", "leaving")
async def _(scene: Scene) -> Call:
    return await leaving(sink_receiver(Router(), "alerts", nothing))


@row("spark.sinks.receiving.committed.PayloadReader.__anext__", only_cancelled=True)
async def _(_: Scene) -> Call:
    return aiter(batch(b"{}", b"{}")).__anext__


@row("spark.sinks.receiving.committed.PayloadReader.__anext__", "in a row", only_cancelled=True)
async def _(_: Scene) -> Call:
    reader = aiter(batch(b"{}", b"{}"))
    await anext(reader)
    return reader.__anext__


@row("spark.sinks.receiving.committed.PayloadReader.__anext__", "at the end", only_cancelled=True)
async def _(_: Scene) -> Call:
    return raising(StopAsyncIteration, aiter(batch()).__anext__)


@row("spark.sinks.receiving.committed.RowReader.__anext__", only_cancelled=True)
async def _(_: Scene) -> Call:
    return batch(b"{}").rows().__anext__


@row("spark.sinks.receiving.committed.RowReader.__anext__", "in a row", only_cancelled=True)
async def _(_: Scene) -> Call:
    reader = batch(b"{}", b"{}").rows()
    await anext(reader)
    return reader.__anext__
