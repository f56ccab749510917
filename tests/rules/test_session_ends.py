"""The events that end a session at a server, or only its connection, checked from the wire."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import ServerResume, serve
from rsocket_trio.errors import ErrorCode
from rsocket_trio.frames import ErrorFrame, PayloadFrame, RequestNFrame, RequestStreamFrame
from rsocket_trio.responder import Responder
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.peer import KnownAnswers
from rsocket_trio.transports import open_transport
from tests.rules.resumable import ANSWER, OTHER, REQUEST, TOKEN, resumable, resume, setup


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
