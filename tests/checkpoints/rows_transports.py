"""The table of checkpoints: `rsocket_trio.transports`, except TLS and WebSocket."""

from __future__ import annotations

from functools import partial

import trio
import trio.testing

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.frames import KeepaliveFrame
from rsocket_trio.transports.base import close_politely
from rsocket_trio.transports.dial import open_transport
from rsocket_trio.transports.listen import accept_transports
from rsocket_trio.transports.memory import memory_transport_pair
from rsocket_trio.transports.wrapper import TransportWrapper
from tests.checkpoints.rows_sockets import ANY_PORT, address, scene_listeners, sockets
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


@row("transports.base.FrameTransport.drop_received")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    await there.close_sending()
    return here.drop_received


@row("transports.base.close_politely")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    await there.aclose()
    return partial(close_politely, here)


@row("transports.wrapper.TransportWrapper.drop_received")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    await there.close_sending()
    return TransportWrapper(here).drop_received


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


@row("transports.byte_stream.ByteStreamTransport.drop_received")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_eof()
    return over_bytes(here).drop_received


@row("transports.byte_stream.ByteStreamTransport.drop_received", "ended already")
async def _(scene: Scene) -> Call:
    here, there = trio.testing.memory_stream_pair()
    await there.send_eof()
    transport = over_bytes(here)
    await transport.receive_frames()
    return transport.drop_received


@row("transports.byte_stream.ByteStreamTransport.aclose")
async def _(scene: Scene) -> Call:
    return over_bytes(trio.testing.memory_stream_pair()[0]).aclose


# -- by address


@row("transports.dial.open_transport", "entering")
async def _(scene: Scene) -> Call:
    uri = address((await scene_listeners(scene))[0])
    return partial(scene.enter, open_transport(uri))


@row("transports.dial.open_transport", "leaving")
async def _(scene: Scene) -> Call:
    return await leaving(open_transport(address((await scene_listeners(scene))[0])))


@row("transports.listen.accept_transports")
async def _(scene: Scene) -> Call:
    async def handle(transport) -> None:
        pass

    return endless(accept_transports, ANY_PORT, handle)
