"""The sessions of a client that connects again, checked from the wire.

Modules of rsocket_trio.connection: succession, patient_requests, reconnect.
"""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from rsocket_trio import (
    Attempt,
    BearerAuthentication,
    ClientResume,
    ConnectionConfig,
    ConnectionState,
    Metadata,
    Reconnect,
    Retry,
    Router,
    connect,
)
from rsocket_trio.errors import (
    ClosedByPeer,
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    ErrorCode,
    Forbidden,
    InvalidSetup,
    NotConnected,
    RejectedResume,
    RejectedSetup,
    SetupError,
    Unauthenticated,
    UnsupportedSetup,
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
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports.memory import memory_transport_pair
from tests.rules.resume_scripts import ANSWER, CONFIG, REQUEST, Asking, Script, scripted


async def test_a_server_that_drops_fresh_sessions_is_dialled_slowly(autojump_clock):
    """A fresh session that is dropped and not resumed costs the delay of an attempt too."""
    async with scripted(reconnect=Reconnect()) as (script, peer, _, nursery):
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
    """Where a session cannot be resumed, open requests fail, and the requester goes on."""
    async with scripted(reconnect=Reconnect()) as (script, peer, requester, nursery):
        tokens = set()
        for _ in range(3):
            tokens.add(peer.received[0].resume_token)
            asking = Asking(nursery, requester)
            await peer.receive(RequestResponseFrame)
            await reject(script, peer)
            await asking.done.wait()
            assert isinstance(asking.outcome, RejectedResume)
            assert not asking.outcome.unprocessed
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

    reconnect = Reconnect(retry=Retry(max_attempts=4))
    async with trio.open_nursery() as around:
        async with scripted(reconnect=reconnect) as (script, peer, requester, _):
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
                await peer.send(ErrorFrame(0, ErrorCode.UNSUPPORTED_SETUP, b"not you"))
                script.down = True
                await ended.wait()
        await ended.wait()
    assert requester.closed


async def test_a_fresh_session_is_tried_again(autojump_clock):
    """A failed dial, or a loss before SETUP is accepted, leads to another attempt."""
    async with scripted(reconnect=Reconnect()) as (script, peer, requester, nursery):
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
    reconnect = Reconnect(retry=Retry(max_attempts=3))
    async with scripted(reconnect=reconnect) as (script, peer, requester, _):
        await trio.sleep(2)
        await reject(script, peer)
        script.down = True
        await requester.wait_closed()
        tries = script.dialled
        assert tries == 5  # the first session, its RESUME, and three attempts
        await trio.sleep(1000)
        assert script.dialled == tries
        (warning,) = (each.message for each in caplog.records if each.levelname == "WARNING")
        assert "no other session follows, after 3 attempts" in warning
        assert warning.endswith("no server")
        with pytest.raises(NotConnected, match="none will follow: no server"):
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
        (killed, RejectedResume, {}),
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
    """The table of docs/howto/reconnect.md: a session follows each of these ends of a session.

    An open stream ends with an error, and the same requester goes on. Without `Reconnect` the
    same end is the last one.
    """
    for fresh in (True, False):
        reconnect = Reconnect() if fresh else None
        resume = ClientResume(**waits_for)
        async with scripted(resume, reconnect=reconnect) as (script, peer, requester, nursery):
            asking = Asking(nursery, requester)
            await peer.receive(RequestResponseFrame)
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
    begun, requests wait, or say what the server has announced.
    """
    async with scripted(reconnect=Reconnect(wait=2)) as (script, peer, requester, nursery):
        old = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        script.down = True
        await peer.send(CLOSE)
        await trio.sleep(5)
        assert requester.draining
        assert requester.state is ConnectionState.DRAINING
        with pytest.raises(NotConnected, match=r"deploy|no server"):
            await requester.request_response(Payload(b"?"))
        script.down = False
        following = await script.accept_setup()
        await trio.testing.wait_all_tasks_blocked()
        new = Asking(nursery, requester)
        await following.receive(RequestResponseFrame)
        await following.send(ANSWER)
        await new.done.wait()
        assert new.outcome == b"pong"
        await trio.sleep(10)  # with the wait of the client less than its max_lifetime
        await peer.send(ANSWER)
        await old.done.wait()
        assert old.outcome == b"pong"
        await peer.expect_closed()
        assert not requester.closed


async def test_leaving_ends_the_draining_session_too(autojump_clock):
    """`close` reaches every session of the client: the block does not wait for old streams."""
    async with scripted(reconnect=Reconnect()) as (script, peer, requester, nursery):
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
    scene = scripted(config=patient, reconnect=Reconnect())
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
            async with connect(script.dial, reconnect=Reconnect(retry=Retry(max_attempts=1))):
                pass
        await trio.sleep(100)
    assert script.dialled == 1


async def test_a_client_goes_over_before_its_stream_ids_are_used_up(autojump_clock):
    """No request fails; the old session ends when its streams have."""
    async with scripted(reconnect=Reconnect()) as (script, peer, requester, nursery):
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
        await trio.testing.wait_all_tasks_blocked()
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


async def test_a_session_that_is_replaced_and_lost(autojump_clock):
    """Nobody has closed the client, so a request that was open there does not say that."""
    async with scripted(reconnect=Reconnect()) as (script, peer, requester, nursery):
        skip_ids(requester, 3)
        old = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        await script.accept_setup()
        await trio.testing.wait_all_tasks_blocked()
        await peer.aclose()
        await old.done.wait()
        assert type(old.outcome) is ConnectionClosed
        assert not old.outcome.unprocessed
        assert requester.state is ConnectionState.CONNECTED


async def test_ids_used_up_before_the_next_session_stands(autojump_clock):
    """A request waits, and the client goes on once the server can be dialled."""
    async with scripted(reconnect=Reconnect()) as (script, peer, requester, nursery):
        skip_ids(requester, 1)
        script.down = True
        last = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)
        waiting = Asking(nursery, requester, b"?")
        await trio.testing.wait_all_tasks_blocked()
        assert not waiting.done.is_set()
        script.down = False
        following = await script.accept_setup()
        assert (await following.receive()).data == b"?"
        await following.send(ANSWER)
        await waiting.done.wait()
        assert waiting.outcome == b"pong"
        assert last.outcome is None  # it is still open


def skip_ids(requester, left):
    """Let a connection have only so many requests left, as after a billion of them."""
    requester._connection.table.ids._next = MAX_STREAM_ID - 2 * (left - 1)


async def test_a_fresh_session_may_be_refused(autojump_clock):
    """After a refusal that would come again, requests fail with the server's reason."""
    async with scripted(reconnect=Reconnect()) as (script, peer, requester, _):
        await reject(script, peer)
        peer = await script.accept()
        await peer.receive(SetupFrame)
        await peer.send(ErrorFrame(0, ErrorCode.UNSUPPORTED_SETUP, b"not you"))
        await trio.sleep(100)
        assert script.dialled == 3
        with pytest.raises(NotConnected, match=r"none will follow: .*not you"):
            await requester.request_response(Payload(b"?"))


async def test_leaving_between_sessions(autojump_clock):
    """There is no fresh session once the block is left."""
    async with scripted(reconnect=Reconnect()) as (script, peer, _, _):
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

    async with scripted(responder=accept, reconnect=Reconnect()) as (script, peer, requester, _):
        await reject(script, peer)
        await trio.sleep(100)
        with pytest.raises(NotConnected, match="none will follow"):
            await requester.request_response(Payload(b"?"))
    assert "once is enough" in caplog.text


# -- the first session, refusals, and the SETUP of each session ---------------------------------


@asynccontextmanager
async def refusing(codes):
    """A server that refuses so many SETUPs, and accepts the next: (script, the SETUPs it got)."""
    script = Script()
    setups = []

    async def answer():
        for code in codes:
            peer = await script.accept()
            setups.append(await peer.receive(SetupFrame))
            await peer.send(ErrorFrame(0, code, b"no"))
            await peer.aclose()
        while True:
            peer = await script.accept()
            setups.append(await peer.accept())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        yield script, setups
        nursery.cancel_scope.cancel()


BUSY = ErrorCode.REJECTED_SETUP
LOGIN = Unauthenticated.default_code


@pytest.mark.parametrize(
    ("codes", "renewable", "final"),
    [
        ([], True, None),
        ([BUSY] * 5, True, None),
        ([ErrorCode.INVALID_SETUP], True, InvalidSetup),
        ([BUSY, ErrorCode.UNSUPPORTED_SETUP], True, UnsupportedSetup),
        ([Forbidden.default_code], True, SetupError),
        ([LOGIN], False, SetupError),
        ([LOGIN], True, None),
        ([LOGIN, LOGIN], True, SetupError),
        ([LOGIN, BUSY, LOGIN], True, None),
        ([0x999] * 3, True, None),
    ],
)
async def test_which_refusals_are_final(codes, renewable, final, autojump_clock):
    """A refusal that would come again ends the client; the function of the SETUP knows the last."""
    attempts = []

    async def login(attempt):
        attempts.append((attempt.number, attempt.refusal and attempt.refusal.code))
        return Metadata(auth=BearerAuthentication(f"token {len(attempts)}"))

    async with refusing(codes) as (script, setups):
        metadata = login if renewable else Metadata(auth=BearerAuthentication("token"))
        opened = connect(script.dial, setup_metadata=metadata, reconnect=Reconnect())
        if final is None:
            async with opened as requester:
                assert requester.state is ConnectionState.CONNECTED
        else:
            with pytest.raises(final) as caught:
                await opened.__aenter__()
            assert type(caught.value) is final
            assert caught.value.code == codes[-1]
    assert len(setups) == len(codes) + (final is None)
    if renewable:
        assert attempts == list(zip(range(1, 99), [None, *codes], strict=False))[: len(setups)]
        assert b"token 1" in setups[0].metadata
        assert f"token {len(setups)}".encode() in setups[-1].metadata


async def test_a_token_for_each_session(autojump_clock):
    """The function is called for each session, and knows nothing of refusals before the last."""
    attempts = []

    async def login(attempt):
        attempts.append(attempt)
        return Metadata(auth=BearerAuthentication(f"token {len(attempts)}"))

    async with refusing([LOGIN]) as (script, setups):
        async with connect(script.dial, setup_metadata=login, reconnect=Reconnect()) as requester:
            for sessions in range(2, 5):
                assert len(setups) == sessions
                await trio.sleep(5)
                requester._connection.lifecycle.lost(OSError("cut"))
                await trio.sleep(5)
    assert attempts[1].refusal.code == LOGIN
    assert attempts[2:] == [Attempt()] * 3
    assert b"token 5" in setups[-1].metadata


@pytest.mark.parametrize("error", [OSError("the issuer is away"), ConnectFailed("away")])
async def test_no_token_now(error, autojump_clock):
    """A function that has none now is asked again, and no server is dialled meanwhile."""
    tokens = iter([error, error])

    async def login(_attempt):
        failure = next(tokens, None)
        if failure is not None:
            raise failure
        return Payload(b"token")

    async with refusing([]) as (script, setups):
        async with connect(script.dial, setup=login, reconnect=Reconnect()):
            assert script.dialled == 1
    assert setups[0].data == b"token"


async def test_a_slow_token(autojump_clock):
    """The function has the time of an attempt, then another one begins."""
    begun = []

    async def login(_attempt):
        begun.append(trio.current_time())
        await trio.sleep(100 if len(begun) < 3 else 1)
        return Payload(b"token")

    async with refusing([]) as (script, _setups):
        async with connect(script.dial, setup=login, config=CONFIG, reconnect=Reconnect()):
            pass
    assert len(begun) == 3
    assert begun[1] - begun[0] >= CONFIG.setup_timeout


class Mine(Exception):
    pass


async def test_a_faulty_function(autojump_clock, caplog):
    """Its error arrives unchanged at first; later it ends the client, and is in the log."""
    failing = [True]

    async def login(attempt):
        if failing:
            raise Mine("a fault")
        return Payload(b"token")

    async with refusing([]) as (script, _):
        with pytest.raises(Mine):
            async with connect(script.dial, setup=login, reconnect=Reconnect()):
                raise AssertionError
        assert not script.dialled
        failing.clear()
        async with connect(script.dial, setup=login, reconnect=Reconnect()) as requester:
            failing.append(True)
            requester._connection.lifecycle.lost(OSError("cut"))
            assert isinstance(await requester.wait_closed(), Mine)
            with pytest.raises(NotConnected, match="none will follow: a fault") as caught:
                await requester.fire_and_forget(Payload(b"?"))
            assert isinstance(caught.value.__cause__, Mine)
    assert "has failed" in caplog.text


@pytest.mark.parametrize("role", ["dial", "setup", "accept"])
async def test_a_fault_at_the_end_of_an_attempts_time(role, autojump_clock):
    """A nursery gives it in one group with the cancellation; it is a fault all the same."""

    async def clean_up():
        try:
            await trio.sleep_forever()
        finally:
            raise Mine("a fault")

    async def fail(*_):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clean_up)
            nursery.start_soon(trio.sleep_forever)

    @asynccontextmanager
    async def dial():
        if role == "dial":
            await fail()
        yield memory_transport_pair()[0]

    options = {"setup": {"setup": fail}, "accept": {"responder": fail}}.get(role, {})
    with pytest.raises(ExceptionGroup) as caught:
        async with connect(dial, reconnect=Reconnect(), **options):
            raise AssertionError
    assert caught.group_contains(Mine)
    assert not caught.group_contains(trio.Cancelled)


