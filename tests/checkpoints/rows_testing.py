"""The table of checkpoints: `rsocket_trio.testing`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import trio
import trio.testing

from rsocket_trio import serve_transport
from rsocket_trio.frames import CancelFrame, KeepaliveFrame, SetupFrame
from rsocket_trio.testing import in_memory
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.testing.fault_proxy import fault_proxy
from rsocket_trio.testing.faulty import FaultyStream, FaultyTransport
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.testing.serving import serving
from rsocket_trio.testing.transport_suite import check_transport
from rsocket_trio.transports.memory import memory_transport_pair
from tests.checkpoints.scene import Call, Scene, leaving, raising, row

ASKING = KeepaliveFrame(respond=True)
SETUP = SetupFrame(1, 0, keepalive_interval_ms=1000, max_lifetime_ms=5000)


@row("testing.cancel_everywhere.cancel_everywhere")
async def _(scene: Scene) -> Call:
    async def nothing() -> None:
        pass

    return partial(cancel_everywhere, nothing, nothing)


@row("testing.transport_suite.check_transport")
async def _(scene: Scene) -> Call:
    @asynccontextmanager
    async def pair():
        yield memory_transport_pair()

    return partial(check_transport, pair)


PAIRS = {
    "connected_pair": partial(in_memory.connected_pair, KnownAnswers()),
    "frame_peer_client": partial(in_memory.frame_peer_client, KnownAnswers()),
    "frame_peer_server": in_memory.frame_peer_server,
    "served": partial(in_memory.served, KnownAnswers()),
}
for _name, _make in PAIRS.items():

    @row(f"testing.in_memory.{_name}", "entering")
    async def _(scene: Scene, make=_make) -> Call:
        return partial(scene.enter, make())

    @row(f"testing.in_memory.{_name}", "leaving")
    async def _(scene: Scene, make=_make) -> Call:
        return await leaving(make())


ON_SOCKETS = {
    "fault_proxy.fault_proxy": partial(fault_proxy, "tcp://127.0.0.1:1"),
    "serving.serving": partial(serving, KnownAnswers()),
}
for _name, _make in ON_SOCKETS.items():

    @row(f"testing.{_name}", "entering")
    async def _(scene: Scene, make=_make) -> Call:
        return partial(scene.enter, make())

    @row(f"testing.{_name}", "leaving")
    async def _(scene: Scene, make=_make) -> Call:
        return await leaving(make())


@row("testing.leaks.assert_no_leaks", "leaving")
async def _(scene: Scene) -> Call:
    return await leaving(assert_no_leaks())


def faulty_stream(**faults) -> tuple[FaultyStream, trio.testing.MemorySendStream]:
    here, there = trio.testing.memory_stream_pair()
    return FaultyStream(here, **faults), there


@row("testing.faulty.FaultyStream.send_all")
async def _(scene: Scene) -> Call:
    return partial(faulty_stream()[0].send_all, b"data")


@row("testing.faulty.FaultyStream.send_all", "cut")
async def _(scene: Scene) -> Call:
    stream, _ = faulty_stream(cut_sent=2)
    return raising(trio.BrokenResourceError, partial(stream.send_all, b"data"))


@row("testing.faulty.FaultyStream.wait_send_all_might_not_block")
async def _(scene: Scene) -> Call:
    return faulty_stream()[0].wait_send_all_might_not_block


@row("testing.faulty.FaultyStream.receive_some")
async def _(scene: Scene) -> Call:
    stream, there = faulty_stream()
    await there.send_all(b"data")
    return stream.receive_some


@row("testing.faulty.FaultyStream.receive_some", "cut")
async def _(scene: Scene) -> Call:
    stream, _ = faulty_stream(cut_received=0)
    return raising(trio.BrokenResourceError, stream.receive_some)


@row("testing.faulty.FaultyStream.aclose")
async def _(scene: Scene) -> Call:
    return faulty_stream()[0].aclose


async def faulty_transport(**faults) -> FaultyTransport:
    here, there = memory_transport_pair()
    await there.send_frames([ASKING.encode()])
    return FaultyTransport(here, **faults)


@row("testing.faulty.FaultyTransport.send_frames")
async def _(scene: Scene) -> Call:
    return partial((await faulty_transport()).send_frames, [ASKING.encode()])


@row("testing.faulty.FaultyTransport.send_frames", "cut")
async def _(scene: Scene) -> Call:
    transport = await faulty_transport(cut_after_bytes=0)
    return raising(trio.BrokenResourceError, partial(transport.send_frames, [ASKING.encode()]))


@row("testing.faulty.FaultyTransport.receive_frames")
async def _(scene: Scene) -> Call:
    return (await faulty_transport()).receive_frames


@row("testing.faulty.FaultyTransport.receive_frames", "cut")
async def _(scene: Scene) -> Call:
    transport = await faulty_transport(cut_after_bytes=0)
    return raising(trio.BrokenResourceError, transport.receive_frames)


async def scripted(scene: Scene, *frames) -> FramePeer:
    """A script whose other end has sent frames already."""
    here, there = memory_transport_pair()
    other = await scene.enter(FramePeer(there))
    if frames:
        await other.send(*frames)
    return FramePeer(here)


@row("testing.frame_peer.FramePeer.send")
async def _(scene: Scene) -> Call:
    return partial((await scripted(scene)).send, ASKING)


@row("testing.frame_peer.FramePeer.receive")
async def _(scene: Scene) -> Call:
    return (await scripted(scene, CancelFrame(1))).receive


@row("testing.frame_peer.FramePeer.receive", "received already")
async def _(scene: Scene) -> Call:
    peer = await scripted(scene, CancelFrame(1), CancelFrame(3))
    await peer.receive()
    return peer.receive


@row("testing.frame_peer.FramePeer.expect_nothing")
async def _(scene: Scene) -> Call:
    return (await scripted(scene)).expect_nothing


@row("testing.frame_peer.FramePeer.drain")
async def _(scene: Scene) -> Call:
    return (await scripted(scene, ASKING)).drain


@row("testing.frame_peer.FramePeer.expect_closed")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    await there.aclose()
    return FramePeer(here).expect_closed


@row("testing.frame_peer.FramePeer.expect_alive")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    scene.start(serve_transport, KnownAnswers(), there)
    peer = await scene.enter(FramePeer(here))
    await peer.setup()
    return peer.expect_alive


@row("testing.frame_peer.FramePeer.setup")
async def _(scene: Scene) -> Call:
    return (await scripted(scene)).setup


@row("testing.frame_peer.FramePeer.accept")
async def _(scene: Scene) -> Call:
    return (await scripted(scene, SETUP, ASKING)).accept


@row("testing.frame_peer.FramePeer.answer_keepalive")
async def _(scene: Scene) -> Call:
    return (await scripted(scene, ASKING)).answer_keepalive


@row("testing.frame_peer.FramePeer.aclose")
async def _(scene: Scene) -> Call:
    return (await scripted(scene)).aclose
