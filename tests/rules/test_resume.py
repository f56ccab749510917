"""Resuming operation at a server, checked from the wire.

Modules of rsocket_trio.connection: resume_server, resume_options, resumed_leases.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio import Lease, LeaseOptions, ServerResume, serve, serve_transport
from rsocket_trio.config import ConnectionConfig
from rsocket_trio.connection.session_store import session_of
from rsocket_trio.errors import ErrorCode, RejectedSetup
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    KeepaliveFrame,
    LeaseFrame,
    MetadataPushFrame,
    PayloadFrame,
    RequestNFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    ResumeFrame,
    ResumeOkFrame,
    SetupFrame,
)
from rsocket_trio.payload import Payload
from rsocket_trio.responder import Responder
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.in_memory import frame_peer_client
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import open_transport
from rsocket_trio.transports.memory import memory_transport_pair

TOKEN = b"a token, 16 long"
OTHER = b"a token, of other"
REQUEST = RequestResponseFrame(1, data=b"ping")  # 10 bytes
ANSWER = PayloadFrame(1, next=True, complete=True, data=b"ping")  # 10 bytes


def setup(token: bytes = TOKEN, max_lifetime: float = 90.0) -> SetupFrame:
    return SetupFrame(1, 0, 20_000, round(max_lifetime * 1000), resume_token=token)


def resume(received: int, available: int, token: bytes = TOKEN) -> ResumeFrame:
    return ResumeFrame(1, 0, token, received, available)


class Server:
    """A resumable server, and scripted clients of it."""

    def __init__(self, nursery, responder, options, lease):
        self.nursery = nursery
        self.options = options
        self.serve = partial(serve_transport, responder, resume=options, lease=lease)

    def dial(self) -> FramePeer:
        client, server = memory_transport_pair()
        self.nursery.start_soon(self.serve, server)
        return FramePeer(client)

    def log(self):
        """The retained frames of the session of `TOKEN`."""
        return session_of(self.options.store._sessions[TOKEN]).link.log

    @asynccontextmanager
    async def session(self, **fields):
        """A client that is set up; its connection is lost at the end of the block."""
        async with self.dial() as peer:
            await peer.send(setup(**fields))
            await peer.expect_alive()
            yield peer

    @asynccontextmanager
    async def resumed(self, received: int, available: int, position: int):
        """A client that comes back; ``position`` is what the server must have received."""
        async with self.dial() as peer:
            await peer.send(resume(received, available))
            assert await peer.receive() == ResumeOkFrame(position)
            yield peer


@asynccontextmanager
async def resumable(responder=None, options=None, lease=None):
    failure = None
    async with trio.open_nursery() as nursery:
        try:
            yield Server(
                nursery,
                KnownAnswers() if responder is None else responder,
                ServerResume() if options is None else options,
                lease,
            )
        except Exception as error:  # kept out of the nursery, which would group it
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


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


async def test_the_server_limits_the_silence_of_a_resumable_client(autojump_clock):
    """R-KEEP-09: past the server's limit a silent transport is closed, and the session waits."""
    async with resumable() as server:
        async with server.session(max_lifetime=2_000_000) as peer:
            start = trio.current_time()
            peer.timeout = 2000
            await peer.expect_closed()
            assert 900 <= trio.current_time() - start <= 910
            async with server.resumed(0, 0, 0) as again:
                await again.send(REQUEST)
                assert await again.receive() == ANSWER


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


@pytest.mark.parametrize("after", ["setup", "resume"])
async def test_resume_on_an_open_connection_is_an_error(after):
    """R-RESUME-17, R-RESUME-18: RESUME on a connection that is set up ends it, and the session."""
    async with resumable() as server:
        async with server.session() as peer:
            if after == "setup":
                await peer.send(resume(0, 0))
                await peer.expect_closed(ErrorCode.CONNECTION_ERROR)
        if after == "resume":
            async with server.resumed(0, 0, position=0) as peer:
                await peer.send(resume(0, 0))
                await peer.expect_closed(ErrorCode.CONNECTION_ERROR)
        async with server.dial() as peer:
            await peer.send(resume(0, 0))
            await peer.expect_closed(ErrorCode.REJECTED_RESUME)


@pytest.mark.parametrize("code", [ErrorCode.CONNECTION_CLOSE, ErrorCode.CONNECTION_ERROR])
async def test_an_error_on_stream_zero_ends_the_session(code):
    """R-RESUME-20, R-RESUME-26: an ERROR on stream 0 ends the session with its connection."""
    async with resumable() as server:
        async with server.session() as peer:
            await peer.send(RequestStreamFrame(1, 1, data=b"5"))
            await peer.receive(PayloadFrame)
            await peer.send(ErrorFrame(0, code))
        await trio.testing.wait_all_tasks_blocked()
        async with server.dial() as peer:
            await peer.send(resume(0, 0))
            await peer.expect_closed(ErrorCode.REJECTED_RESUME)
        assert len(server.options.store) == 0


