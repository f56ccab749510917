"""The phases of a graceful stop, on every wire, in virtual time.

1. Everything is served for `delay`, but the process is not ready. 2. The listeners close, and what
crosses is answered. 3. Goodbyes, spread over `spread`; `Stopping` is set. 4. `grace`. 5. The end.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
import trustme

from rsocket_trio import (
    ClosedByPeer,
    ConnectFailed,
    ConnectionAge,
    Health,
    Router,
    RSocketError,
    Server,
    Stopping,
    connect,
    lumberjack,
    rsio,
    serve,
    ttrpc,
)
from rsocket_trio.frames import ErrorFrame, SetupFrame, decode
from rsocket_trio.reactive_streams import collect
from rsocket_trio.testing.leaks import assert_no_leaks
from tests.gated import LOCAL

SERVICE = "test.Phases"
ECHO = ttrpc.Method.raw(SERVICE, "echo", ttrpc.MethodKind.UNARY)
HOLD = ttrpc.Method.raw(SERVICE, "hold", ttrpc.MethodKind.UNARY)


class Log(list):
    """What handlers saw, and when."""

    def add(self, what):
        self.append((trio.current_time(), what))

    def when(self, what):
        return [when for when, each in self if each == what]


def application(log: Log) -> Router:
    """A handler that answers, and one that goes on until it is cancelled."""
    app = Router()

    @app.request_response(f"{SERVICE}/echo")
    async def echo() -> bytes:
        return b"echo"

    @app.request_response(f"{SERVICE}/hold")
    async def hold(stopping: Stopping) -> bytes:
        try:
            log.add("began")
            await stopping.wait()
            log.add("stopping")
            await trio.sleep_forever()
        except trio.Cancelled:
            log.add("cancelled")
            raise
        return b""

    return app


@asynccontextmanager
async def rsocket_client(uri):
    async with connect(uri) as requester:

        async def ask(name):
            await requester.request_response(route=f"{SERVICE}/{name}")

        yield ask


@asynccontextmanager
async def ttrpc_client(uri):
    async with ttrpc.connect(uri) as client:

        async def ask(name):
            await client.unary({"echo": ECHO, "hold": HOLD}[name], b"")

        yield ask


@asynccontextmanager
async def rsio_client(uri):
    async with rsio.connect(uri) as connection:

        async def ask(name):
            await collect(connection.publisher(f"{SERVICE}/{name}"))

        yield ask


CLIENTS = {
    "rsocket": (serve, LOCAL, rsocket_client),
    "ttrpc": (ttrpc.serve, LOCAL, ttrpc_client),
    "rsio": (rsio.serve, "rsio://127.0.0.1:0", rsio_client),
}
FAILURES = (RSocketError, ttrpc.CallError, trio.ClosedResourceError, Exception)


@pytest.fixture(params=CLIENTS)
async def wire(request):
    return CLIENTS[request.param]


@asynccontextmanager
async def served(start, uri, log, **options):
    """A server with the application; the block ends it at once."""
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(partial(start, application(log), uri, **options))
        yield server, nursery
        server.stop(grace=0)


async def hold(client, uri, ready):
    """A client with a request that goes on; the request fails in the end."""
    async with client(uri) as ask:
        ready()
        with pytest.raises(FAILURES):
            await ask("hold")


async def holding(nursery, client, server, log, clients=1):
    """Clients with requests that go on."""
    for _ in range(clients):
        nursery.start_soon(hold, client, server.uris[0], lambda: None)
    with trio.fail_after(30):
        while len(log.when("began")) < clients:
            await trio.sleep(0.001)


def refuses(server):
    """Whether nobody listens any more."""
    port = int(server.uris[0].rpartition(":")[2])
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    return False


async def test_the_phases_in_their_order(wire, autojump_clock):
    """Each at its time, by the clock; the whole takes no longer than their sum."""
    start, uri, client = wire
    log, health = Log(), Health()
    async with served(start, uri, log, health=health) as (server, nursery):
        await holding(nursery, client, server, log)
        assert (await health.ready()).ready
        began = trio.current_time()
        server.stop(delay=10, spread=5, grace=20)
        # 1: a new client, and a request.
        assert not (await health.ready()).ready
        await trio.sleep(9)
        async with client(server.uris[0]) as ask:
            await ask("echo")
        assert log.when("stopping") == []
        # 2: the listener is closed.
        assert not refuses(server)
        await trio.sleep_until(began + 10.01)
        assert refuses(server)
        # 3: the goodbye, which the handler sees.
        await trio.sleep_until(began + 15.01)
        (told,) = log.when("stopping")
        assert began + 10 <= told <= began + 15.01
        # 4 and 5: the grace, and the end.
        await trio.sleep_until(began + 34.9)
        if start is not rsio.serve:  # whose goodbye is the last word: half of the grace is for it
            assert log.when("cancelled") == []
        await server.aclose(grace=100)
        (cut,) = log.when("cancelled")
        assert cut == pytest.approx(began + (25 if start is rsio.serve else 35), abs=0.1)
        assert trio.current_time() <= began + 35.1


async def test_goodbyes_are_spread(wire, autojump_clock):
    """A spread that is longer than the grace cuts nobody before the grace of the last is over."""
    start, uri, client = wire
    log = Log()
    async with served(start, uri, log) as (server, nursery):
        await holding(nursery, client, server, log, clients=20)
        began = trio.current_time()
        await server.aclose(spread=60, grace=4)
        told, cut = log.when("stopping"), log.when("cancelled")
        assert len(told) == len(cut) == 20
        assert began <= min(told) < max(told) <= began + 60
        assert max(told) - min(told) > 10
        assert min(cut) >= began + 60


@pytest.mark.parametrize(
    ("first", "after", "second", "told_by", "end"),
    [
        ({"delay": 100}, 10, {"grace": 20}, 10, 30),  # out of the first phase
        ({"delay": 5, "spread": 100}, 10, {"grace": 20}, 10, 30),  # out of the third
        ({"grace": 100}, 10, {"grace": 20}, 0, 30),  # shorter grace
        ({"grace": 30}, 10, {"delay": 50, "spread": 50, "grace": 50}, 0, 30),  # no later
        ({"delay": 30, "spread": 30}, 10, {"grace": 0}, 10, 10),  # at once
    ],
)
async def test_two_stops(autojump_clock, first, after, second, told_by, end):
    """Each phase ends at the earliest time that any of them has asked for."""
    log = Log()
    async with served(serve, LOCAL, log) as (server, nursery):
        await holding(nursery, rsocket_client, server, log)
        began = trio.current_time()
        server.stop(**first)
        await trio.sleep(after)
        server.stop(**second)
        await server.aclose(delay=1000, spread=1000, grace=1000)
        if end > told_by:
            (told,) = log.when("stopping")
            assert told <= began + told_by + 0.1
        (cut,) = log.when("cancelled")
        assert cut == pytest.approx(began + end, abs=0.1)


@pytest.mark.parametrize("at", [5, 15, 25])
@pytest.mark.parametrize("who", ["aclose", "serve"])
async def test_cancellation_in_each_phase(wire, autojump_clock, at, who):
    """Of who waits for the stop: it goes on. Of the server: all ends at once."""
    start, uri, client = wire
    log = Log()
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        serving = trio.CancelScope()

        async def run(*, task_status):
            with serving:
                await start(application(log), uri, task_status=task_status)

        server = await nursery.start(run)
        await holding(nursery, client, server, log)
        began = trio.current_time()
        if who == "aclose":
            with trio.move_on_after(at):
                await server.aclose(delay=10, spread=10, grace=20)
            assert log.when("cancelled") == []
            await server.aclose(delay=100)
            assert trio.current_time() <= began + 40.1
        else:
            server.stop(delay=10, spread=10, grace=20)
            await trio.sleep(at)
            serving.cancel()
            await server.aclose(delay=100)
            assert trio.current_time() == pytest.approx(began + at, abs=0.1)
        assert len(log.when("cancelled")) == 1


async def test_a_handler_may_stop_its_server(autojump_clock):
    """It is a part of the drain: its answer arrives, though it waited through two phases."""
    app = Router()
    servers: list[Server] = []

    @app.request_response("stop")
    async def stop(stopping: Stopping) -> str:
        servers[0].stop(delay=10, spread=10, grace=10)
        await stopping.wait()
        return "stopped"

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        servers.append(await nursery.start(serve, app, LOCAL))
        async with connect(servers[0].uris[0]) as requester:
            assert b"stopped" in (await requester.request_response(route="stop")).data
            assert 10 <= trio.current_time() <= 20.1
        await servers[0].aclose(grace=100)
    assert trio.current_time() < 23


@pytest.mark.parametrize(
    "wrong",
    [{"delay": -1}, {"spread": float("inf")}, {"delay": float("nan")}, {"grace": "5"}],
)
async def test_wrong_times(wrong):
    async with served(serve, LOCAL, Log()) as (server, _):
        with pytest.raises((TypeError, ValueError), match=next(iter(wrong))):
            server.stop(**wrong)
        assert not refuses(server)


# -- phase 2: what crosses


def queued(server):
    """Connect, without a turn of the loop: nobody has accepted it."""
    port = int(server.uris[0].rpartition(":")[2].strip("/"))
    return socket.create_connection(("127.0.0.1", port))


async def rest_of(sock):
    """Read to the end of the stream; a reset is an error."""
    async with trio.SocketStream(trio.socket.from_stdlib_socket(sock)) as stream:
        return b"".join([bytes(part) async for part in stream])


SETUP = SetupFrame(1, 0, keepalive_interval_ms=1000, max_lifetime_ms=5000).encode()


@pytest.mark.parametrize("sent", [b"", len(SETUP).to_bytes(3, "big") + SETUP])
async def test_a_client_in_the_queue_is_told(sent):
    """It has connected, also sent its SETUP, and nobody has accepted it: CONNECTION_CLOSE."""
    async with served(serve, LOCAL, Log()) as (server, _):
        sock = queued(server)
        sock.sendall(sent)
        server.stop(grace=60)
        answer = await rest_of(sock)
    frame = decode(answer[3:])
    assert isinstance(frame, ErrorFrame)
    assert (frame.stream_id, frame.code) == (0, 0x102)
    assert frame.data == b"the server is being stopped"


async def test_a_call_in_the_queue_is_answered():
    """ttrpc: UNAVAILABLE, and not a reset, so its client may send it elsewhere."""
    async with served(ttrpc.serve, LOCAL, Log()) as (server, _):
        sock = queued(server)
        server.stop(grace=60)
        async with ttrpc.connect(sock) as client:
            with pytest.raises(ttrpc.CallError) as caught:
                await client.unary(ECHO, b"")
    assert caught.value.code == ttrpc.StatusCode.UNAVAILABLE


async def test_a_client_of_rsio_in_the_queue_gets_a_goodbye():
    async with served(rsio.serve, "rsio://127.0.0.1:0", Log()) as (server, _):
        sock = queued(server)
        server.stop(grace=60)
        with pytest.raises(
            (ConnectFailed, rsio.GoodbyeReceived), match="the server is being stopped"
        ):
            async with rsio.connect(sock) as connection:
                await connection.wait_closed()
                raise await connection.wait_closed()


async def test_a_sender_in_the_queue_is_not_reset():
    """Lumberjack has no words for it: its events are not acknowledged, and the stream just ends."""
    handled = []

    async def handle(batch):
        handled.append(batch)

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(lumberjack.serve, handle, "lumberjack://127.0.0.1:0")
        sock = queued(server)
        sock.sendall(b"2W\x00\x00\x00\x01" + b"2J\x00\x00\x00\x01\x00\x00\x00\x02{}")
        server.stop(grace=60)
        assert await rest_of(sock) == b""
        await server.aclose()
    assert handled == []


@pytest.mark.parametrize("scheme", ["ws", "tls"])
async def test_a_handshake_that_crosses_the_stop(scheme):
    """It is finished, and then the client is told; no bare cut."""
    authority, trust, context = trustme.CA(), ssl.create_default_context(), None
    authority.configure_trust(trust)
    if scheme == "tls":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
    start = partial(serve, ssl_context=context)
    async with served(start, f"{scheme}://127.0.0.1:0", Log()) as (server, _):
        sock = queued(server)
        server.stop(grace=60)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        if scheme == "tls":
            secure = trio.SSLStream(stream, trust, server_hostname="localhost")
            await secure.do_handshake()
            answer = await secure.receive_some()
        else:
            await stream.send_all(
                b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                b"Sec-WebSocket-Version: 13\r\n\r\n"
            )
            answer = b""
            while b"being stopped" not in answer:
                answer += await stream.receive_some() or b"being stopped (missing)"
        assert b"the server is being stopped" in answer
        await trio.aclose_forcefully(stream)


async def test_the_queue_of_an_inherited_socket_is_left_alone():
    """It is for the next process that has the socket: the connection is served there."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    uri = f"fd://{listening.fileno()}"
    listening_again = listening.dup()
    listening.detach()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(ttrpc.serve, application(Log()), uri)
        sock = socket.create_connection(("127.0.0.1", port))
        await server.aclose(grace=0)
        server = await nursery.start(
            ttrpc.serve, application(Log()), f"fd://{listening_again.detach()}"
        )
        async with ttrpc.connect(sock) as client:
            assert await client.unary(ECHO, b"") == b"echo"
        server.stop(grace=0)


