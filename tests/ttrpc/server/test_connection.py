"""The end of a server's connection: half-closed, gone, stopped, or not reading."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

import rsocket_trio.ttrpc.server.connection as connection_module
from rsocket_trio import ConnectionLost
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.ttrpc import (
    Method,
    MethodKind,
    Service,
    StatusCode,
    TtrpcConfig,
    TtrpcLimits,
    Unavailable,
    connect,
    serve,
    serve_stream,
)
from tests.ttrpc.scenes import (
    ECHO,
    SERVICE,
    Stranger,
    data,
    end,
    one,
    opening,
    pair,
    request,
    stranger_to,
    things,
)
from tests.waiting import until

BOTH = pytest.mark.parametrize("over", ["memory", "socket"])
KINDS = pytest.mark.parametrize("kind", MethodKind)


class Gated:
    """A service whose handlers wait for a gate, and note how they end."""

    def __init__(self):
        self.gate = trio.Event()
        self.begun = 0
        self.ends: list[str] = []
        self.service = Service(SERVICE)
        self.service.add(ECHO, self.echo)
        self.service.add(Method.raw(SERVICE, "Count", MethodKind.SERVER_STREAM), self.count)
        self.service.add(Method.raw(SERVICE, "Join", MethodKind.CLIENT_STREAM), self.join)

    async def wait(self):
        self.begun += 1
        try:
            await self.gate.wait()
        except trio.Cancelled:
            self.ends.append("cancelled")
            raise
        self.ends.append("finished")

    async def echo(self, request):
        await self.wait()
        return request

    async def count(self, request):
        yield b"first"
        await self.wait()
        yield b"last"

    async def join(self, messages):
        parts = []
        try:
            async for each in messages:
                parts.append(each)
        except ConnectionLost:
            parts.append(b" cut off")
        await self.wait()
        return b"".join(parts)


# -- the peer closes its sending half -----------------------------------------------------------


@BOTH
async def test_calls_finish_after_a_half_close(over, autojump_clock):
    """Those that run, and a stream of messages that is cut off; then the connection ends."""
    gated = Gated()
    async with stranger_to(gated.service, over=over) as stranger:
        await stranger.send(request(1, payload=b"a"), request(3, "Count"))
        await stranger.send(opening(5), data(5, b"b"), opening(7), data(7, b"c"), end(7))
        await stranger.end_sending()
        await trio.sleep(5)
        assert gated.begun == 4
        assert not stranger.ended
        gated.gate.set()
        frames = await stranger.until_end()
        answers = {each.stream_id: each.payload for each in frames if each.kind == 2}
        assert answers == {1: b"a", 5: b"b cut off", 7: b"c"}
        assert [each.body for each in frames if each.stream_id == 3] == [b"first", b"last", b""]


@BOTH
async def test_calls_in_the_queue_begin_after_a_half_close(over):
    """Requests and the half-close arrive in one read; most handlers have not begun then."""
    gated = Gated()
    async with stranger_to(gated.service, over=over) as stranger:
        ids = range(1, 601, 2)
        await stranger.send(*(request(each, payload=b"%d" % each) for each in ids))
        await stranger.end_sending()
        await stranger.drain()
        assert gated.begun == 300
        gated.gate.set()
        frames = await stranger.until_end()
        assert sorted((each.stream_id, each.payload) for each in frames) == [
            (each, b"%d" % each) for each in ids
        ]


@BOTH
async def test_a_half_close_without_calls_ends_the_connection(over):
    async with stranger_to(things(), over=over) as stranger:
        assert await stranger.ask(1) == b"alive?"
        await stranger.end_sending()
        assert await stranger.until_end() == []


@BOTH
async def test_calls_that_take_too_long_after_a_half_close(over, autojump_clock):
    gated = Gated()
    config = TtrpcConfig(half_close_timeout=7)
    async with stranger_to(gated.service, over=over, config=config) as stranger:
        await stranger.send(request(1), request(3, timeout=2 * 10**9))
        await stranger.end_sending()
        begun = trio.current_time()
        frames = await stranger.until_end()
        assert [(each.stream_id, each.code) for each in frames] == [(3, 4)]
        assert trio.current_time() - begun == pytest.approx(7, abs=1.5)
        assert gated.ends == ["cancelled", "cancelled"]


@BOTH
async def test_a_connection_that_ends_inside_a_frame(over):
    """It is lost, and its handlers are cancelled."""
    gated = Gated()
    async with stranger_to(gated.service, over=over) as stranger:
        await stranger.send(request(1), request(3)[:-1])
        await stranger.drain()
        await stranger.end_sending()
        assert await stranger.until_end() == []
        assert gated.ends == ["cancelled"]


# -- the peer is gone ---------------------------------------------------------------------------


@KINDS
async def test_a_peer_that_is_gone_cancels_handlers(kind, autojump_clock):
    """At the next look at the socket at the latest: nobody would read the answers."""
    ended = []

    async def wait(_request):
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async def stream(_request):
        await wait(None)
        yield b""

    service = one(kind, stream if kind.receives_stream else wait)
    here, there = pair("socket")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, service, there)
        await here.send_all(request(1, flags=0x02 if kind.sends_stream else 0))
        await trio.testing.wait_all_tasks_blocked()
        left = trio.current_time()
        await here.aclose()
    assert ended[0] - left <= 1


async def test_a_peer_on_tcp_that_is_gone_cancels_handlers_with_the_first_answer(mock_clock):
    """Before, it looks like a half-close; the answer is reset, of which the kernel tells us."""
    answered = Gated()
    stuck = Gated()

    async def echo(request):
        return await (answered if request == b"answered" else stuck).echo(request)

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, trio.open_nursery() as nursery:
        here = await trio.open_tcp_stream(*listener.socket.getsockname())
        there = await listener.accept()
        nursery.start_soon(serve_stream, one(MethodKind.UNARY, echo), there)
        await here.send_all(request(1, payload=b"answered") + request(3))
        while not (answered.begun and stuck.begun):
            await trio.testing.wait_all_tasks_blocked(0.01)
        await here.aclose()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not stuck.ends
        answered.gate.set()
    assert stuck.ends == ["cancelled"]


# -- the server is stopped ----------------------------------------------------------------------


@pytest.fixture
def uri(tmp_path):
    return f"ttrpc+unix://{tmp_path}/s"


async def test_a_graceful_stop_lets_the_first_call_finish(uri):
    """Go counts a connection whose first call still runs as idle, and drops the call."""
    gated = Gated()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, gated.service, uri)
        async with connect(uri) as client:
            answers = []

            async def ask():
                answers.append(await client.unary(ECHO, b"x"))

            nursery.start_soon(ask)
            await until(lambda: gated.begun)
            nursery.start_soon(partial(server.aclose, grace=60))
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert server.statistics().active_calls == 1
            with pytest.raises(Unavailable, match="the server takes no more calls"):
                await client.unary(ECHO, b"late")
            gated.gate.set()
            reason = await client.wait_closed()
            assert isinstance(reason, ConnectionLost)
        assert answers == [b"x"]
    assert gated.ends == ["finished"]


async def test_a_stop_whose_grace_is_over_cancels(uri):
    gated = Gated()
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(serve, gated.service, uri)
        async with connect(uri) as client:

            async def ask():
                with pytest.raises(ConnectionLost):
                    await client.unary(ECHO, b"x")

            nursery.start_soon(ask)
            await until(lambda: gated.begun)
            await server.aclose(grace=0.01)
            assert gated.ends == ["cancelled"]


async def test_calls_on_their_way_are_refused_at_a_stop(uri, monkeypatch):
    """A connection without calls lingers for them; the client would else not know what happened."""
    monkeypatch.setattr(connection_module, "_ON_THE_WAY", 60)
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, things(), uri)
        async with connect(uri) as client:
            assert await client.unary(ECHO, b"x") == b"x"
            server.stop(grace=60)
            for _ in range(3):
                with pytest.raises(Unavailable, match="the server takes no more calls"):
                    await client.unary(ECHO, b"late")
        with trio.fail_after(30):  # the client has closed, so there is nothing to wait for
            await server.aclose(grace=60)


async def test_idle_connections_end_soon_at_a_stop(uri):
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, things(), uri)
        async with connect(uri) as one_client, connect(uri) as other:
            assert await one_client.unary(ECHO, b"x") == b"x"
            await other.unary(ECHO, b"x")
            assert server.statistics().connections == 2
            nursery.start_soon(server.aclose)
            assert isinstance(await one_client.wait_closed(), ConnectionLost)
            assert isinstance(await other.wait_closed(), ConnectionLost)


@BOTH
async def test_every_kind_finishes_while_the_server_drains(over, tmp_path):
    """Also a stream that the client still sends; what begins now is refused."""
    gated = Gated()
    uri = f"ttrpc+unix://{tmp_path}/s"
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, gated.service, uri)
        async with await trio.open_unix_socket(f"{tmp_path}/s") as stream:
            stranger = Stranger(stream)
            nursery.start_soon(stranger.read)
            await stranger.send(request(1), request(3, "Count"), opening(5), data(5, b"a"))
            await until(lambda: gated.begun == 2)
            server.stop(grace=60)
            await stranger.send(data(5, b"b"), end(5), request(7), opening(9), request(11, "Count"))
            await until(lambda: gated.begun == 3)
            gated.gate.set()
            frames = await stranger.until_end()
        codes = {each.stream_id: each.code for each in frames if each.kind == 2}
        assert codes == {1: 0, 5: 0} | dict.fromkeys((7, 9, 11), StatusCode.UNAVAILABLE)
        assert [each.body for each in frames if each.stream_id == 3] == [b"first", b"last", b""]
        assert next(each for each in frames if each.stream_id == 5).payload == b"ab"


async def test_statistics(uri):
    gated = Gated()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, gated.service, uri)
        async with connect(uri) as client:
            nursery.start_soon(client.unary, ECHO, b"x")
            await until(lambda: gated.begun)
            now = server.statistics()
            assert (now.connections, now.accepted, now.active_calls, now.calls) == (1, 1, 1, 1)
            assert client.statistics().open_calls == 1
            gated.gate.set()
            await client.unary(ECHO, b"y")
            assert client.statistics().open_calls == 0
        await until(lambda: not server.statistics().connections)
        now = server.statistics()
        assert (now.accepted, now.active_calls, now.calls) == (1, 0, 2)
        await server.aclose()


# -- the peer does not read ---------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["refusals", "answers", "errors", "ends of streams"])
async def test_a_peer_that_never_reads(ask, autojump_clock, caplog):
    """Its requests wait or its connection ends: what is queued for it stays within the limits."""
    caplog.set_level("INFO", "rsocket_trio")

    async def fails(_request):
        raise ValueError

    service = things()
    service.add(Method.raw(SERVICE, "Fail"), fails)
    limits = TtrpcLimits(
        max_outbox_size=1000,
        max_control_size=2000,
        max_unsent_control_size=10_000,
        max_active_requests=100,
    )
    asked = {
        "refusals": lambda i: request(i, "None"),
        "answers": lambda i: request(i, payload=bytes(100)),
        "errors": lambda i: request(i, "Fail"),
        "ends of streams": lambda i: request(i, "Count"),
    }[ask]
    here, there = pair("lockstep")
    async with here, trio.open_nursery() as nursery:
        ended = trio.Event()

        async def serve_it():
            await serve_stream(service, there, config=TtrpcConfig(limits=limits))
            ended.set()

        nursery.start_soon(serve_it)
        sent = 0
        for stream_id in range(1, 4000, 2):
            with trio.move_on_after(1) as scope:
                try:
                    await here.send_all(asked(stream_id))
                except trio.BrokenResourceError:
                    break
            if scope.cancelled_caught:
                break
            sent += 1
        assert sent < 1999, "everything was accepted"
        with trio.fail_after(100):
            await ended.wait()
    assert "does not read" in caplog.text
    assert "please report" not in caplog.text
