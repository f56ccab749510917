"""Fresh sessions of a client whose session could not be resumed, checked from the wire.

Modules of rsocket_trio.connection: fresh_sessions.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rsocket_trio import ClientResume, ConnectionConfig, Retry, connect
from rsocket_trio.errors import (
    ClosedByPeer,
    ConnectionClosed,
    ConnectionLost,
    ErrorCode,
    RejectedResume,
    RejectedSetup,
    StreamIdsExhausted,
)
from rsocket_trio.frames import (
    ErrorFrame,
    PayloadFrame,
    RequestResponseFrame,
    ResumeFrame,
    SetupFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.protocol.stream_ids import MAX_STREAM_ID
from rsocket_trio.testing.peer import KnownAnswers
from tests.rules.resume_scripts import ANSWER, REQUEST, Asking, Script, scripted


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

    resume = ClientResume(fresh_session=True, retry=Retry(max_attempts=4))
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


async def test_fresh_sessions_are_given_up_after_the_attempts(autojump_clock, caplog):
    """After them nothing dials any more; requests say so, and the log says why."""
    resume = ClientResume(fresh_session=True, retry=Retry(max_attempts=3))
    async with scripted(resume) as (script, peer, requester, _):
        await reject(script, peer)
        script.down = True
        await requester.wait_closed()
        tries = script.dialled
        assert tries == 5  # the first session, its RESUME, and three attempts
        await trio.sleep(1000)
        assert script.dialled == tries
        (warning,) = (each.message for each in caplog.records if each.levelname == "WARNING")
        assert "no fresh session after 3 attempts" in warning
        assert warning.endswith("no server")
        with pytest.raises(ConnectionLost):
            await requester.request_response(Payload(b"?"))


CLOSE = ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"deploy")


async def killed(script, peer):
    await peer.aclose()
    script.down = True
    await trio.sleep(1)
    script.down = False
    peer = await script.accept()  # of a server that knows no session
    await peer.receive(ResumeFrame)
    await peer.send(ErrorFrame(0, ErrorCode.REJECTED_RESUME, b"who?"))
    await peer.aclose()


async def stopped(script, peer):
    script.down = True
    await peer.send(CLOSE)
    await peer.aclose()
    await trio.sleep(1)
    script.down = False


async def stopped_before_a_loss(script, peer):
    script.down = True
    await peer.send(CLOSE)
    await trio.sleep(20)  # streams may finish, but the server is not patient any more
    await peer.aclose()
    script.down = False


async def away(script, peer):
    await peer.aclose()
    script.down = True
    await trio.sleep(10_000)
    script.down = False


async def out_of_attempts(script, peer):
    await peer.aclose()
    script.down = True
    await trio.sleep(3)
    script.down = False


async def failed(script, peer):
    await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_ERROR, b"trouble"))
    await peer.aclose()


async def broke_the_protocol(script, peer):
    await peer.send(b"?")
    await peer.aclose()


async def lost_position(script, peer):
    await peer.aclose()
    peer = await script.accept_resume(10_000)
    await peer.aclose()


@pytest.mark.parametrize(
    ("ending", "error", "waits_for"),
    [
        (killed, ConnectionLost, {}),
        (stopped, ConnectionClosed, {}),
        (stopped_before_a_loss, ConnectionClosed, {}),
        (away, ConnectionLost, {"session_lifetime": 60}),
        (out_of_attempts, ConnectionLost, {"retry": Retry(max_attempts=5)}),
        (failed, ClosedByPeer, {}),
        (broke_the_protocol, ConnectionClosed, {}),
        (lost_position, ConnectionLost, {}),
    ],
)
async def test_what_follows_an_end(ending, error, waits_for, autojump_clock):
    """The table of docs/howto/resume.md: a fresh session follows each of these ends of a session.

    An open stream ends with an error, and the same requester goes on. Without `fresh_session` the
    same end is the last one.
    """
    for fresh in (True, False):
        resume = ClientResume(fresh_session=fresh, **waits_for)
        async with scripted(resume) as (script, peer, requester, nursery):
            asking = Asking(nursery, requester)
            await peer.receive(RequestResponseFrame)
            if not fresh and ending is killed:
                error = RejectedResume
            nursery.start_soon(ending, script, peer)
            await asking.done.wait()
            assert isinstance(asking.outcome, error)
            if not fresh:
                await requester.wait_closed()
                continue
            peer = await script.accept_setup()
            asking = Asking(nursery, requester)
            await peer.receive(RequestResponseFrame)
            await peer.send(ANSWER)
            await asking.done.wait()
            assert asking.outcome == b"pong"


async def test_streams_finish_on_a_draining_session(autojump_clock):
    """After CONNECTION_CLOSE new requests leave in the next session, beside the old streams.

    Only a client that dials while the old session drains passes this. Until the next session has
    begun, requests fail with what the server has announced.
    """
    async with scripted(ClientResume(fresh_session=True)) as (script, peer, requester, nursery):
        old = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        script.down = True
        await peer.send(CLOSE)
        await trio.sleep(5)
        with pytest.raises(ClosedByPeer, match="deploy"):
            await requester.request_response(Payload(b"?"))
        script.down = False
        following = await script.accept_setup()
        new = Asking(nursery, requester)
        await following.receive(RequestResponseFrame)
        await following.send(ANSWER)
        await new.done.wait()
        assert new.outcome == b"pong"
        await trio.sleep(20)
        await peer.send(ANSWER)
        await old.done.wait()
        assert old.outcome == b"pong"
        await peer.expect_closed()
        assert not requester.closed


async def test_leaving_ends_the_draining_session_too(autojump_clock):
    """`close` reaches every session of the client: the block does not wait for old streams."""
    async with scripted(ClientResume(fresh_session=True)) as (script, peer, requester, nursery):
        old = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        await peer.send(CLOSE)
        await script.accept_setup()
    assert isinstance(old.outcome, trio.ClosedResourceError)


async def test_sessions_that_drain_are_limited(autojump_clock):
    """A server that announces the end of each session it accepts gets no ninth one beside them."""
    patient = ConnectionConfig(
        keepalive_interval=600, max_lifetime=6000
    )  # No peer sends KEEPALIVE.
    scene = scripted(ClientResume(fresh_session=True), config=patient)
    async with scene as (script, peer, requester, nursery):
        for _ in range(7):
            Asking(nursery, requester)
            await peer.receive(RequestResponseFrame)
            await peer.send(CLOSE)
            peer = await script.accept_setup()
        last = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        await peer.send(CLOSE)
        await trio.sleep(30)
        assert script.dialled == 8
        await peer.send(ANSWER)
        await last.done.wait()
        await script.accept_setup()
        await trio.testing.wait_all_tasks_blocked()


async def test_a_refused_first_session_is_not_followed(autojump_clock):
    """`connect` raises; no other session begins behind its back."""
    script = Script()

    async def refuse():
        peer = await script.accept()
        await peer.receive(SetupFrame)
        await peer.send(CLOSE)
        await peer.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refuse)
        with pytest.raises(ConnectionClosed):
            async with connect(script.dial, resume=ClientResume(fresh_session=True)):
                pass
        await trio.sleep(100)
    assert script.dialled == 1


async def test_a_client_goes_over_before_its_stream_ids_are_used_up(autojump_clock):
    """No request fails; the old session ends when its streams have."""
    async with scripted(ClientResume(fresh_session=True)) as (script, peer, requester, nursery):
        skip_ids(requester, 3)
        old = Asking(nursery, requester)
        first = await peer.receive(RequestResponseFrame)
        assert first.stream_id == MAX_STREAM_ID - 4
        script.down = True
        await trio.sleep(10)  # the ids that are left are for this time
        second = Asking(nursery, requester)
        assert (await peer.receive(RequestResponseFrame)).stream_id == MAX_STREAM_ID - 2
        script.down = False
        following = await script.accept_setup()
        third = Asking(nursery, requester)
        assert await following.receive() == REQUEST
        await following.send(ANSWER)
        await third.done.wait()
        for stream_id in (MAX_STREAM_ID - 2, MAX_STREAM_ID - 4):
            await peer.send(PayloadFrame(stream_id, next=True, complete=True, data=b"late"))
        await second.done.wait()
        await old.done.wait()
        assert [old.outcome, second.outcome, third.outcome] == [b"late", b"late", b"pong"]
        assert await peer.receive() == ErrorFrame(
            0, ErrorCode.CONNECTION_CLOSE, b"a new session follows"
        )
        await peer.expect_closed()


async def test_ids_used_up_before_the_next_session_stands(autojump_clock):
    """The error says what to do, and the client goes on once the server can be dialled."""
    async with scripted(ClientResume(fresh_session=True)) as (script, peer, requester, nursery):
        skip_ids(requester, 1)
        script.down = True
        last = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        with pytest.raises(StreamIdsExhausted, match="make a new connection"):
            await requester.request_response(Payload(b"?"))
        script.down = False
        following = await script.accept_setup()
        new = Asking(nursery, requester)
        assert await following.receive() == REQUEST
        await following.send(ANSWER)
        await new.done.wait()
        assert new.outcome == b"pong"
        assert last.outcome is None  # it is still open


def skip_ids(requester, left):
    """Let a connection have only so many requests left, as after a billion of them."""
    requester._connection.table.ids._next = MAX_STREAM_ID - 2 * (left - 1)


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
