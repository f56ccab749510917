"""The tokens and RESUMEs that a server refuses, checked from the wire."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ServerResume
from rsocket_trio.errors import ErrorCode, RejectedSetup
from rsocket_trio.frames import (
    KeepaliveFrame,
    PayloadFrame,
    RequestResponseFrame,
    ResumeFrame,
    ResumeOkFrame,
)
from rsocket_trio.testing.in_memory import frame_peer_client
from rsocket_trio.testing.peer import KnownAnswers
from tests.rules.resumable import OTHER, TOKEN, resumable, resume, setup


@pytest.mark.parametrize(
    ("received", "available", "good"),
    [
        (10, 0, True),
        (20, 10, True),
        (30, 20, True),
        (0, 0, False),  # dropped, as it was acknowledged
        (15, 0, False),  # inside a frame
        (31, 0, False),  # never sent
        (30, 21, False),  # a gap in the client's frames
    ],
)
async def test_the_positions_decide(received, available, good):
    """R-RESUME-15, R-RESUME-09, R-RESUME-22: RESUME_OK if there is no gap, else REJECTED_RESUME."""
    async with resumable() as server:
        async with server.session() as peer:
            for stream_id in (1, 3):
                await peer.send(RequestResponseFrame(stream_id, data=b"ping"))
                await peer.receive(PayloadFrame)
            await peer.send(KeepaliveFrame(respond=False, position=10))
            await peer.send(RequestResponseFrame(5, data=b"ping"))
            await peer.receive(PayloadFrame)
            # The client claims to have less than it sent: the server has received 20 of 30.
        async with server.dial() as peer:
            await peer.send(resume(received, available + 10))
            if good:
                assert await peer.receive() == ResumeOkFrame(30)
                assert len(await peer.drain()) == (30 - received) // 10
            else:
                await peer.expect_closed(ErrorCode.REJECTED_RESUME)


async def test_an_unknown_token_is_rejected():
    """R-RESUME-13: REJECTED_RESUME, and the connection is closed."""
    async with resumable() as server, server.session():
        async with server.dial() as stranger:
            await stranger.send(resume(0, 0, token=OTHER))
            await stranger.expect_closed(ErrorCode.REJECTED_RESUME)


async def test_a_server_without_sessions_rejects():
    """R-RESUME-12: REJECTED_RESUME where resumption is not offered."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:
        await peer.send(resume(0, 0))
        await peer.expect_closed(ErrorCode.REJECTED_RESUME)


@pytest.mark.parametrize("connected", [True, False])
async def test_a_token_in_use_is_rejected_in_setup(connected):
    """R-RESUME-24: REJECTED_SETUP, whether its client is connected or away; the session lives."""
    async with resumable() as server:
        async with server.session() as owner:
            if connected:
                async with server.dial() as thief:
                    await thief.send(setup())
                    await thief.expect_closed(ErrorCode.REJECTED_SETUP)
                await owner.expect_alive()
        if not connected:
            async with server.dial() as thief:
                await thief.send(setup())
                await thief.expect_closed(ErrorCode.REJECTED_SETUP)
        async with server.resumed(0, 0, position=0) as owner:
            await owner.expect_alive()


async def test_an_empty_token_is_invalid():
    """R-RESUME-25: an empty token could not tell one session from another."""
    async with resumable() as server, server.dial() as peer:
        await peer.send(setup(token=b""))
        await peer.expect_closed(ErrorCode.INVALID_SETUP)


@pytest.mark.parametrize("token", [b"\0", b"\xff" * 65535], ids=["NUL", "the longest"])
async def test_tokens_are_any_bytes(token):
    """R-RESUME-23: a token is opaque; it may have 1 to 65535 bytes where a server lets it."""
    async with resumable(options=ServerResume(min_token_size=1)) as server:
        async with server.session(token=token):
            pass
        async with server.dial() as peer:
            await peer.send(resume(0, 0, token))
            assert await peer.receive() == ResumeOkFrame(0)


async def test_another_version_is_rejected():
    """R-RESUME-05, R-RESUME-09: the version of a session does not change."""
    async with resumable() as server, server.session():
        async with server.dial() as peer:
            await peer.send(ResumeFrame(2, 0, TOKEN, 0, 0))
            await peer.expect_closed(ErrorCode.REJECTED_RESUME)


async def test_a_refused_setup_leaves_no_session():
    """A token that an acceptor has refused is free again."""

    async def refuse(_setup, _requester):
        raise RejectedSetup("no")

    async with resumable(refuse) as server, server.dial() as peer:
        await peer.send(setup())
        await peer.expect_closed(ErrorCode.REJECTED_SETUP)
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.options.store) == 0
