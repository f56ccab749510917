"""The table of checkpoints: `rsocket_trio.connection`."""

from __future__ import annotations

from functools import partial
from math import inf

import trio

from rsocket_trio import entrance
from rsocket_trio.connection import establish
from rsocket_trio.connection.admission import OpenAdmission
from rsocket_trio.connection.dialling import wait_to_dial
from rsocket_trio.connection.granting import grant_leases
from rsocket_trio.connection.keepalive import watch
from rsocket_trio.connection.leases import Leases
from rsocket_trio.connection.link_watch import watch_link
from rsocket_trio.connection.outbox import Outbox
from rsocket_trio.connection.patient_requests import PatientRequests
from rsocket_trio.connection.reader import Reader
from rsocket_trio.connection.reconnect import Reconnect
from rsocket_trio.connection.resumable_link import ResumableLink
from rsocket_trio.connection.resume_client import ClientSession
from rsocket_trio.connection.resume_options import ClientResume, ServerResume
from rsocket_trio.connection.resume_server import Sessions
from rsocket_trio.connection.resumed_leases import run_leases
from rsocket_trio.connection.room import Room
from rsocket_trio.connection.session_store import MemorySessionStore
from rsocket_trio.connection.succession import Succession
from rsocket_trio.connection.writer_state import WriterState
from rsocket_trio.errors import ConnectFailed, RejectedSetup
from rsocket_trio.frames import KeepaliveFrame, SetupFrame
from rsocket_trio.frames.header import FrameType
from rsocket_trio.interactions.operation import Operation
from rsocket_trio.lease import Lease, LeaseOptions
from rsocket_trio.payload import Payload
from rsocket_trio.protocol.keepalive_clock import KeepaliveClock
from rsocket_trio.protocol.retry import Retry
from rsocket_trio.transports.memory import memory_transport_pair
from tests.checkpoints.scene import (
    CONFIG,
    Call,
    Quick,
    Scene,
    connection,
    endless,
    raising,
    row,
)

SETUP = SetupFrame(1, 0, keepalive_interval_ms=1000, max_lifetime_ms=5000).encode()
REQUEST_STREAM = FrameType.REQUEST_STREAM.value
KEEPALIVE = KeepaliveFrame(respond=True).encode()


@row("connection.connection.Connection.run", "over already")
async def _(scene: Scene) -> Call:
    made, _ = connection()
    made.lifecycle.close()
    return partial(made.run, [], interval=None, max_lifetime=inf)


@row("connection.connection.Connection.run", "the peer is gone")
async def _(scene: Scene) -> Call:
    made, there = connection()
    await there.aclose()
    return partial(made.run, [], interval=None, max_lifetime=inf)


@row("connection.establish.receive_setup")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    await there.send_frames([SETUP])
    return partial(establish.receive_setup, here.receive_frames, CONFIG)


@row("connection.establish.refuse")
async def _(scene: Scene) -> Call:
    here, _ = memory_transport_pair()
    return partial(establish.refuse, here, RejectedSetup("no"), CONFIG)


@row("connection.establish.refuse", "the peer is gone")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    await there.aclose()
    return partial(establish.refuse, here, RejectedSetup("no"), CONFIG)


@row("connection.establish.send_away")
async def _(scene: Scene) -> Call:
    here, _ = memory_transport_pair()
    return partial(establish.send_away, here, 0x102, b"", CONFIG)


@row("connection.establish.wait_accepted", "accepted already")
async def _(scene: Scene) -> Call:
    made, _ = connection(client=True)
    made.lifecycle.acceptance.set()
    return partial(establish.wait_accepted, made)


@row("connection.lifecycle.Lifecycle.run_out", "over already")
async def _(_scene: Scene) -> Call:
    made, _ = connection()
    made.lifecycle.close()
    return made.lifecycle.run_out


def session(transport) -> ClientSession:
    return ClientSession(ClientResume(), trio.sleep_forever, transport, CONFIG)


async def over(scene: Scene) -> tuple[ClientSession, partial]:
    """A session whose connection is over."""
    here, _ = memory_transport_pair()
    made = session(here)
    driven, _ = connection(client=True)
    driven.lifecycle.close()
    return made, driven


@row("connection.dialling.wait_to_dial", "too late")
async def _(scene: Scene) -> Call:
    return partial(wait_to_dial, 0, trio.current_time(), 1)


