"""The table of checkpoints: `rsocket_trio.cli`."""

from __future__ import annotations

import os
from functools import partial

from rsocket_trio.cli.event_printer import EventPrinter
from rsocket_trio.cli.event_storage import EventStorage
from rsocket_trio.cli.grammar import build_parser
from rsocket_trio.cli.interrupt import interruptible
from rsocket_trio.cli.pace import Pace
from rsocket_trio.cli.serving import Deployment, serve_until_stopped
from rsocket_trio.cli.stdio import Writer, reader_gone
from rsocket_trio.lumberjack import serve
from rsocket_trio.spool import open_spool
from tests.checkpoints.rows_lumberjack import held, nothing
from tests.checkpoints.scene import Call, Scene, endless, row
from tests.lumberjack.receiving import ADDRESS


@row("cli.interrupt.interruptible")
async def _(scene: Scene) -> Call:
    async def work(stop) -> int:
        return 0

    return partial(interruptible, work)


@row("cli.pace.Pace.next")
async def _(scene: Scene) -> Call:
    return Pace(rate=1000, ramp=0).next


def writer(scene: Scene, name: str = "output") -> Writer:
    file = scene.stack.enter_context((scene.directory / name).open("wb"))
    return Writer(file.fileno())


@row("cli.stdio.Writer.write")
async def _(scene: Scene) -> Call:
    return partial(writer(scene).write, b"line\n")


@row("cli.stdio.Writer.write", "nothing")
async def _(scene: Scene) -> Call:
    return partial(writer(scene).write, b"")


@row("cli.stdio.reader_gone")
async def _(scene: Scene) -> Call:
    reading, writing = os.pipe()
    os.close(reading)
    scene.stack.callback(os.close, writing)
    return partial(reader_gone, writing)


@row("cli.event_printer.EventPrinter.handle")
async def _(scene: Scene) -> Call:
    printer = EventPrinter(writer(scene), writer(scene, "errors"))
    scene.start(printer.run)
    return partial(printer.handle, await held(scene))


@row("cli.event_printer.EventPrinter.run")
async def _(scene: Scene) -> Call:
    printer = EventPrinter(writer(scene), writer(scene, "errors"), take=1)
    scene.start(printer.handle, await held(scene))
    return printer.run


@row("cli.event_storage.EventStorage.handle")
async def _(scene: Scene) -> Call:
    spool = await scene.enter(open_spool(scene.directory / "spool"))
    return partial(EventStorage(spool, quiet=True).handle, await held(scene))


@row("cli.event_storage.EventStorage.watch")
async def _(scene: Scene) -> Call:
    spool = await scene.enter(open_spool(scene.directory / "spool"))
    server = await scene.nursery.start(serve, nothing, ADDRESS)
    return endless(EventStorage(spool, quiet=True).watch, server)


@row("cli.serving.serve_until_stopped")
async def _(scene: Scene) -> Call:
    async def work(server) -> None:
        """Nothing to do, so the server is stopped."""

    options = build_parser().parse_args(["lumberjack", "serve", "--listen", ADDRESS])
    start = partial(serve, nothing, ADDRESS)
    return partial(serve_until_stopped, start, Deployment(options), "connections", work)