async def test_connection_close_ends_a_resumed_session_with_its_streams(autojump_clock):
    """R-RESUME-20: also after RESUME_OK, CONNECTION_CLOSE ends it once its streams are over."""
    async with resumable() as server:
        async with server.session():
            pass
        async with server.resumed(0, 0, position=0) as peer:
            await peer.send(RequestStreamFrame(1, 1, data=b"2"))
            await peer.receive(PayloadFrame)
            await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_CLOSE))
            await peer.expect_nothing()
            await peer.send(RequestNFrame(1, 1))
            assert (await peer.receive(PayloadFrame)).data == b"1"
            await peer.send(RequestNFrame(1, 1))
            await peer.drain()
        await trio.sleep(2)
        assert len(server.options.store) == 0


async def test_sessions_without_a_connection_expire(autojump_clock):
    """R-RESUME-07: each loss starts the lifetime again; when it is over, handlers are cancelled."""
    closed = trio.Event()

    class Endless(Responder):
        async def request_stream(self, payload):
            try:
                yield payload
                await trio.sleep_forever()
            finally:
                closed.set()

    options = ServerResume(session_lifetime=30)
    async with resumable(Endless(), options) as server:
        async with server.session() as peer:
            await peer.send(RequestStreamFrame(1, 9))
            await peer.receive(PayloadFrame)
        for _ in range(2):
            await trio.sleep(29)
            async with server.resumed(6, 0, position=10):
                await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(29)
        assert not closed.is_set()
        await trio.sleep(2)
        assert closed.is_set()
        async with server.dial() as peer:
            await peer.send(resume(6, 0))
            await peer.expect_closed(ErrorCode.REJECTED_RESUME)


async def test_silence_ends_the_connection_but_not_the_session(autojump_clock):
    """R-KEEP-06, R-RESUME-07: a client silent for its max lifetime may come back."""
    async with resumable() as server:
        async with server.session(max_lifetime=5) as peer:
            await trio.sleep(6)
            await peer.expect_closed()
        async with server.resumed(0, 0, position=0) as peer:
            await peer.expect_alive()


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


async def test_a_refused_setup_leaves_no_session():
    """A token that an acceptor has refused is free again."""

    async def refuse(_setup, _requester):
        raise RejectedSetup("no")

    async with resumable(refuse) as server, server.dial() as peer:
        await peer.send(setup())
        await peer.expect_closed(ErrorCode.REJECTED_SETUP)
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.options.store) == 0


async def test_a_peer_that_confirms_nothing_costs_bounded_memory(caplog):
    """The retained bytes stay within their limit, however much a client asks for."""

    class Much(Responder):
        async def request_stream(self, payload):
            for _ in range(1000):
                yield Payload(b"x" * 1000)

    options = ServerResume(max_retained_size=64 * 1024)
    async with resumable(Much(), options) as server, server.session() as peer:
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

    class Much(Responder):
        async def request_stream(self, payload):
            for _ in range(1000):
                yield Payload(b"x" * 1000)

    options = ServerResume(max_retained_size=64 * 1024)
    async with resumable(Much(), options) as server, server.session() as peer:
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


async def test_a_server_that_stops_resumes_no_session(autojump_clock):
    """Graceful stop: sessions without a connection end at once, others when their streams have."""
    options = ServerResume()
    async with trio.open_nursery() as nursery:
        start = partial(serve, KnownAnswers(), "tcp://127.0.0.1:0", resume=options)
        server = await nursery.start(start)
        async with open_transport(server.uris[0]) as transport:
            away = FramePeer(transport, cushion=0.05)
            await away.send(setup(TOKEN))
            await away.expect_alive()
        async with open_transport(server.uris[0]) as transport:
            here = FramePeer(transport, cushion=0.05)
            await here.send(setup(OTHER), RequestStreamFrame(1, 1, data=b"5"))
            assert (await here.receive(PayloadFrame)).data == b"0"
            server.stop(grace=30)
            assert (await here.receive(ErrorFrame)).code == ErrorCode.CONNECTION_CLOSE
            while await options.store.find(TOKEN) is not None:
                pass
            assert await options.store.find(OTHER) is not None
        # Its connection is lost now, and no client can resume it.
    assert len(options.store) == 0
