"""The table of checkpoints: `rsocket_trio.logfiles`."""

from __future__ import annotations

from functools import partial

from rsocket_trio.logfiles import Counts, FileKey, Fingerprint, Position, Registry
from rsocket_trio.logfiles.file_task import FileTask
from rsocket_trio.logfiles.progress import Progress
from rsocket_trio.logfiles.recorder import Recorder
from rsocket_trio.logfiles.sender import Sender
from rsocket_trio.logfiles.tail import Tail
from tests.checkpoints.scene import Call, Scene, endless, row
from tests.logfiles.shipping import FOLLOWING, Receiver, reading, shipment_of

POSITION = Position(
    path="/a",
    real="/a",
    source="/a",
    key=FileKey(1, 2),
    id="1",
    fingerprint=Fingerprint.of(b"1\n"),
    offset=0,
)


async def _accept(events: list[bytes]) -> None:
    """A `send` that is no checkpoint."""


def sender(scene: Scene) -> Sender:
    return Sender(_accept, places=1, nursery=scene.nursery, counts=Counts(), fail=_fail)


def _fail(error: Exception) -> None:
    raise error


def tail(scene: Scene) -> Tail:
    path = scene.directory / "a.log"
    path.write_bytes(b"1\n")
    made = Tail(str(path), str(path), reading(), lambda *_facts: POSITION, follow_links=False)
    scene.stack.callback(made.close)
    return made


def task(scene: Scene) -> FileTask:
    recorder = Recorder(Registry(None))
    return FileTask(tail(scene), "a.log", "a.log", sender=sender(scene), recorder=recorder)


@row("logfiles.shipment.Shipment.run", "no files")
async def _(scene: Scene) -> Call:
    shipment = shipment_of(scene.directory, Receiver(), registry=Registry(None), following=None)
    return shipment.run


@row("logfiles.shipment.Shipment.run", "following")
async def _(scene: Scene) -> Call:
    shipment = shipment_of(
        scene.directory, Receiver(), registry=Registry(None), following=FOLLOWING
    )
    return endless(shipment.run)


@row("logfiles.sender.Sender.forward", "a place is free")
async def _(scene: Scene) -> Call:
    return partial(sender(scene).forward, tail(scene).read, lambda _batch: lambda: None)


@row("logfiles.file_task.FileTask.read_once")
async def _(scene: Scene) -> Call:
    return task(scene).read_once


@row("logfiles.file_task.FileTask.follow", "the file is gone")
async def _(scene: Scene) -> Call:
    made = task(scene)
    made.missed()
    return partial(made.follow, [], 0, 1)


@row("logfiles.file_task.FileTask.settle", "nothing is on the way")
async def _(scene: Scene) -> Call:
    return task(scene).settle


@row("logfiles.progress.Progress.settled", "nothing is on the way")
async def _(_scene: Scene) -> Call:
    return Progress(0).settled


@row("logfiles.recorder.Recorder.run", "changed")
async def _(_scene: Scene) -> Call:
    recorder = Recorder(Registry(None))
    recorder.put(POSITION)
    return endless(recorder.run)


@row("logfiles.recorder.Recorder.finish", "nothing has changed")
async def _(_scene: Scene) -> Call:
    return Recorder(Registry(None)).finish


@row("logfiles.recorder.Recorder.finish", "changed")
async def _(_scene: Scene) -> Call:
    recorder = Recorder(Registry(None))
    recorder.put(POSITION)
    return recorder.finish


@row("logfiles.recorder.Recorder.written", "nothing has changed")
async def _(_scene: Scene) -> Call:
    return Recorder(Registry(None)).written


@row("logfiles.recorder.Recorder.check")
async def _(_scene: Scene) -> Call:
    return Recorder(Registry(None)).check
