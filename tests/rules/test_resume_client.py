"""Resuming operation at a client, checked from the wire.

Modules of rsocket_trio.connection: resume_client.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rsocket_trio import ClientResume, ClosedByPeer, Retry, connect
from rsocket_trio.errors import (
    ConnectionLost,
    ErrorCode,
    LocalProtocolError,
    RejectedResume,
    RejectedSetup,
)
from rsocket_trio.frames import (
    ErrorFrame,
    KeepaliveFrame,
    PayloadFrame,
    RequestResponseFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.testing.in_memory import frame_peer_client
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair
from tests.rules.resume_scripts import ANSWER, CONFIG, REQUEST, Asking, Script, scripted


async def test_the_token_goes_with_setup(autojump_clock):
    """R-RESUME-01, R-RESUME-23: R is set, with a token of 16 bytes that is another each time."""
    tokens = set()
    for _ in range(3):
        async with scripted() as (_, peer, _, _):
            setup = peer.received[0]
            assert isinstance(setup, SetupFrame)
            tokens.add(setup.resume_token)
    assert len(tokens) == 3
    assert {len(token) for token in tokens} == {16}
    async with scripted(ClientResume(token=b"mine")) as (_, peer, _, _):
        assert peer.received[0].resume_token == b"mine"


async def test_resume_comes_first_and_alone(autojump_clock):
    """R-RESUME-10, R-RESUME-16: RESUME with exact positions, and nothing else before RESUME_OK."""
    async with scripted() as (script, peer, requester, nursery):
        asking = Asking(nursery, requester)
        assert await peer.receive() == REQUEST
        await peer.send(ANSWER)
        await asking.done.wait()
        asking = Asking(nursery, requester, b"missed")
        missed = await peer.receive()
        await peer.aclose()
        new = await script.accept()
        token = peer.received[0].resume_token
        assert await new.receive() == ResumeFrame(1, 0, token, 10, 0)
        waiting = Asking(nursery, requester, b"waits")
        await new.expect_nothing()
        await new.send(ResumeOkFrame(10))
        assert await new.receive() == missed
        assert (await new.receive(RequestResponseFrame)).data == b"waits"
        await new.send(PayloadFrame(3, next=True, complete=True, data=b"at last"))
        await asking.done.wait()
        assert asking.outcome == b"at last"
        assert waiting.outcome is None
        nursery.cancel_scope.cancel()


async def test_positions_are_in_keepalive(autojump_clock):
    """R-RESUME-03, R-RESUME-19, R-RESUME-22: also in the answers, and on from the old ones."""
    async with scripted() as (script, peer, requester, nursery):
        peer.timeout = 100
        asking = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        await peer.send(ANSWER)
        await asking.done.wait()
        assert (await peer.receive(KeepaliveFrame)).position == 10
        await peer.send(KeepaliveFrame(respond=False, position=10))
        await peer.drain()
        await peer.aclose()
        new = await script.accept()
        # Frames that the server has confirmed are not available any more.
        assert (await new.receive(ResumeFrame)).first_available_client_position == 10
        await new.send(ResumeOkFrame(10), KeepaliveFrame(respond=True, data=b"?"))
        answer = await new.receive(KeepaliveFrame)
        assert (answer.position, answer.data) == (10, b"?")


async def test_a_rejection_is_final(autojump_clock):
    """R-RESUME-11: after REJECTED_RESUME there is no other attempt; each stream gets the reason."""
    async with scripted() as (script, peer, requester, nursery):
        asking = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        await peer.aclose()
        new = await script.accept()
        await new.receive(ResumeFrame)
        await new.send(ErrorFrame(0, ErrorCode.REJECTED_RESUME, b"too late"))
        await asking.done.wait()
        assert isinstance(asking.outcome, RejectedResume)
        assert asking.outcome.message == "too late"
        with pytest.raises(RejectedResume):
            await requester.request_response(Payload(b"more"))
        await trio.sleep(1000)
        assert script.dialled == 2


@pytest.mark.parametrize(
    "answer",
    [
        [ErrorFrame(0, ErrorCode.CONNECTION_ERROR, b"busy")],
        [KeepaliveFrame(respond=False)],
        [ResumeOkFrame(0, stream_id=1)],
        [b"junk"],
        [],
    ],
    ids=["CONNECTION_ERROR", "another frame", "on a stream", "no frame", "nothing"],
)
@pytest.mark.parametrize("closes", [True, False])
async def test_other_failures_are_tried_again(answer, closes, autojump_clock):
    """R-RESUME-11: CONNECTION_ERROR, a malformed answer or silence cost one attempt."""
    async with scripted() as (script, peer, requester, nursery):
        asking = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        await peer.aclose()
        new = await script.accept()
        await new.receive(ResumeFrame)
        if answer:
            await new.send(*answer)
        if closes:
            await new.aclose()
        newer = await script.accept_resume(0)
        assert await newer.receive() == REQUEST
        await newer.send(ANSWER)
        await asking.done.wait()
        assert asking.outcome == b"pong"


async def test_a_server_that_drops_resumed_sessions_is_dialled_slowly(autojump_clock):
    """A connection that ends right after RESUME_OK, many times, costs the delay of an attempt."""
    async with scripted() as (script, peer, _, nursery):
        dropped = 0

        async def drop():
            nonlocal dropped
            while True:
                peer = await script.accept_resume(0)
                await peer.aclose()
                dropped += 1

        await peer.aclose()
        nursery.start_soon(drop)
        await trio.sleep(30)
        assert 6 <= dropped <= 16


@pytest.mark.parametrize("position", [5, 11])
async def test_an_impossible_position_ends_the_session(position, autojump_clock):
    """R-RESUME-20: CONNECTION_ERROR after RESUME_OK, and no other attempt."""
    async with scripted() as (script, peer, requester, nursery):
        asking = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        await peer.aclose()
        new = await script.accept_resume(position)
        await new.expect_closed(ErrorCode.CONNECTION_ERROR)
        await asking.done.wait()
        assert isinstance(asking.outcome, ConnectionLost)
        await trio.sleep(1000)
        assert script.dialled == 2


async def test_the_session_ends_after_its_lifetime(autojump_clock):
    """R-RESUME-07: when it is over, the streams fail with ConnectionLost, at that moment."""
    async with scripted(ClientResume(session_lifetime=45)) as (script, peer, requester, nursery):
        asking = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        script.down = True
        await peer.aclose()
        before = trio.current_time()
        await asking.done.wait()
        assert trio.current_time() - before == pytest.approx(45)
        assert isinstance(asking.outcome, ConnectionLost)
        assert "within 45 s" in str(asking.outcome)
        tries = script.dialled
        await trio.sleep(1000)
        assert script.dialled == tries


async def test_a_client_gives_up_after_its_attempts(autojump_clock):
    """After `Retry.max_attempts` the streams fail with ConnectionLost."""
    resume = ClientResume(retry=Retry(max_attempts=3, jitter=0))
    async with scripted(resume) as (script, peer, requester, nursery):
        asking = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        script.down = True
        await peer.aclose()
        before = trio.current_time()
        await asking.done.wait()
        assert trio.current_time() - before == pytest.approx(0.1 + 0.2 + 0.4)
        assert script.dialled == 4
        assert isinstance(asking.outcome, ConnectionLost)


async def test_a_silent_server_ends_the_connection_only(autojump_clock):
    """R-KEEP-06: if no KEEPALIVE is answered for the max lifetime, the client dials again."""
    async with scripted() as (script, peer, _, _):
        before = trio.current_time()
        new = await script.accept_resume(0)
        assert trio.current_time() - before == pytest.approx(35, abs=0.2)
        await new.expect_alive()
        await peer.expect_closed()


async def test_leaving_sends_connection_close(autojump_clock):
    """R-RESUME-20: a close is told from a loss by CONNECTION_CLOSE on stream 0."""
    async with scripted() as (_, peer, _, _):
        pass
    await peer.expect_closed(ErrorCode.CONNECTION_CLOSE)


async def test_leaving_without_a_connection_does_not_take_long(autojump_clock):
    """Frames that cannot be sent within the close's time are dropped."""
    async with scripted() as (script, peer, _, _):
        script.down = True
        await peer.aclose()
        await trio.sleep(0.05)
        before = trio.current_time()
    assert trio.current_time() - before <= CONFIG.close_timeout


