"""The table of checkpoints: `rsocket_trio.rsio`, and `serve_other_wire`."""

from __future__ import annotations

from functools import partial

import trio
import trio.testing

from rsocket_trio import ConnectFailed, Peer, Router, Stopping, rsio
from rsocket_trio.reactive_streams import never
from rsocket_trio.rsio.addresses import rsio_uri
from rsocket_trio.rsio.carrier import as_transport, dial_rsio
from rsocket_trio.rsio.connection.link import Link
from rsocket_trio.rsio.connection.send_queue import SendQueue
from rsocket_trio.rsio.hosting import Host
from rsocket_trio.rsio.receiving import PackedInbox, PackedStream
from rsocket_trio.rsio.routed import accept_router
from rsocket_trio.sealed import make
from rsocket_trio.wires import serve_other_wire
from tests.checkpoints.scene import Call, QuickStream, Scene, endless, leaving, raising, row
from tests.rsio.engine_scenes import words

CONFIG = rsio.RsioConfig()
TARGET = {"never": never(), "ints": rsio.fixed_size(words(10), 8)}


async def connection_of(scene: Scene, **options) -> rsio.Connection:
    """A client of a server over memory."""
    here, there = trio.testing.memory_stream_pair()
    scene.start(partial(rsio.serve_stream, TARGET, there, **options))
    return await scene.enter(rsio.connect(here, **options))


def quick_link() -> Link:
    return Link(as_transport(QuickStream()), "client", CONFIG, lambda name: None, {})


@row("rsio.client.connect", "entering, the peer is gone")
async def _(scene: Scene) -> Call:
    return raising(ConnectFailed, rsio.connect(QuickStream()).__aenter__)


@row("rsio.client.connect", "leaving")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    scene.start(rsio.serve_stream, TARGET, there)
    return await leaving(rsio.connect(here))


@row("rsio.carrier.dial_rsio")
async def _(scene: Scene) -> Call:
    server = await scene.nursery.start(rsio.serve, TARGET, "rsio://127.0.0.1:0")

    async def call() -> None:
        uri = rsio_uri(server.uris[0])
        await scene.enter(await dial_rsio(uri, ssl_context=None, handshake_timeout=5))

    return call


@row("rsio.connection.connection.Connection.goodbye", "over already")
async def _(scene: Scene) -> Call:
    connection = await connection_of(scene)
    await connection.goodbye()
    return connection.goodbye


@row("rsio.connection.connection.Connection.wait_closed", "over already")
async def _(scene: Scene) -> Call:
    connection = await connection_of(scene)
    await connection.goodbye()
    return connection.wait_closed


@row("rsio.connection.connection.Connection.wait_draining", "over already")
async def _(scene: Scene) -> Call:
    connection = await connection_of(scene)
    await connection.goodbye()
    return connection.wait_draining


@row("rsio.connection.connection.Connection.wait_ready", "ready already")
async def _(scene: Scene) -> Call:
    return (await connection_of(scene)).wait_ready


@row("rsio.connection.link.Link.run", "the peer is gone")
async def _(scene: Scene) -> Call:
    return quick_link().run


@row("rsio.connection.send_queue.SendQueue.wait_idle", "nothing is queued")
async def _(scene: Scene) -> Call:
    return SendQueue(1000).wait_idle


@row("rsio.extensions.Ping.round_trip")
async def _(scene: Scene) -> Call:
    ping = rsio.Ping()
    return partial(ping.round_trip, await connection_of(scene, extensions=[ping]))


@row("rsio.extensions.Ping.round_trip", "not supported")
async def _(scene: Scene) -> Call:
    connection = await connection_of(scene)
    return raising(rsio.RsioError, partial(rsio.Ping().round_trip, connection))


@row("rsio.hosting.Host.refuse", "the peer is gone")
async def _(scene: Scene) -> Call:
    host = Host(None, CONFIG, (), None)
    return partial(host.refuse, as_transport(QuickStream()), "server")


def full() -> PackedInbox:
    inbox = PackedInbox(10)
    inbox.on_block(b"12345678", 8, 1)
    return inbox


@row("rsio.receiving.PackedInbox.wait", "a block is here")
async def _(scene: Scene) -> Call:
    return full().wait


@row("rsio.receiving.PackedStream.receive", "a block is here")
async def _(scene: Scene) -> Call:
    return make(PackedStream, full()).receive


@row("rsio.receiving.PackedStream.aclose")
async def _(scene: Scene) -> Call:
    return make(PackedStream, full()).aclose


@row("rsio.publisher.RemotePublisher.first")
async def _(scene: Scene) -> Call:
    return (await connection_of(scene)).publisher("ints").first


@row("rsio.publisher.RemotePublisher.open", "entering", only_cancelled=True)
async def _(scene: Scene) -> Call:
    publisher = (await connection_of(scene)).publisher("never")
    return partial(scene.enter, publisher.open())


@row("rsio.publisher.RemotePublisher.open_packed", "entering", only_cancelled=True)
async def _(scene: Scene) -> Call:
    publisher = (await connection_of(scene)).publisher("ints")
    return partial(scene.enter, publisher.open_packed())


@row("rsio.routed.accept_router")
async def _(scene: Scene) -> Call:
    connection = await connection_of(scene)
    peer = Peer(connection.info)
    asked = (Router(), connection.info, connection, peer, Stopping(), None, 5)
    return partial(accept_router, *asked, ours=False)


@row("rsio.server.serve")
async def _(scene: Scene) -> Call:
    return endless(rsio.serve, TARGET, f"rsio+unix://{scene.directory}/s")


@row("rsio.server.serve_stream", "the peer is gone")
async def _(scene: Scene) -> Call:
    return partial(rsio.serve_stream, TARGET, QuickStream())


@row("wires.serve_other_wire")
async def _(scene: Scene) -> Call:
    uris = [f"rsio+unix://{scene.directory}/s"]
    return endless(serve_other_wire, "rsio", TARGET, uris, {}, trio.TASK_STATUS_IGNORED)