def failing_block():
    router = Router()

    @router.connection
    async def fails_later():
        async def fail():
            await trio.sleep(1)
            raise Mine("a fault of the block's")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            yield

    return router


@pytest.mark.parametrize("reconnect", [None, Reconnect()])
async def test_a_block_that_fails_before_it_is_accepted(reconnect, autojump_clock, caplog):
    """The client has not crashed: its log says what failed, and no other attempt follows."""
    script = Script()
    with pytest.raises(trio.ClosedResourceError):
        async with connect(script.dial, responder=failing_block(), reconnect=reconnect):
            raise AssertionError
    assert script.dialled == 1
    assert "a fault of the block's" in caplog.text


async def test_a_block_that_fails_later(autojump_clock, caplog):
    """It would fail again, so it ends the client."""
    async with scripted(resume=False, responder=failing_block(), reconnect=Reconnect()) as (
        script,
        _,
        requester,
        _,
    ):
        assert isinstance(await requester.wait_closed(), trio.ClosedResourceError)
        assert requester.state is ConnectionState.CLOSED
        with pytest.raises((trio.ClosedResourceError, NotConnected)):
            await requester.request_response()
        assert script.dialled == 1
    assert caplog.text.count("no other session follows: ") == 1


async def test_leaving_is_not_logged(autojump_clock, caplog):
    """Only a client that ends by itself says so."""
    async with scripted(resume=False, reconnect=Reconnect()):
        pass
    assert not caplog.records