# -- the age of a connection


async def test_a_connection_reaches_its_age(wire, autojump_clock):
    """Its client may connect again, and what is open goes on for its grace; the server lives."""
    start, uri, client = wire
    log = Log()
    age = ConnectionAge(100, grace=50)
    async with served(start, uri, log, max_age=age) as (server, nursery):
        await holding(nursery, client, server, log)
        began = trio.current_time()
        await trio.sleep(80)
        assert log.when("stopping") == []
        await trio.sleep(30.1)
        (told,) = log.when("stopping")
        assert began + 90 <= told <= began + 110
        async with client(server.uris[0]) as ask:
            await ask("echo")
        await trio.sleep(100)
        (cut,) = log.when("cancelled")
        assert cut == pytest.approx(told + 50, abs=1)


async def test_a_stream_older_than_the_age_goes_on(autojump_clock):
    """By default without an end; CONNECTION_CLOSE comes once, also when the server stops later."""
    app = Router()

    @app.request_stream("hours")
    async def hours() -> AsyncIterator[int]:
        for hour in range(5):
            yield hour
            await trio.sleep(7200)  # with keepalives all the time

    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(partial(serve, app, LOCAL, max_age=ConnectionAge(3600)))
        async with connect(server.uris[0]) as requester:
            async with requester.request_stream(route="hours") as items:
                assert (await items.receive()).data == b"\x00"
                await requester.wait_draining()
                assert 0.9 * 3600 <= trio.current_time() <= 1.1 * 3600
                assert (await items.receive()).data == b"\x01"
                server.stop(grace=10 * 7200)
                assert [item.data async for item in items] == [b"\x02", b"\x03", b"\x04"]
            reason = await requester.wait_closed()
        assert isinstance(reason, ClosedByPeer)
        assert "reached its age" in str(reason)
        await server.aclose(grace=10)
