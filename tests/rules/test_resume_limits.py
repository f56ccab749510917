"""The limits of resumable sessions at a server, checked from the wire.

Modules of rsocket_trio.connection: resume_options.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ServerResume
from rsocket_trio.config import ConnectionConfig
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame, KeepaliveFrame, PayloadFrame, RequestStreamFrame
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from tests.rules.resumable import OTHER, resumable, setup


async def test_the_number_of_sessions_is_limited():
    """Past `ServerResume.max_sessions` a client is refused; one that leaves makes room."""
    async with resumable(options=ServerResume(max_sessions=1)) as server:
        async with server.session() as peer:
            async with server.dial() as more:
                await more.send(setup(OTHER))
                await more.expect_closed(ErrorCode.REJECTED_SETUP)
            await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE))
            await peer.expect_closed()
        await trio.testing.wait_all_tasks_blocked()
        async with server.session(token=OTHER):
            pass


class Much(Responder):
    """More than a session may retain."""

    async def request_stream(self, payload):
        for _ in range(1000):
            yield Payload(b"x" * 1000)


LITTLE = ServerResume(max_retained_size=64 * 1024)


@pytest.mark.limits_row("RSocket: frames that a resumable session keeps for a client")
async def test_a_peer_that_confirms_nothing_costs_bounded_memory(caplog):
    """The retained bytes stay within their limit, however much a client asks for."""

    async with resumable(Much(), LITTLE) as server, server.session() as peer:
        await peer.send(RequestStreamFrame(1, 2**31 - 1))
        log = server.log()
        got = 0
        for _ in range(2000):
            for frame in await peer.drain():
                assert log.size <= 64 * 1024
                if isinstance(frame, PayloadFrame):
                    got += 1
                elif isinstance(frame, KeepaliveFrame) and frame.respond:
                    await peer.send(KeepaliveFrame(respond=False, data=frame.data))
            if got > 1000:
                break
    assert got == 1001
    assert log.evicted
    assert "frames were dropped before" in caplog.text


async def test_a_client_that_confirms_is_never_failed():
    """Payloads wait for the confirmation, so no frame is dropped that may be needed."""

    async with resumable(Much(), LITTLE) as server, server.session() as peer:
        await peer.send(RequestStreamFrame(1, 2**31 - 1))
        log = server.log()
        got = received = 0
        while got < 1001:
            frames = await peer.drain()
            assert frames, "nothing comes any more"
            assert log.size <= 64 * 1024
            for frame in frames:
                if isinstance(frame, PayloadFrame):
                    got += 1
                    received += len(frame.encode())
                elif isinstance(frame, KeepaliveFrame) and frame.respond:
                    await peer.send(KeepaliveFrame(False, received, frame.data))
    assert not log.evicted


def test_the_options_are_checked():
    """Times and sizes are above 0."""
    for wrong in ({"session_lifetime": 0}, {"max_sessions": 0}, {"max_retained_size": 0}):
        with pytest.raises(ValueError):
            ServerResume(**wrong)
    with pytest.raises(TypeError, match="store= takes a SessionStore, not dict"):
        ServerResume(store={})


def test_the_default_limits_fit_each_other():
    """The smallest frames that the outbox holds are less than an eighth of the retained bytes."""
    assert ConnectionConfig().limits.max_outbox_size <= ServerResume().max_retained_size // 64