async def test_a_function_that_gives_up(autojump_clock):
    """It raises the refusal: it knows no better token."""

    async def login(attempt):
        if attempt.refusal is not None:
            raise attempt.refusal
        return Payload(b"token")

    async with refusing([BUSY] * 3) as (script, setups):
        with pytest.raises(RejectedSetup, match="no"):
            async with connect(script.dial, setup=login, reconnect=Reconnect()):
                raise AssertionError
    assert len(setups) == 1


async def test_the_first_dial_is_at_once_and_is_tried_again(autojump_clock):
    """`connect` waits for a server; `max_attempts` bounds that, and its scope does."""
    async with refusing([]) as (script, _):
        began = trio.current_time()
        async with connect(script.dial, reconnect=Reconnect()):
            assert trio.current_time() == began
        script.down = True
        with pytest.raises(ConnectFailed, match="no server"):
            async with connect(script.dial, reconnect=Reconnect(retry=Retry(max_attempts=3))):
                raise AssertionError
        assert script.dialled == 4
        with trio.move_on_after(60) as scope:
            async with connect(script.dial, reconnect=Reconnect()):
                raise AssertionError
        assert scope.cancelled_caught
        assert 10 < script.dialled < 40


async def test_a_server_without_resumption(autojump_clock):
    """It refuses with REJECTED_SETUP, as a busy one does: every other SETUP has no token."""
    async with refusing([BUSY] * 3) as (script, setups):
        async with connect(script.dial, resume=ClientResume(), reconnect=Reconnect()) as requester:
            await trio.sleep(2)
            requester._connection.lifecycle.lost(OSError("cut"))
            await trio.sleep(3)
    offered = [setup.resume_token is not None for setup in setups]
    assert offered == [True, False, True, False, True]


