"""The table of checkpoints: `rsocket_trio.ttrpc`, and `Engine`, which it shares with RSocket."""

from __future__ import annotations

from functools import partial

import trio
import trio.testing

from rsocket_trio import Stopping
from rsocket_trio.account import Account
from rsocket_trio.connection.crew import Crew
from rsocket_trio.connection.engine import Engine
from rsocket_trio.connection.lifecycle import Lifecycle
from rsocket_trio.connection.outbox import Outbox
from rsocket_trio.connection.workload import Workload
from rsocket_trio.ttrpc import TtrpcConfig, connect, serve, serve_stream
from rsocket_trio.ttrpc.carrier import as_byte_stream, carry
from rsocket_trio.ttrpc.client.connection import ClientConnection
from rsocket_trio.ttrpc.inbox import MessageInbox, Unread
from rsocket_trio.ttrpc.reader import CallReader
from rsocket_trio.ttrpc.server.bound import ServiceMethods
from rsocket_trio.ttrpc.server.connection import ServerConnection
from rsocket_trio.ttrpc.server.service import as_services
from tests.checkpoints.scene import (
    Call,
    QuickStream,
    Scene,
    endless,
    leaving,
    raising,
    row,
)
from tests.ttrpc.scenes import CHAT, COUNT, ECHO, JOIN, pair, things

CONFIG = TtrpcConfig()


async def client_of(scene: Scene):
    """A client of a server over memory."""
    here, there = pair()
    scene.start(serve_stream, things(), there)
    return await scene.enter(connect(here))


def quick():
    return carry(as_byte_stream(QuickStream()), 1000)


def reader() -> CallReader:
    lifecycle = Lifecycle(established=True, peer=str)
    return CallReader(quick(), list, lifecycle, lambda: None, CONFIG)


# -- the client ---------------------------------------------------------------------------------


@row("ttrpc.client.client.connect", "entering")
async def _(scene: Scene) -> Call:
    manager = connect(QuickStream())
    scene.stack.push_async_exit(manager)
    return manager.__aenter__


@row("ttrpc.client.client.connect", "leaving")
async def _(scene: Scene) -> Call:
    return await leaving(connect(QuickStream()))


@row("ttrpc.client.client.Client.unary")
async def _(scene: Scene) -> Call:
    return partial((await client_of(scene)).unary, ECHO, b"x")


@row("ttrpc.client.client.Client.unary", "the connection is over")
async def _(scene: Scene) -> Call:
    client = await client_of(scene)
    client._connection.lifecycle.close()
    return raising(trio.ClosedResourceError, partial(client.unary, ECHO, b"x"))


@row("ttrpc.client.client.Client.wait_closed", "over already")
async def _(scene: Scene) -> Call:
    client = await client_of(scene)
    client._connection.lifecycle.close()
    return client.wait_closed


def open_row(kind: str, *arguments: object) -> None:
    @row(f"ttrpc.client.client.Client.{kind}", only_cancelled=True)
    async def _(scene: Scene) -> Call:
        client = await client_of(scene)

        async def enter() -> None:
            async with getattr(client, kind)(*arguments):
                pass

        return enter


open_row("server_stream", COUNT, b"1")
open_row("client_stream", JOIN)
open_row("bidi_stream", CHAT)


async def stream_of(scene: Scene, method):
    client = await client_of(scene)
    opened = client.client_stream if method is JOIN else client.bidi_stream
    return await scene.enter(opened(method))


