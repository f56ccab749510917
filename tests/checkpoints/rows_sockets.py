"""Rows of the table: byte streams by address, and the sockets below them."""

from __future__ import annotations

import os
import socket
from contextlib import nullcontext, suppress
from functools import partial

import trio
import trio.testing

from rsocket_trio import os_support
from rsocket_trio.lifespan import served_within
from rsocket_trio.sockets.byte_stream import ByteStream, TransportInfo
from rsocket_trio.sockets.connection_limit import ConnectionCounts
from rsocket_trio.sockets.departure import wait_gone
from rsocket_trio.sockets.dial import dial
from rsocket_trio.sockets.direct import DirectStream
from rsocket_trio.sockets.goodbyes import Goodbyes
from rsocket_trio.sockets.hybrid_vsock import request_port
from rsocket_trio.sockets.listen import Arrivals, listen_for, open_listeners
from rsocket_trio.sockets.patient_listener import PatientListener
from rsocket_trio.sockets.readiness import Watch, until_readable
from rsocket_trio.sockets.serving import Serving
from rsocket_trio.sockets.tcp import connect_tcp, listen_tcp
from rsocket_trio.sockets.unix import connect_unix, listen_unix
from rsocket_trio.sockets.vsock import connect_vsock, listen_vsock
from rsocket_trio.ttrpc.addresses import ttrpc_uri
from rsocket_trio.uri import Uri, parse_uri
from tests.checkpoints.scene import (
    Call,
    Scene,
    endless,
    row,
)
from tests.vsock import imitated_vsock

ANY_PORT = parse_uri("tcp://127.0.0.1:0")


# -- sockets


async def sockets(scene: Scene) -> tuple[DirectStream, trio.SocketStream]:
    listener = (await scene_listeners(scene))[0]
    client = await connect_tcp(address(listener))
    scene.stack.push_async_callback(client.aclose)
    server = await listener.accept()
    scene.stack.push_async_callback(server.aclose)
    return DirectStream(client), server


async def scene_listeners(scene: Scene) -> list[trio.SocketListener]:
    listeners = await listen_tcp(ANY_PORT)
    for listener in listeners:
        scene.stack.push_async_callback(listener.aclose)
    return listeners


def address(listener: trio.SocketListener):
    return parse_uri(f"tcp://127.0.0.1:{listener.socket.getsockname()[1]}")


@row("sockets.direct.DirectStream.wait_send_all_might_not_block")
async def _(scene: Scene) -> Call:
    return (await sockets(scene))[0].wait_send_all_might_not_block


@row("sockets.direct.DirectStream.send_all", only_cancelled=True)
async def _(scene: Scene) -> Call:
    stream, _ = await sockets(scene)
    return partial(stream.send_all, b"data")


@row("sockets.direct.DirectStream.receive_some")
async def _(scene: Scene) -> Call:
    stream, other = await sockets(scene)
    await other.send_all(b"data")
    return stream.receive_some


@row("sockets.direct.DirectStream.receive_some", "the end")
async def _(scene: Scene) -> Call:
    stream, other = await sockets(scene)
    await other.aclose()
    return stream.receive_some


@row("sockets.direct.DirectStream.wait_received")
async def _(scene: Scene) -> Call:
    stream, other = await sockets(scene)
    await other.send_all(b"data")
    return stream.wait_received


@row("sockets.departure.wait_gone")
async def _(scene: Scene) -> Call:
    stream, other = await sockets(scene)
    await stream.send_all(b"unread, so that the other end resets the connection")
    await other.aclose()
    return partial(wait_gone, stream)


@row("sockets.readiness.until_readable")
async def _(scene: Scene) -> Call:
    here, there = await sockets(scene)
    await there.send_all(b"x")
    return partial(until_readable, here.socket)


@row("sockets.readiness.Watch.wait")
async def _(scene: Scene) -> Call:
    stream, other = await sockets(scene)
    await other.send_all(b"data")
    return partial(watch_of(scene).wait, stream.socket)


@row("sockets.readiness.Watch.wait", "many connections, and bytes have arrived")
async def _(scene: Scene) -> Call:
    stream, other = await sockets(scene)
    watch = watch_of(scene)
    watch.readiness.shared = os_support.EPOLL
    scene.stack.callback(setattr, watch.readiness, "shared", False)
    await other.send_all(b"data")
    return partial(watch.wait, stream.socket)


@row("sockets.readiness.Watch.wait", "many connections, and the stream has ended")
async def _(scene: Scene) -> Call:
    stream, _ = await sockets(scene)
    watch = watch_of(scene)
    watch.readiness.shared = os_support.EPOLL
    scene.stack.callback(setattr, watch.readiness, "shared", False)
    watch.ended = True
    return partial(watch.wait, stream.socket)


def watch_of(scene: Scene) -> Watch:
    watch = Watch()
    scene.stack.callback(watch.close)
    return watch


@row("sockets.direct.DirectStream.send_eof")
async def _(scene: Scene) -> Call:
    return (await sockets(scene))[0].send_eof


@row("sockets.direct.DirectStream.aclose")
async def _(scene: Scene) -> Call:
    return (await sockets(scene))[0].aclose


@row("sockets.tcp.connect_tcp")
async def _(scene: Scene) -> Call:
    listener = (await scene_listeners(scene))[0]

    async def call() -> None:
        scene.stack.push_async_callback((await connect_tcp(address(listener))).aclose)

    return call


@row("sockets.tcp.listen_tcp")
async def _(scene: Scene) -> Call:
    return partial(scene_listeners, scene)