# -- many clients -------------------------------------------------------------------------------


async def test_no_herd_after_a_restart(autojump_clock):
    """1000 clients come back one by one, half of them told goodbye and half of them cut off.

    With delays of up to 0.1 s at first, as after a failed first dial, some 20 would come in each
    millisecond.
    """
    dials = []
    up = True

    @asynccontextmanager
    async def dial():
        dials.append(trio.current_time())
        if not up:
            raise ConnectFailed("down")
        client, server = memory_transport_pair()
        peer = FramePeer(server)
        peers.append(peer)
        serving.start_soon(peer.accept)
        async with client:
            yield client

    patient = ConnectionConfig(keepalive_interval=600, max_lifetime=6000)
    peers = []
    left = trio.Event()

    async def client(*, task_status):
        async with connect(dial, config=patient, reconnect=Reconnect()):
            task_status.started()
            await left.wait()

    def most(seconds):
        buckets = Counter(int((each - began) / seconds) for each in dials)
        return max(buckets.values())

    async with trio.open_nursery() as serving:
        async with trio.open_nursery() as clients:
            for _ in range(1000):
                await clients.start(client)
            await trio.sleep(5)
            began = trio.current_time()
            old, peers = peers, []
            dials.clear()
            up = False
            for number, peer in enumerate(old):
                if number % 2:
                    await peer.send(CLOSE)
                await peer.aclose()
            await trio.sleep(5)
            up = True
            await trio.sleep(20)
            assert len(peers) == 1000
            back = Counter(int(each - began) for each in dials if each - began >= 5)
            left.set()
        serving.cancel_scope.cancel()
    # All at once would be 1000. The delays are random: the first up to 1 s, the next up to 2 s,
    # then up to 4 s. So shortly before the end of the first second the most dials are expected:
    # 1000 first ones in a second, 475 second ones and 55 third ones, which are 15.4 in a hundredth
    # and 154 in a tenth; and 255 in the second after the restart. By Chernoff's bound,
    # exp(n - mean - n * log(n / mean)), chance breaks one of these bounds once in 10^8 runs.
    assert most(0.01) < 50
    assert most(0.1) < 250
    assert max(back.values()) < 400