async def test_a_server_that_closes_is_not_resumed(autojump_clock):
    """R-RESUME-20: CONNECTION_CLOSE of the server ends the session with its connection."""
    async with scripted() as (script, peer, requester, nursery):
        asking = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE, b"going down"))
        await peer.drain()
        await peer.aclose()
        await asking.done.wait()
        assert isinstance(asking.outcome, ClosedByPeer)
        await trio.sleep(1000)
        assert script.dialled == 1


async def test_a_loss_before_the_setup_is_accepted(autojump_clock):
    """The server does not know the session yet: `connect` raises, and dials no second time."""
    script = Script()

    async def lose():
        peer = await script.accept()
        await peer.receive(SetupFrame)
        await peer.aclose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lose)
        with pytest.raises(ConnectionLost, match="before the server had accepted"):
            async with connect(script.dial, resume=ClientResume()):
                raise AssertionError("entered")
    assert script.dialled == 1


async def test_a_server_without_sessions_refuses(autojump_clock):
    """A request for resumption that is not offered is refused: connect raises REJECTED_SETUP."""
    async with frame_peer_client(KnownAnswers(), setup=False) as peer:

        @asynccontextmanager
        async def dial():
            yield peer.transport

        with pytest.raises(RejectedSetup):
            async with connect(dial, resume=ClientResume()):
                raise AssertionError("entered")


async def test_a_transport_cannot_be_dialled_again():
    """`resume` needs an address, or a function that dials."""
    transport, _ = memory_transport_pair()
    with pytest.raises(LocalProtocolError, match="cannot be used with a transport"):
        async with connect(transport, resume=ClientResume()):
            raise AssertionError("entered")


@pytest.mark.parametrize(
    "wrong",
    [{"token": b""}, {"token": b"x" * 65536}, {"session_lifetime": 0}, {"max_retained_size": 0}],
)
def test_invalid_resume_options_are_refused(wrong):
    """Tokens have 1 to 65535 bytes, times and sizes are above 0."""
    with pytest.raises(ValueError):
        ClientResume(**wrong)


@pytest.mark.parametrize("size", [1, 2, 65535])
async def test_a_token_of_the_application(size):
    """R-RESUME-23: any 1 to 65535 bytes are sent as they are, in SETUP and in RESUME."""
    token = bytes(range(256)) * 256
    token = token[:size]
    async with scripted(ClientResume(token=token)) as (script, peer, _, _):
        assert peer.received[0].resume_token == token
        await peer.aclose()
        resume = await (await script.accept()).receive(ResumeFrame)
        assert resume.token == token


def test_a_token_is_not_shown():
    """A token gives access to the session, so it is in no log."""
    assert "secret" not in repr(ClientResume(token=b"secret"))


@pytest.mark.parametrize(("size", "fits"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_the_size_of_a_token(size, fits):
    """Its length field has 16 bits, and an empty token identifies no session."""
    if fits:
        assert ClientResume(token=bytes(size)).token == bytes(size)
    else:
        with pytest.raises(ValueError, match=f"must have from 1 to 65535 bytes, not {size}"):
            ClientResume(token=bytes(size))
