"""The table of checkpoints: `rsocket_trio.transports`, except TLS and WebSocket."""

from __future__ import annotations

from functools import partial

import trio
import trio.testing

from rsocket_trio import os_support
from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.frames import KeepaliveFrame
from rsocket_trio.sockets.byte_stream import ByteStream, TransportInfo
from rsocket_trio.sockets.connection_limit import ConnectionCounts
from rsocket_trio.sockets.dial import dial
from rsocket_trio.sockets.direct import DirectStream
from rsocket_trio.sockets.listen import Arrivals, listen_for
from rsocket_trio.sockets.patient_listener import PatientListener
from rsocket_trio.sockets.readiness import Watch
from rsocket_trio.sockets.serving import Serving
from rsocket_trio.sockets.tcp import connect_tcp, listen_tcp
from rsocket_trio.sockets.unix import connect_unix, listen_unix
from rsocket_trio.transports.dial import open_transport
from rsocket_trio.transports.listen import accept_transports
from rsocket_trio.transports.memory import memory_transport_pair
from rsocket_trio.transports.wrapper import TransportWrapper
from rsocket_trio.uri import Uri, parse_uri
from tests.checkpoints.scene import (
    Call,
    QuickStream,
    Scene,
    endless,
    leaving,
    over_bytes,
    raising,
    row,
)

FRAME = KeepaliveFrame(respond=True).encode()
LENGTH = len(FRAME).to_bytes(3, "big")
ANY_PORT = parse_uri("tcp://127.0.0.1:0")


# -- memory, wrappers


@row("transports.memory.MemoryTransport.send_frames")
async def _(scene: Scene) -> Call:
    return partial(memory_transport_pair()[0].send_frames, [FRAME])


@row("transports.memory.MemoryTransport.send_frames", "no frames")
async def _(scene: Scene) -> Call:
    return partial(memory_transport_pair()[0].send_frames, [])


@row("transports.memory.MemoryTransport.send_frames", "closed")
async def _(scene: Scene) -> Call:
    here, _ = memory_transport_pair()
    here.close()
    return raising(trio.ClosedResourceError, partial(here.send_frames, [FRAME]))


@row("transports.memory.MemoryTransport.receive_frames")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    await there.send_frames([FRAME])
    return here.receive_frames


@row("transports.memory.MemoryTransport.receive_frames", "the other end is closed")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    there.close()
    return here.receive_frames


@row("transports.memory.MemoryTransport.close_sending")
async def _(scene: Scene) -> Call:
    return memory_transport_pair()[0].close_sending


@row("transports.memory.MemoryTransport.aclose")
async def _(scene: Scene) -> Call:
    return memory_transport_pair()[0].aclose


@row("transports.wrapper.TransportWrapper.aclose")
async def _(scene: Scene) -> Call:
    return TransportWrapper(memory_transport_pair()[0]).aclose


# -- byte streams


@row("transports.byte_stream.ByteStreamTransport.send_frames", only_cancelled=True)
async def _(scene: Scene) -> Call:
    stream, _ = await sockets(scene)
    return partial(over_bytes(stream).send_frames, [FRAME])


@row("transports.byte_stream.ByteStreamTransport.receive_frames")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_all(LENGTH + FRAME)
    return over_bytes(here).receive_frames


@row("transports.byte_stream.ByteStreamTransport.receive_frames", "pushed back")
async def _(scene: Scene) -> Call:
    transport = over_bytes(QuickStream())
    transport.push_back(LENGTH + FRAME)
    return transport.receive_frames


@row("transports.byte_stream.ByteStreamTransport.receive_frames", "the rest of very many")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_all((LENGTH + FRAME) * 1000)
    transport = over_bytes(here)
    await transport.receive_frames()
    return transport.receive_frames


@row("transports.byte_stream.ByteStreamTransport.receive_frames", "a frame that is too long")
async def _(scene: Scene) -> Call:
    transport = over_bytes(QuickStream(LENGTH + FRAME + b"\xff\xff\xff"), max_frame_size=100)
    assert await transport.receive_frames() == [FRAME]
    return raising(RemoteProtocolError, transport.receive_frames)


@row("transports.byte_stream.ByteStreamTransport.receive_frames", "after the end")
async def _(scene: Scene) -> Call:
    transport = over_bytes(QuickStream())
    assert await transport.receive_frames() == []
    return transport.receive_frames


@row("transports.byte_stream.ByteStreamTransport.receive_frames", "after an end inside a frame")
async def _(scene: Scene) -> Call:
    transport = over_bytes(QuickStream(LENGTH))
    await raising(trio.BrokenResourceError, transport.receive_frames)()
    return raising(trio.BrokenResourceError, transport.receive_frames)


@row("transports.byte_stream.ByteStreamTransport.close_sending")
async def _(scene: Scene) -> Call:
    stream, _ = await sockets(scene)
    return over_bytes(stream).close_sending


@row("transports.byte_stream.ByteStreamTransport.aclose")
async def _(scene: Scene) -> Call:
    return over_bytes(trio.testing.memory_stream_pair()[0]).aclose


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


@row("transports.dial.open_transport", "entering")
async def _(scene: Scene) -> Call:
    uri = address((await scene_listeners(scene))[0])
    return partial(scene.enter, open_transport(uri))


@row("transports.dial.open_transport", "leaving")
async def _(scene: Scene) -> Call:
    return await leaving(open_transport(address((await scene_listeners(scene))[0])))


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


@row("transports.listen.accept_transports")
async def _(scene: Scene) -> Call:
    async def handle(transport) -> None:
        pass

    return endless(accept_transports, ANY_PORT, handle)


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


@row("sockets.serving.Serving.run")
async def _(scene: Scene) -> Call:
    serving = Serving()

    async def listen(uri: Uri, *, handler_nursery, task_status) -> None:
        task_status.started([uri])

    async def call() -> None:
        await serving.run([(ANY_PORT, listen)], partial(serving.stop, 0))

    return call


@row("sockets.serving.Serving.wait_stopped")
async def _(scene: Scene) -> Call:
    serving = Serving()
    await serving.run([], lambda: serving.stop(0))
    return serving.wait_stopped