def succession() -> Succession:
    """A client whose only attempt finds no server."""

    class Nothing:
        renewable = False

        async def setup(self, _attempt) -> Payload:
            raise ConnectFailed("no server")

    options = Reconnect(retry=Retry(max_attempts=1), wait=0.001)
    return Succession(options, None, None, CONFIG, Nothing())


@row("connection.succession.Succession.run", "no server")
async def _(_scene: Scene) -> Call:
    return succession().run


@row("connection.patient_requests.PatientRequests.wait_for", "closed")
async def _(_scene: Scene) -> Call:
    made = succession()
    made.close()
    wait = partial(PatientRequests(made).wait_for, other_than=None)
    return raising(trio.ClosedResourceError, wait)


@row("connection.reconnect.StateChanges.__anext__", "the first one")
async def _(scene: Scene) -> Call:
    return (await scene.requester()).states().__anext__


@row("connection.connection.Connection.run_as_client", "over already")
async def _(_scene: Scene) -> Call:
    made, _ = connection(client=True)
    made.lifecycle.close()
    return made.run_as_client


@row("connection.resume_client.ClientSession.run", "over already")
async def _(scene: Scene) -> Call:
    made, driven = await over(scene)
    return partial(made.run, driven)


@row("connection.resume_server.ServerSession.run", "over already")
async def _(scene: Scene) -> Call:
    here, _ = memory_transport_pair()
    setup = SetupFrame(1, 0, keepalive_interval_ms=1000, max_lifetime_ms=5000)
    made = await Sessions(ServerResume(), CONFIG).begin(setup, b"t" * 16, here, [])
    driven, _ = connection()
    driven.lifecycle.close()
    return partial(made.run, driven)


@row("connection.session_store.MemorySessionStore.add")
async def _(scene: Scene) -> Call:
    return partial(MemorySessionStore().add, b"t", object())


@row("connection.session_store.MemorySessionStore.find", "there is none")
async def _(scene: Scene) -> Call:
    return partial(MemorySessionStore().find, b"t")


@row("connection.session_store.MemorySessionStore.remove", "there is none")
async def _(scene: Scene) -> Call:
    return partial(MemorySessionStore().remove, b"t", object())


@row("connection.keepalive.watch", "silent for long")
async def _(scene: Scene) -> Call:
    made, _ = connection()
    clock = KeepaliveClock(None, 1.0, trio.current_time() - 100)
    return partial(watch, clock, Quick(), made.outbox, made.lifecycle)


@row("connection.keepalive.watch", "nothing is due")
async def _(scene: Scene) -> Call:
    made, _ = connection()
    clock = KeepaliveClock(None, 1000.0, trio.current_time())
    return endless(watch, clock, Quick(), made.outbox, made.lifecycle)


def leases() -> tuple[Leases, Outbox]:
    made, _ = connection(lease=LeaseOptions(Lease(1, 1000.0)))
    assert made.leases is not None
    return made.leases, made.outbox


@row("connection.granting.grant_leases")
async def _(scene: Scene) -> Call:
    return endless(grant_leases, *leases())


@row("connection.resumed_leases.run_leases")
async def _(scene: Scene) -> Call:
    return endless(run_leases, *leases(), Quick())


@row("connection.resumed_leases.run_leases", "the session is over")
async def _(scene: Scene) -> Call:
    made = link(Quick())
    made.fail("it is over")
    return partial(run_leases, *leases(), made)


@row("connection.outbox.Outbox.wait_idle", "idle already")
async def _(scene: Scene) -> Call:
    return Outbox(1000, 1000, 1000).wait_idle


@row("connection.outbox.Outbox.wait_idle", "discarded")
async def _(scene: Scene) -> Call:
    outbox = Outbox(1000, 1000, 1000)
    outbox.put(b"frame")
    outbox.discard()
    return outbox.wait_idle


@row("connection.admission.OpenAdmission.wait", "there is room", only_cancelled=True)
async def _(scene: Scene) -> Call:
    return partial(OpenAdmission(Outbox(1000, 1000, 1000)).wait, 10)


@row("connection.admission.LeasedAdmission.wait", "a lease and room", only_cancelled=True)
async def _(scene: Scene) -> Call:
    made, _ = connection(lease=LeaseOptions())
    made.leases.held.replace(10, 10, trio.current_time())
    return partial(made.admission.wait, 10)