# -- the state ----------------------------------------------------------------------------------


async def test_the_states_of_a_client(autojump_clock):
    """Each change is seen, and the last one ends the iteration."""
    seen = []

    async def watch(states):
        async for state in states:
            seen.append(state.value)

    async with trio.open_nursery() as around:
        async with scripted(reconnect=Reconnect()) as (script, peer, requester, nursery):
            around.start_soon(watch, requester.states())
            await trio.sleep(2)
            asking = Asking(nursery, requester)
            await peer.receive(RequestResponseFrame)
            script.down = True
            await peer.send(CLOSE)
            await trio.sleep(3)
            await peer.send(ANSWER)
            await asking.done.wait()
            await peer.aclose()
            await trio.sleep(3)
            script.down = False
            await script.accept_setup()
            await trio.sleep(1)
    assert seen[:3] == ["connected", "draining", "waiting"]
    assert set(seen[3:-2]) <= {"connecting", "waiting"}
    assert seen[-3:] == ["connecting", "connected", "closed"]


async def test_the_states_of_one_connection(autojump_clock):
    """A client that does not connect again has the same words."""
    seen = []
    async with scripted(resume=False) as (_, peer, requester, nursery):
        asking = Asking(nursery, requester)
        await peer.receive(RequestResponseFrame)

        async def watch():
            async for state in requester.states():
                seen.append(state.value)

        nursery.start_soon(watch)
        await trio.sleep(1)
        await peer.send(CLOSE)
        await trio.sleep(1)
        await peer.aclose()
        await asking.done.wait()
        await trio.sleep(1)
        assert seen == ["connected", "draining", "closed"]


