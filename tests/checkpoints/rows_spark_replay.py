"""The table of checkpoints: `rsocket_trio.spark.replay`."""

from __future__ import annotations

from rsocket_trio.spark.replay import ReplayLines
from tests.checkpoints.scene import Call, Scene, raising, row


@row("spark.replay.lines.ReplayLines.offsets")
async def _(scene: Scene) -> Call:
    path = scene.directory / "rows"
    path.write_bytes(b"1\n")
    return ReplayLines(path).offsets


@row("spark.replay.lines.ReplayLines.offsets", "no file")
async def _(scene: Scene) -> Call:
    return ReplayLines(scene.directory / "nothing").offsets


@row("spark.replay.lines.ReplayLines.offsets", "no files at all")
async def _(scene: Scene) -> Call:
    return ReplayLines().offsets


@row("spark.replay.lines.ReplayLines.offsets", "a long line")
async def _(scene: Scene) -> Call:
    path = scene.directory / "rows"
    path.write_bytes(b"12345\n")
    return raising(ValueError, ReplayLines(path, max_line_size=2).offsets)
