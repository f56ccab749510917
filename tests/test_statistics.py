"""What the statistics of a server say of connections, on each wire: open, refused and lost ones."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio import (
    Forbidden,
    Histogram,
    Payload,
    Router,
    RSocketError,
    ServerResume,
    WireStatistics,
    connect,
    lumberjack,
    rsio,
    serve,
    ttrpc,
)
from rsocket_trio.frames.resume import ResumeFrame
from rsocket_trio.frames.setup import SetupFrame
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.transports import open_transport
from tests.gated import LOCAL, Gated


async def forbid(auth, facts):
    raise Forbidden("not you")


def forbidding():
    router = Router(authenticate=forbid)

    @router.events
    async def take(events: list[bytes]) -> None:
        pass

    return router


async def until(condition):
    with trio.fail_after(10):
        while not condition():
            await trio.sleep(0.01)


SERVERS = {
    "rsocket": (serve, "tcp"),
    "rsio": (rsio.serve, "rsio"),
    "ttrpc": (ttrpc.serve, "tcp"),
    "lumberjack": (lumberjack.serve, "lumberjack"),
}


async def dial(wire, uri):
    """Connect as a client of the wire does, and wait for the answer of the server."""
    if wire == "rsocket":
        async with connect(uri) as requester:
            await requester.request_response(Payload(b""))
    elif wire == "rsio":
        async with rsio.connect(uri) as connection:
            await connection.wait_ready()
    else:
        stream = await trio.open_tcp_stream("127.0.0.1", int(uri.rpartition(":")[2]))
        async with stream:
            await stream.receive_some()


@pytest.mark.parametrize("wire", SERVERS)
async def test_connections_that_are_not_served(wire):
    """Guards, and ``max_connections``, are counted by reason on every wire."""
    start, scheme = SERVERS[wire]
    start = partial(start, max_connections=1)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(start, forbidding(), f"{scheme}://127.0.0.1:0")
        assert isinstance(server.statistics(), WireStatistics)
        assert server.statistics().refused == {}
        uri = server.uris[0]
        with suppress(RSocketError, OSError, rsio.RsioError):
            await dial(wire, uri)
        await until(lambda: server.statistics().refused == {"setup": 1})
        port = int(uri.rpartition(":")[2])
        if wire == "rsocket":  # the others ask their guards before they read anything
            async with await trio.open_tcp_stream("127.0.0.1", port):
                async with await trio.open_tcp_stream("127.0.0.1", port) as second:
                    assert not await second.receive_some()
                await until(lambda: server.statistics().refused == {"setup": 1, "full": 1})
        nursery.cancel_scope.cancel()


async def test_a_peer_that_is_not_allowed_and_a_handshake_that_fails():
    async with trio.open_nursery() as nursery:
        closed = await nursery.start(partial(serve, allow=lambda info: False), Gated(), LOCAL)
        with pytest.raises(RSocketError):
            async with connect(closed.uris[0]) as requester:
                await requester.request_response(Payload(b""))
        await until(lambda: closed.statistics().refused == {"not_allowed": 1})
        web = await nursery.start(serve, Gated(), "ws://127.0.0.1:0")
        async with await trio.open_tcp_stream(
            "127.0.0.1", int(web.uris[0].rpartition(":")[2].partition("/")[0])
        ) as stream:
            await stream.send_all(b"\0\0\0\1nonsense\r\n\r\n")
            await stream.receive_some()
        await until(lambda: web.statistics().refused == {"handshake": 1})
        nursery.cancel_scope.cancel()


async def test_sessions_that_go_on_and_those_that_may_not():
    """Resumptions, and those that were refused."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(serve, resume=ServerResume(session_lifetime=60)), Gated(), LOCAL
        )
        token = b"token" * 4
        setup = SetupFrame(
            major=1,
            minor=0,
            keepalive_interval_ms=20_000,
            max_lifetime_ms=90_000,
            resume_token=token,
            metadata_mime_type="text/plain",
            data_mime_type="text/plain",
        ).encode()
        async with open_transport(server.uris[0]) as transport:
            await transport.send_frames([setup])
            await until(lambda: server.statistics().connections == 1)
        for name, refused, resumed in ((b"other" * 4, 1, 0), (token, 1, 1)):
            async with open_transport(server.uris[0]) as transport:
                await transport.send_frames([ResumeFrame(1, 0, name, 0, 0).encode()])
                await transport.receive_frames()
                now = server.statistics()
                assert (now.refused, now.resumed) == ({"resume": refused}, resumed)
                assert now.accepted == 1
        nursery.cancel_scope.cancel()


async def test_a_silent_connection():
    """A peer that gives no sign of life is counted when it is lost."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, Gated(), LOCAL)
        async with open_transport(server.uris[0]) as transport, FramePeer(transport) as peer:
            await peer.setup(keepalive_interval=0.02, max_lifetime=0.05)
            await peer.expect_closed(0x101)
        await until(lambda: server.statistics().silent == 1)
        assert server.statistics().connections == 0
        nursery.cancel_scope.cancel()


async def test_what_a_connection_holds_is_seen():
    """Requests that wait, and their bytes; a connection whose end was announced is draining."""
    gated = Gated()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, gated, LOCAL)
        async with connect(server.uris[0]) as requester:
            asking = nursery.start_soon
            asking(requester.request_response, Payload(b"wait"))
            await until(lambda: server.statistics().active_requests == 1)
            now = server.statistics()
            assert now.held_size > 0
            assert now.draining == 0
            server.stop(grace=60)
            await until(lambda: server.statistics().draining == 1)
            gated.gate.set()
            await until(lambda: server.statistics().active_requests == 0)
        assert attrs.asdict(server.statistics())["accepted"] == 1
        nursery.cancel_scope.cancel()


def test_a_histogram_knows_its_count():
    histogram = Histogram(tuple([1] * (len(Histogram.bounds) + 1)), 5.0)
    assert histogram.count == len(Histogram.bounds) + 1
    assert list(Histogram.bounds) == sorted(set(Histogram.bounds))