# -- requests while there is no session ---------------------------------------------------------


async def test_requests_wait_for_a_session(autojump_clock):
    """Each kind of request leaves on the next session, and a cancelled one never does."""
    answers = []

    async def ask(requester):
        answers.append(await requester.request_response(Payload(b"ask")))

    async def tell(requester):
        await requester.fire_and_forget(Payload(b"tell"))

    async def listen(requester):
        async with requester.request_stream(Payload(b"listen")) as items:
            answers.extend([item async for item in items])

    async def talk(requester):
        async with requester.request_channel([Payload(b"talk")]) as items:
            answers.extend([item async for item in items])

    async with scripted(reconnect=Reconnect()) as (script, peer, requester, nursery):
        script.down = True
        await peer.send(CLOSE)
        await peer.aclose()
        await trio.sleep(1)
        for each in (ask, tell, listen, talk):
            nursery.start_soon(each, requester)
        with trio.move_on_after(1) as scope:
            await requester.request_response(Payload(b"never"))
        assert scope.cancelled_caught
        await trio.sleep(10)
        script.down = False
        peer = await script.accept_setup()
        sent = {}
        while len(sent) < 4:
            frame = await peer.receive()
            if frame.data:  # else the end of the channel
                sent[frame.data] = frame
        assert sorted(sent) == [b"ask", b"listen", b"talk", b"tell"]
        for name in (b"ask", b"listen", b"talk"):
            await peer.send(PayloadFrame(sent[name].stream_id, next=True, complete=True, data=name))
        await trio.sleep(1)
        assert {answer.data for answer in answers} == {b"ask", b"listen", b"talk"}


@pytest.mark.parametrize("wait", [0, 3])
async def test_how_long_requests_wait(wait, autojump_clock):
    """Then they raise, as fact not sent, with what is known of the reason."""
    async with scripted(resume=False, reconnect=Reconnect(wait=wait)) as (
        script,
        peer,
        requester,
        _,
    ):
        script.down = True
        await peer.aclose()
        await trio.sleep(2)
        for send in (requester.request_response, requester.fire_and_forget):
            began = trio.current_time()
            with pytest.raises(NotConnected, match="no server") as caught:
                await send(Payload(b"?"))
            assert trio.current_time() - began == wait
            assert not caught.value.sent
            assert caught.value.unprocessed
            assert isinstance(caught.value.__cause__, ConnectFailed)


async def test_few_requests_may_wait(autojump_clock):
    """One more than `max_waiting` fails at once; those that were cancelled are forgotten."""
    options = Reconnect(max_waiting=2)
    async with scripted(reconnect=options) as (script, peer, requester, nursery):
        script.down = True
        await peer.send(CLOSE)
        await peer.aclose()
        await trio.sleep(1)
        first = Asking(nursery, requester)
        for _ in range(100):
            with trio.move_on_after(0):
                await requester.request_response(Payload(b"never"))
        second = Asking(nursery, requester)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(NotConnected, match="2 requests wait for one"):
            await requester.request_response(Payload(b"?"))
        script.down = False
        peer = await script.accept_setup()
        for _ in range(2):
            frame = await peer.receive(RequestResponseFrame)
            await peer.send(PayloadFrame(frame.stream_id, next=True, complete=True, data=b"pong"))
        await first.done.wait()
        await second.done.wait()
        assert first.outcome == second.outcome == b"pong"
