"""Fresh sessions of a client whose session could not be resumed, checked from the wire.

Modules of rsocket_trio.connection: fresh_sessions.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ClientResume, Retry
from rsocket_trio.errors import (
    ConnectionLost,
    ErrorCode,
    RejectedResume,
    RejectedSetup,
)
from rsocket_trio.frames import (
    ErrorFrame,
    RequestResponseFrame,
    ResumeFrame,
    SetupFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.testing.peer import KnownAnswers
from tests.rules.resume_scripts import ANSWER, REQUEST, Asking, scripted


async def test_a_server_that_drops_fresh_sessions_is_dialled_slowly(autojump_clock):
    """A fresh session that is dropped and not resumed costs the delay of an attempt too."""
    async with scripted(ClientResume(fresh_session=True)) as (script, peer, _, nursery):
        sessions = 0

        async def drop():
            nonlocal sessions
            while True:
                await reject(script, peer)
                fresh = await script.accept_setup()
                await fresh.aclose()
                sessions += 1

        await peer.aclose()
        nursery.start_soon(drop)
        await trio.sleep(30)
        assert 4 <= sessions <= 16


async def reject(script, peer):
    """Lose a connection, and refuse to resume its session."""
    await peer.aclose()
    peer = await script.accept()
    await peer.receive(ResumeFrame)
    await peer.send(ErrorFrame(0, ErrorCode.REJECTED_RESUME, b"who?"))
    await peer.aclose()


async def test_a_fresh_session_follows(autojump_clock):
    """Where that is allowed, open streams fail with ConnectionLost and the requester goes on."""
    async with scripted(ClientResume(fresh_session=True)) as (script, peer, requester, nursery):
        tokens = set()
        for _ in range(3):
            tokens.add(peer.received[0].resume_token)
            asking = Asking(nursery, requester)
            await peer.receive(RequestResponseFrame)
            await reject(script, peer)
            await asking.done.wait()
            assert isinstance(asking.outcome, ConnectionLost)
            assert isinstance(asking.outcome.__cause__, RejectedResume)
            with pytest.raises(ConnectionLost):
                await requester.request_response(Payload(b"too early"))
            peer = await script.accept_setup()
        asking = Asking(nursery, requester)
        assert await peer.receive() == REQUEST
        await peer.send(ANSWER)
        await asking.done.wait()
        assert asking.outcome == b"pong"
        assert len(tokens | {peer.received[0].resume_token}) == 4


@pytest.mark.parametrize("ending", ["given up", "refused", "left"])
async def test_waiting_for_the_end_of_all_sessions(ending, autojump_clock):
    """`wait_closed` waits for the last session if others follow the first."""
    ended = trio.Event()

    async def wait(requester):
        await requester.wait_closed()
        ended.set()

    resume = ClientResume(fresh_session=True, session_lifetime=20)
    async with trio.open_nursery() as around:
        async with scripted(resume) as (script, peer, requester, _):
            around.start_soon(wait, requester)
            await reject(script, peer)
            await trio.testing.wait_all_tasks_blocked()
            assert requester.closed
            assert not ended.is_set()
            peer = await script.accept_setup()
            await trio.sleep(1)
            assert not requester.closed
            assert not ended.is_set()
            if ending == "given up":
                await reject(script, peer)
                script.down = True
                await ended.wait()
            elif ending == "refused":
                await reject(script, peer)
                peer = await script.accept()
                await peer.receive(SetupFrame)
                await peer.send(ErrorFrame(0, ErrorCode.REJECTED_SETUP, b"not you"))
                await ended.wait()
        await ended.wait()
    assert requester.closed


async def test_a_fresh_session_is_tried_again(autojump_clock):
    """A failed dial, or a loss before SETUP is accepted, leads to another attempt."""
    async with scripted(ClientResume(fresh_session=True)) as (script, peer, requester, nursery):
        await reject(script, peer)
        script.down = True
        await trio.sleep(5)
        script.down = False
        short = await script.accept()
        await short.receive(SetupFrame)
        await short.aclose()
        peer = await script.accept_setup()
        asking = Asking(nursery, requester)
        assert await peer.receive() == REQUEST
        await peer.send(ANSWER)
        await asking.done.wait()
        assert asking.outcome == b"pong"


@pytest.mark.parametrize("attempts", [3, None])
async def test_fresh_sessions_are_given_up_after_the_attempts(attempts, autojump_clock):
    """After the attempts or the lifetime there is no fresh session, and requests say so."""
    resume = ClientResume(
        fresh_session=True, session_lifetime=20, retry=Retry(max_attempts=attempts)
    )
    async with scripted(resume) as (script, peer, requester, _):
        await reject(script, peer)
        script.down = True
        await trio.sleep(30)
        tries = script.dialled
        await trio.sleep(1000)
        assert script.dialled == tries
        with pytest.raises(ConnectionLost):
            await requester.request_response(Payload(b"?"))


async def test_a_fresh_session_may_be_refused(autojump_clock):
    """Later requests fail with the server's reason."""
    async with scripted(ClientResume(fresh_session=True)) as (script, peer, requester, _):
        await reject(script, peer)
        peer = await script.accept()
        await peer.receive(SetupFrame)
        await peer.send(ErrorFrame(0, ErrorCode.REJECTED_SETUP, b"not you"))
        await trio.sleep(100)
        assert script.dialled == 3
        with pytest.raises(RejectedSetup, match="not you"):
            await requester.request_response(Payload(b"?"))


async def test_leaving_between_sessions(autojump_clock):
    """There is no fresh session once the block is left."""
    async with scripted(ClientResume(fresh_session=True)) as (script, peer, _, _):
        await reject(script, peer)
        script.down = True
        await trio.sleep(1)
        before = trio.current_time()
    assert trio.current_time() == before


async def test_an_acceptor_that_fails_prevents_a_fresh_session(autojump_clock, caplog):
    """There is no fresh session then, and the log says why."""
    accepted = []

    async def accept(_setup, _requester):
        if accepted:
            raise ValueError("once is enough")
        accepted.append(1)
        return KnownAnswers()

    resume = ClientResume(fresh_session=True)
    async with scripted(resume, accept) as (script, peer, requester, _):
        await reject(script, peer)
        await trio.sleep(100)
        with pytest.raises(ConnectionLost):
            await requester.request_response(Payload(b"?"))
    assert "once is enough" in caplog.text