@row("entrance.over")
async def _(scene: Scene) -> Call:
    return raising(
        trio.ClosedResourceError, partial(entrance.over, trio.ClosedResourceError("closed"))
    )


@row("connection.stream_sender.StreamSender.open", "there is room", only_cancelled=True)
async def _(scene: Scene) -> Call:
    made, _ = connection()
    return partial(made.sender.open, Operation(made.sender), REQUEST_STREAM, 0, 1, Payload(b"data"))


@row("connection.room.Room.wait", "handed out in the next turn")
async def _(scene: Scene) -> Call:
    room = Room(10)
    assert room.try_take(10)

    async def give_back() -> None:
        room.give_back(10)

    async def wait() -> None:
        scene.nursery.start_soon(give_back)
        await room.wait(1)

    return wait


@row("connection.writer_state.WriterState.sleep", "woken in the next turn")
async def _(scene: Scene) -> Call:
    state = WriterState()

    async def wake() -> None:
        state.wake()

    async def sleep() -> None:
        scene.nursery.start_soon(wake)
        await state.sleep()

    return sleep


@row("connection.reader.Reader.wait")
async def _(scene: Scene) -> Call:
    return (await reading([KEEPALIVE])).wait


@row("connection.reader.Reader.wait", "frames that came before")
async def _(scene: Scene) -> Call:
    return (await reading(early=[KEEPALIVE])).wait


@row("connection.reader.Reader.wait", "the second batch of very many")
async def _(scene: Scene) -> Call:
    reader = await reading(early=[KEEPALIVE] * 3000)
    assert reader.deliver()
    return reader.wait


async def reading(*batches, early=()) -> Reader:
    made, there = connection()
    for batch in batches:
        await there.send_frames(batch)
    clock = KeepaliveClock(None, inf, trio.current_time())
    return Reader(
        made.transport,
        made._dispatcher,
        made._zero,
        made.lifecycle,
        clock,
        made.workload,
        list(early),
    )


def link(transport) -> ResumableLink:
    return ResumableLink(transport, 10_000, interval=None, max_lifetime=1000.0)


async def attached(received=()) -> ResumableLink:
    transport = Quick()
    made = link(transport)
    made.attach(transport, received=received)
    return made


@row("connection.resumable_link.ResumableLink.receive_frames", "frames that came before")
async def _(scene: Scene) -> Call:
    return (await attached(received=[KEEPALIVE])).receive_frames


@row("connection.resumable_link.ResumableLink.receive_frames")
async def _(scene: Scene) -> Call:
    here, there = memory_transport_pair()
    made = link(here)
    made.attach(here)
    await there.send_frames([KEEPALIVE])
    return made.receive_frames


@row("connection.resumable_link.ResumableLink.send_frames")
async def _(scene: Scene) -> Call:
    here, _ = memory_transport_pair()
    made = link(here)
    made.attach(here)
    return partial(made.send_frames, [KEEPALIVE])


@row("connection.resumable_link.ResumableLink.close_sending")
async def _(scene: Scene) -> Call:
    here, _ = memory_transport_pair()
    made = link(here)
    made.attach(here)
    return made.close_sending


@row("connection.resumable_link.ResumableLink.aclose")
async def _(scene: Scene) -> Call:
    return (await attached()).aclose


@row("connection.resumable_link.ResumableLink.aclose", "closed already")
async def _(scene: Scene) -> Call:
    made = await attached()
    await made.aclose()
    return made.aclose


@row("connection.link_watch.watch_link")
async def _(scene: Scene) -> Call:
    return endless(watch_link, await attached())


@row("connection.link_watch.watch_link", "over already")
async def _(scene: Scene) -> Call:
    made = await attached()
    made.fail("it is over")
    return partial(watch_link, made)


@row("connection.resumable_link.ResumableLink.send_frames", "over already")
async def _(scene: Scene) -> Call:
    made = await attached()
    made.fail("it is over")
    return raising(trio.BrokenResourceError, partial(made.send_frames, [KEEPALIVE]))


@row("connection.resumable_link.ResumableLink.receive_frames", "over already")
async def _(scene: Scene) -> Call:
    made = await attached()
    made.fail("it is over")
    return raising(trio.BrokenResourceError, made.receive_frames)
