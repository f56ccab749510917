"""The table of checkpoints: `rsocket_trio.lumberjack`."""

from __future__ import annotations

from functools import partial

import trio.testing

from rsocket_trio.errors import ConnectionLost
from rsocket_trio.interactions.leftovers import isolated, watched
from rsocket_trio.lumberjack import (
    EventRelay,
    ShipperConfig,
    connect,
    serve,
    ship_from,
    ship_stream,
)
from rsocket_trio.lumberjack.client.backlog import Backlog
from rsocket_trio.lumberjack.client.bell import Bell
from rsocket_trio.lumberjack.client.event_encoder import EventEncoder
from rsocket_trio.lumberjack.client.outgoing import Load, Outgoing
from rsocket_trio.lumberjack.client.window_size import WindowSize
from rsocket_trio.lumberjack.server.acknowledgements import Departure
from rsocket_trio.lumberjack.server.bytes_in import TimedReader
from rsocket_trio.lumberjack.server.incoming_memory import ShareOfIncoming
from rsocket_trio.lumberjack.server.receiver import Receiver
from rsocket_trio.lumberjack.server.turns import ShareOfTurns, Turns
from rsocket_trio.routing.admission import admitted
from rsocket_trio.sockets.byte_stream import ByteStream, TransportInfo
from rsocket_trio.sockets.farewell import drop_bytes, half_close
from rsocket_trio.spool import open_spool
from tests.checkpoints.scene import Call, Scene, endless, raising, row
from tests.lumberjack.receiving import ADDRESS, DEFAULT, full_window, port_of, shared


async def nothing(batch) -> None:
    """A handler."""


async def held(scene: Scene, left: trio.Event | None = None):
    """A batch whose handler has not returned, and its sender; ``left`` is set when it has left."""
    batches = []

    async def hold(batch) -> None:
        batches.append(batch)
        try:
            await trio.sleep_forever()
        finally:
            if left is not None:
                left.set()

    server = await scene.nursery.start(serve, hold, ADDRESS)
    sender = await trio.open_tcp_stream("127.0.0.1", port_of(server))
    scene.stack.push_async_callback(sender.aclose)
    await sender.send_all(full_window(2))
    while not batches:
        await trio.sleep(0.001)
    return batches[0]


@row("lumberjack.server.acknowledgements.Departure.wait")
async def _(scene: Scene) -> Call:
    departure = Departure()
    departure.left = True
    departure.over.set()
    return departure.wait


@row("lumberjack.server.batch.Batch.ack")
async def _(scene: Scene) -> Call:
    return partial((await held(scene)).ack, 1)


@row("lumberjack.server.batch.Batch.ack", "of a connection that is over")
async def _(scene: Scene) -> Call:
    left = trio.Event()
    batch = await held(scene, left)
    await scene.stack.aclose()
    await left.wait()
    return raising(ConnectionLost, partial(batch.ack, 1))


@row("lumberjack.server.batch.Batch.ack", "nothing new")
async def _(scene: Scene) -> Call:
    return partial((await held(scene)).ack, 0)


@row("interactions.leftovers.watched")
async def _(_scene: Scene) -> Call:
    return partial(watched, nothing)


@row("interactions.leftovers.isolated")
async def _(scene: Scene) -> Call:
    return partial(isolated, partial(nothing, None))


@row("routing.admission.admitted")
async def _(scene: Scene) -> Call:
    info = TransportInfo(scheme="memory")
    ask = partial(nothing, None)
    return partial(admitted, ask, info, peer="the sender", patience=1, setting="a setting")


@row("lumberjack.server.bytes_in.TimedReader.read")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_all(full_window(1))
    share = ShareOfIncoming(shared(nothing).intake, list)
    turns = ShareOfTurns(Turns())
    return TimedReader(here, DEFAULT, share, turns, owes=lambda: False, pauses=lambda: None).read


@row("sockets.farewell.half_close")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_eof()
    return partial(half_close, here, 1)


@row("sockets.farewell.drop_bytes")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_eof()
    return partial(drop_bytes, here)


@row("lumberjack.server.receiver.Receiver.run")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_eof()
    return Receiver(ByteStream(here, TransportInfo(scheme="memory")), shared(nothing)).run


@row("lumberjack.server.server.serve")
async def _(scene: Scene) -> Call:
    return endless(serve, nothing, ADDRESS)


@row("sockets.serving.RunningServer.aclose", "of Lumberjack")
async def _(scene: Scene) -> Call:
    return (await scene.nursery.start(serve, nothing, ADDRESS)).aclose


@row("lumberjack.client.shipper.Shipper.send")
async def _(scene: Scene) -> Call:
    server = await scene.nursery.start(serve, nothing, ADDRESS)
    shipper = await scene.enter(connect(server.uris))
    return partial(shipper.send, [{"message": "hi"}])


@row("lumberjack.client.shipper.Shipper.send", "no events")
async def _(scene: Scene) -> Call:
    shipper = await scene.enter(connect("lumberjack://127.0.0.1:1"))
    return partial(shipper.send, [])


@row("lumberjack.forwarding.ship_from")
async def _(scene: Scene) -> Call:
    shipper = await scene.enter(connect("lumberjack://127.0.0.1:1"))
    spool = await scene.enter(open_spool(scene.directory / "spool"))
    return partial(ship_from, spool, shipper, follow=False)


@row("lumberjack.client.outgoing.Outgoing.run")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_eof()
    config = ShipperConfig()
    encoder = EventEncoder(2, 3, config.limits)
    bell = Bell()
    load = Load(config=config, encoder=encoder, backlog=Backlog(bell.ring), bell=bell)
    return Outgoing(here, load, WindowSize(1, 1)).run


@row("lumberjack.relay.EventRelay.publish", "no events")
async def _(scene: Scene) -> Call:
    return partial(EventRelay().publish, [])


@row("lumberjack.relay.EventRelay.publish", "a subscriber that takes them")
async def _(scene: Scene) -> Call:
    relay = EventRelay()

    async def subscribe() -> None:
        async for _ in relay.subscribe():
            pass

    scene.nursery.start_soon(subscribe)
    return partial(relay.publish, [1])


@row("lumberjack.relay.RelayedEvents.receive")
async def _(scene: Scene) -> Call:
    relay = EventRelay()
    scene.nursery.start_soon(relay.publish, [1, 2])
    return relay.subscribe().receive


@row("lumberjack.relay.RelayedEvents.aclose")
async def _(scene: Scene) -> Call:
    return EventRelay().subscribe().aclose


class Accepting:
    """Takes the place of a shipper, and never waits."""

    async def send(self, events) -> None:
        """Take events."""


async def two_items():
    yield b"1"
    yield b"2"


async def no_items():
    for item in ():
        yield item


@row("lumberjack.stream_source.ship_stream")
async def _(scene: Scene) -> Call:
    return partial(ship_stream, two_items(), Accepting(), linger=0)


@row("lumberjack.stream_source.ship_stream", "an empty stream")
async def _(scene: Scene) -> Call:
    return partial(ship_stream, no_items(), Accepting())