@row("ttrpc.client.streams.ClientStream.send", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return partial((await stream_of(scene, JOIN)).send, b"x")


@row("ttrpc.client.streams.BidiStream.send", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return partial((await stream_of(scene, CHAT)).send, b"x")


@row("ttrpc.client.streams.ClientStream.end")
async def _(scene: Scene) -> Call:
    return (await stream_of(scene, JOIN)).end


@row("ttrpc.client.streams.ClientStream.end", "ended already")
async def _(scene: Scene) -> Call:
    call = await stream_of(scene, JOIN)
    await call.end()
    return call.end


@row("ttrpc.client.streams.BidiStream.end")
async def _(scene: Scene) -> Call:
    return (await stream_of(scene, CHAT)).end


@row("ttrpc.client.streams.ClientStream.reply", "it is here")
async def _(scene: Scene) -> Call:
    call = await stream_of(scene, JOIN)
    await call.end()
    await trio.testing.wait_all_tasks_blocked()
    return call.reply


@row("ttrpc.client.streams.ClientStream.reply", "received already")
async def _(scene: Scene) -> Call:
    call = await stream_of(scene, JOIN)
    await call.reply()
    return raising(trio.ClosedResourceError, call.reply)


@row("ttrpc.client.connection.ClientConnection.flush", "nothing is queued")
async def _(scene: Scene) -> Call:
    return (await client_of(scene))._connection.flush


@row("ttrpc.client.connection.ClientConnection.run", "over already")
async def _(scene: Scene) -> Call:
    made = ClientConnection(quick(), CONFIG)
    made.lifecycle.close()
    return made.run


@row("ttrpc.client.connection.ClientConnection.run", "the peer is gone")
async def _(scene: Scene) -> Call:
    return ClientConnection(quick(), CONFIG).run


# -- messages -----------------------------------------------------------------------------------


async def replies(scene: Scene):
    client = await client_of(scene)
    stream = await scene.enter(client.server_stream(COUNT, b"3"))
    await trio.testing.wait_all_tasks_blocked()
    return stream


@row("ttrpc.inbox.Messages.receive", "a message is here")
async def _(scene: Scene) -> Call:
    return (await replies(scene)).receive


@row("ttrpc.inbox.Messages.receive", "at the end")
async def _(scene: Scene) -> Call:
    stream = await replies(scene)
    async for _ in stream:
        pass
    return raising(trio.EndOfChannel, stream.receive)


@row("ttrpc.inbox.Messages.receive", "closed")
async def _(scene: Scene) -> Call:
    stream = await replies(scene)
    stream.close()
    return raising(trio.ClosedResourceError, stream.receive)


@row("ttrpc.inbox.Messages.__anext__", "a message is here", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return (await replies(scene)).__anext__


@row("ttrpc.inbox.Messages.aclose")
async def _(scene: Scene) -> Call:
    return (await replies(scene)).aclose


@row("ttrpc.inbox.MessageInbox.wait_drained", "it has room")
async def _(scene: Scene) -> Call:
    return MessageInbox(Unread(100), 100).wait_drained


# -- both ends ----------------------------------------------------------------------------------


@row("ttrpc.reader.CallReader.wait", "bytes have arrived")
async def _(scene: Scene) -> Call:
    here, there = pair()
    await there.send_all(bytes(10))
    lifecycle = Lifecycle(established=True, peer=str)
    transport = carry(as_byte_stream(here), 1000)
    return CallReader(transport, list, lifecycle, lambda: None, CONFIG).wait


@row("ttrpc.reader.CallReader.wait", "frames are left")
async def _(scene: Scene) -> Call:
    made = reader()
    made.frames = [bytes(10)]
    return made.wait


@row("ttrpc.reader.CallReader.wait", "the stream has ended, and the connection")
async def _(scene: Scene) -> Call:
    made = reader()
    await made.wait()
    made._lifecycle.close()
    return made.wait


@row("ttrpc.reader.CallReader.wait", "an inbox that has room by now")
async def _(scene: Scene) -> Call:
    made = reader()
    made.hold(MessageInbox(Unread(100), 100), lambda: None)
    return made.wait


# -- the server ---------------------------------------------------------------------------------


def server_connection(transport) -> ServerConnection:
    methods = ServiceMethods(as_services(things()), ())
    return ServerConnection(transport, methods, CONFIG, Stopping())


@row("ttrpc.server.connection.ServerConnection.run", "over already")
async def _(scene: Scene) -> Call:
    made = server_connection(quick())
    made.lifecycle.close()
    return made.run


@row("ttrpc.server.connection.ServerConnection.run", "the peer is gone")
async def _(scene: Scene) -> Call:
    return server_connection(quick()).run


@row("ttrpc.server.server.serve_stream", "the peer is gone")
async def _(scene: Scene) -> Call:
    return partial(serve_stream, things(), QuickStream())


@row("ttrpc.server.server.serve")
async def _(scene: Scene) -> Call:
    return endless(serve, things(), f"ttrpc+unix://{scene.directory}/s")


@row("connection.engine.Engine.run", "over already")
async def _(scene: Scene) -> Call:
    lifecycle = Lifecycle(established=True, peer=str)
    outbox, workload = Outbox(1, 1, 1), Workload(1, Account(1, "max_requests_size", "wait"))
    lifecycle.on_end.append(workload.end)
    engine = Engine(quick(), lifecycle, outbox, workload, Crew(workload, outbox), 1)
    lifecycle.close()

    async def begin(nursery: trio.Nursery) -> None:
        """No crew is needed."""

    return partial(engine.run, reader(), begin)
