"""Resuming operation at a server, checked from the wire.

Modules of rsocket_trio.connection: resume_server, resumed_leases.
"""

from __future__ import annotations

import attrs
import trio
import trio.testing

from rsocket_trio import Lease, LeaseOptions
from rsocket_trio.frames import (
    CancelFrame,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.responder import Responder
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.in_memory import frame_peer_client
from rsocket_trio.testing.peer import KnownAnswers
from tests.rules.resumable import ANSWER, REQUEST, resumable, setup


async def position_of(peer: FramePeer) -> int:
    """Return the position of the frames that the server says it has received."""
    await peer.send(KeepaliveFrame(respond=True, data=b"where?"))
    while (answer := await peer.receive(KeepaliveFrame)).data != b"where?":
        pass
    return answer.position


async def test_positions_are_in_keepalive():
    """R-RESUME-02, R-RESUME-03: positions count the bytes of tracked frames only."""
    async with resumable() as server, server.session() as peer:
        assert await position_of(peer) == 0
        await peer.send(MetadataPushFrame(b"not tracked"), b"\0\0\0\0\xfe\0\0\0\0\1")
        assert await position_of(peer) == 0
        await peer.send(REQUEST)
        assert await peer.receive() == ANSWER
        assert await position_of(peer) == 10
        await peer.send(CancelFrame(1), RequestNFrame(99, 1))  # tracked, although it has no effect
        assert await position_of(peer) == 26


async def test_positions_are_zero_without_resumption():
    """R-RESUME-01: a session that cannot be resumed has no positions."""
    async with frame_peer_client(KnownAnswers()) as peer:
        await peer.send(REQUEST)
        await peer.receive(PayloadFrame)
        assert await position_of(peer) == 0


async def test_missed_frames_are_sent_again():
    """R-RESUME-14, R-RESUME-16: exactly the frames behind the client's position, in order."""
    async with resumable() as server:
        async with server.session() as peer:
            await peer.send(RequestStreamFrame(1, 3, data=b"5"))
            items = [await peer.receive(PayloadFrame) for _ in range(3)]
        async with server.resumed(received=7, available=0, position=11) as peer:
            assert [await peer.receive(PayloadFrame) for _ in range(2)] == items[1:]
            await peer.send(RequestNFrame(1, 2))
            assert [(await peer.receive(PayloadFrame)).data for _ in range(2)] == [b"3", b"4"]


async def test_a_session_is_resumed_many_times():
    """R-RESUME-08, R-RESUME-19: the token stays valid, and positions go on."""
    async with resumable() as server:
        async with server.session() as peer:
            await peer.send(REQUEST)
            assert await peer.receive() == ANSWER
        for turn in range(1, 4):
            async with server.resumed(10 * turn, 0, position=10 * turn) as peer:
                await peer.send(RequestResponseFrame(2 * turn + 1, data=b"ping"))
                assert (await peer.receive(PayloadFrame)).data == b"ping"
                assert await position_of(peer) == 10 * turn + 10


async def test_handlers_go_on_while_the_client_is_away():
    """R-RESUME-07: the answer to a request is kept for the client that comes back."""
    go = trio.Event()

    class Slow(Responder):
        async def request_response(self, payload):
            await go.wait()
            return payload

    async with resumable(Slow()) as server:
        async with server.session() as peer:
            await peer.send(REQUEST)
            await peer.expect_nothing()
        go.set()
        await trio.testing.wait_all_tasks_blocked()
        async with server.resumed(0, 0, position=10) as peer:
            assert await peer.receive() == ANSWER


async def test_the_newest_resume_wins():
    """R-RESUME-27: the old connection is dropped although it looks alive; no frame is lost."""
    async with resumable() as server:
        async with server.session() as old:
            await old.send(REQUEST)
            assert await old.receive() == ANSWER
            async with server.resumed(0, 0, position=10) as new:
                assert await new.receive() == ANSWER
                await old.expect_closed()
                await new.send(RequestResponseFrame(3, data=b"ping"))
                assert (await new.receive(PayloadFrame)).data == b"ping"


async def test_leases_begin_anew():
    """R-RESUME-21: the server sends a LEASE on each connection of the session."""
    async with resumable(lease=LeaseOptions(Lease(5, 10.0))) as server:
        async with server.dial() as peer:
            await peer.send(attrs.evolve(setup(), lease=True))
            assert (await peer.receive(LeaseFrame)).number_of_requests == 5
            await peer.expect_alive()
        for _ in range(2):
            async with server.resumed(0, 0, position=0) as peer:
                assert (await peer.receive(LeaseFrame)).number_of_requests == 5