@row("sockets.patient_listener.PatientListener.accept")
async def _(scene: Scene) -> Call:
    listener = (await scene_listeners(scene))[0]
    scene.stack.push_async_callback((await connect_tcp(address(listener))).aclose)

    async def call() -> None:
        stream = await PatientListener(listener, ANY_PORT).accept()
        scene.stack.push_async_callback(stream.aclose)

    return call


@row("sockets.patient_listener.PatientListener.aclose")
async def _(scene: Scene) -> Call:
    return PatientListener((await scene_listeners(scene))[0], ANY_PORT).aclose


@row("sockets.unix.listen_unix")
async def _(scene: Scene) -> Call:
    async def call() -> None:
        listener = await listen_unix(parse_uri(f"unix://{scene.directory}/socket"))
        scene.stack.push_async_callback(listener.aclose)

    return call


@row("sockets.unix.connect_unix")
async def _(scene: Scene) -> Call:
    uri = parse_uri(f"unix://{scene.directory}/socket")
    scene.stack.push_async_callback((await listen_unix(uri)).aclose)

    async def call() -> None:
        scene.stack.push_async_callback((await connect_unix(uri)).aclose)

    return call


@row("sockets.unix.UnixListener.accept")
async def _(scene: Scene) -> Call:
    uri = parse_uri(f"unix://{scene.directory}/socket")
    listener = await listen_unix(uri)
    scene.stack.push_async_callback(listener.aclose)
    scene.stack.push_async_callback((await connect_unix(uri)).aclose)

    async def call() -> None:
        scene.stack.push_async_callback((await listener.accept()).aclose)

    return call


@row("sockets.unix.UnixListener.aclose")
async def _(scene: Scene) -> Call:
    return (await listen_unix(parse_uri(f"unix://{scene.directory}/socket"))).aclose


@row("sockets.vsock.listen_vsock")
async def _(scene: Scene) -> Call:
    scene.stack.enter_context(imitated_vsock())

    async def call() -> None:
        scene.stack.push_async_callback((await listen_vsock(ttrpc_uri("vsock://any:0"))).aclose)

    return call


@row("sockets.vsock.connect_vsock")
async def _(scene: Scene) -> Call:
    scene.stack.enter_context(imitated_vsock())
    listener = await listen_vsock(ttrpc_uri("vsock://any:0"))
    scene.stack.push_async_callback(listener.aclose)
    uri = ttrpc_uri(f"vsock://local:{listener.socket.getsockname()[1]}")

    async def call() -> None:
        scene.stack.push_async_callback((await connect_vsock(uri)).aclose)

    return call


@row("sockets.hybrid_vsock.request_port")
async def _(scene: Scene) -> Call:
    here, there = map(trio.SocketStream, trio.socket.socketpair())
    scene.stack.push_async_callback(here.aclose)
    scene.stack.push_async_callback(there.aclose)
    await there.send_all(b"OK 1024\n")
    return partial(request_port, here, 1024)


@row("sockets.dial.dial", "a descriptor")
async def _(scene: Scene) -> Call:
    here, there = socket.socketpair()
    scene.stack.callback(there.close)
    uri = ttrpc_uri(f"fd:{here.detach()}")

    async def call() -> None:
        await dial(uri, scene.stack.enter_async_context, handshake_timeout=5)

    scene.stack.callback(close_if_open, int(uri.host))
    return call


def close_if_open(descriptor: int) -> None:
    with suppress(OSError):
        os.close(descriptor)


@row("sockets.dial.dial")
async def _(scene: Scene) -> Call:
    uri = address((await scene_listeners(scene))[0])

    async def call() -> None:
        await dial(uri, scene.stack.enter_async_context, handshake_timeout=5)

    return call


@row("sockets.byte_stream.ByteStream.aclose")
async def _(scene: Scene) -> Call:
    return ByteStream((await sockets(scene))[0], TransportInfo(scheme="tcp")).aclose


async def hold(stream: ByteStream) -> ByteStream:
    """Make nothing else out of a stream."""
    return stream


@row("sockets.listen.listen_for")
async def _(scene: Scene) -> Call:
    arrivals = Arrivals(
        shake_hands=hold,
        handle=ByteStream.aclose,
        ssl_context=None,
        handshake_timeout=5,
        counts=ConnectionCounts(None),
    )
    return endless(listen_for, arrivals, ANY_PORT)


@row("sockets.listen.open_listeners")
async def _(scene: Scene) -> Call:
    async def call() -> None:
        _, listeners = await open_listeners(ANY_PORT)
        for each in listeners:
            scene.stack.push_async_callback(each.aclose)

    return call


@row("sockets.goodbyes.Goodbyes.run")
async def _(scene: Scene) -> Call:
    return endless(Goodbyes().run)


@row("sockets.serving.Serving.run")
async def _(scene: Scene) -> Call:
    serving = Serving(Goodbyes())

    async def listen(uri: Uri, *, handler_nursery, drain_nursery, task_status) -> None:
        task_status.started([uri])

    async def call() -> None:
        await serving.run([(ANY_PORT, listen)], partial(serving.stop, 0, 0, 0), lambda run: run())

    return call


@row("lifespan.served_within")
async def _(scene: Scene) -> Call:
    return lambda: served_within(nullcontext(), trio.lowlevel.checkpoint, lambda: None)


@row("sockets.serving.Serving.wait_stopped")
async def _(scene: Scene) -> Call:
    serving = Serving(Goodbyes())
    await serving.run([], lambda: serving.stop(0, 0, 0), lambda run: run())
    return serving.wait_stopped
