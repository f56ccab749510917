"""A server ends one connection, and what a principal has open, on every wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio

from rsocket_trio import (
    Admitted,
    BearerAuthentication,
    ClientResume,
    ClosedByPeer,
    ConnectionClosed,
    Metadata,
    Payload,
    Peer,
    ResumeFacts,
    Router,
    ServerResume,
    Setup,
    Stopping,
    TransportInfo,
    Unauthenticated,
    connect,
    lumberjack,
    rsio,
    serve,
    ttrpc,
)
from rsocket_trio.reactive_streams import open_iter
from rsocket_trio.ttrpc import Method, MethodKind
from tests.gated import LOCAL
from tests.lumberjack.receiving import full_window, sender_to
from tests.waiting import until

TICKS = Method.raw("demo.Peers", "Ticks", MethodKind.SERVER_STREAM)
STUCK = Method.raw("demo.Peers", "Stuck", MethodKind.SERVER_STREAM)


async def authenticate(auth, facts):
    """The principal of a connection is the scheme, and that of a call is its token."""
    if isinstance(facts, Setup | ResumeFacts):
        return facts.transport.scheme
    return facts.principal if auth is None else Admitted(auth.token)


def router(peers):
    """One stream that ends when it is told to, and one that does not."""
    app = Router(authenticate=authenticate)

    @app.connection
    async def connected(peer: Peer) -> AsyncIterator[None]:
        assert peer.principal == peer.transport.scheme
        peers.append(peer)
        yield
        peers.remove(peer)

    @app.request_stream("demo.Peers/Ticks")
    async def ticks(stopping: Stopping, peer: Peer) -> AsyncIterator[bytes]:
        assert peer in peers
        yield b"tick"
        await stopping.wait()
        yield b"bye"

    @app.request_stream("demo.Peers/Stuck")
    async def stuck() -> AsyncIterator[bytes]:
        yield b"tick"
        await trio.sleep_forever()

    @app.events
    async def events(events: list[bytes], stopping: Stopping) -> None:
        await stopping.wait()

    return app


@pytest.fixture(params=["rsocket", "resumed", "reactivesocket", "rsio", "ttrpc", "lumberjack"])
def wire(request):
    return request.param


class Client:
    """A client of one wire with two streams, of which one ends by itself."""

    def __init__(self, wire, uri):
        self.wire, self.uri = wire, uri
        self.items = []
        self.errors = []
        self.began = trio.Event()

    async def run(self):
        await {"rsio": self._rsio, "ttrpc": self._ttrpc, "lumberjack": self._lumberjack}.get(
            self.wire, self._rsocket
        )()

    async def _read(self, open_stream):
        try:
            async with open_stream as items:
                async for item in items:
                    self.items.append(getattr(item, "data", item))
                    if len(self.items) == 2:
                        self.began.set()
        except Exception as error:
            self.errors.append(error)

    async def _both(self, ticks, stuck):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, ticks)
            nursery.start_soon(self._read, stuck)

    async def _rsocket(self):
        protocol = "rsocket" if self.wire == "resumed" else self.wire
        resume = ClientResume() if self.wire == "resumed" else None
        async with connect(self.uri, protocol=protocol, resume=resume) as requester:
            await self._both(
                requester.request_stream(route="demo.Peers/Ticks"),
                requester.request_stream(route="demo.Peers/Stuck"),
            )
            self.errors.append(await requester.wait_closed())

    async def _rsio(self):
        async with rsio.connect(self.uri) as connection:
            await self._both(
                open_iter(connection.publisher("demo.Peers/Ticks")),
                open_iter(connection.publisher("demo.Peers/Stuck")),
            )
            self.errors.append(await connection.wait_closed())

    async def _ttrpc(self):
        async with ttrpc.connect(self.uri) as client:
            await self._both(client.server_stream(TICKS, b""), client.server_stream(STUCK, b""))
            self.errors.append(await client.wait_closed())

    async def _lumberjack(self):
        server = type("Server", (), {"uris": [self.uri]})()
        async with sender_to(server) as sender:
            await sender.send(full_window(2))
            self.began.set()
            self.items.append(await sender.ack())


def serving(wire, app):
    match wire:
        case "rsio":
            return partial(
                rsio.serve, app, "rsio://127.0.0.1:0", data_mime_type="application/octet-stream"
            )
        case "ttrpc":
            return partial(ttrpc.serve, app, "tcp://127.0.0.1:0")
        case "lumberjack":
            return partial(lumberjack.serve, app, "lumberjack://127.0.0.1:0")
    return partial(serve, app, LOCAL, resume=ServerResume() if wire == "resumed" else None)


async def test_the_end_of_one_connection(wire, nursery):
    """What is told to end ends in peace, the rest is cut after the grace, and others go on."""
    peers = []
    server = await nursery.start(serving(wire, router(peers)))
    one, other = Client(wire, server.uris[0]), Client(wire, server.uris[0])
    async with trio.open_nursery() as clients:
        clients.start_soon(one.run)
        await one.began.wait()
        while not server.peers():  # the batch of Lumberjack may be on the way
            await trio.sleep(0.01)
        (peer,) = server.peers()
        assert peers == [peer]
        assert "127.0.0.1" in repr(peer)
        clients.start_soon(other.run)
        await other.began.wait()
        while len(server.peers()) == 1:
            await trio.sleep(0.01)
        peer.end("you are tired", grace=60)
        if wire != "lumberjack":
            await until(lambda: b"bye" in one.items)
            peer.end("you are tired", grace=0.1)
        while len(server.peers()) == 2 or peer in peers:
            await trio.sleep(0.01)
        assert other.errors == []
        assert server.end(lambda who: who == "nobody") == 0
        assert server.end(lambda who: who == peer.transport.scheme, "closing", grace=0) == 1
    while server.peers() or peers:  # the end of a sender that was cut is read for a moment
        await trio.sleep(0.01)
    if wire == "lumberjack":
        assert one.items == [(2, 2)]
    else:
        assert sorted(one.items) == [b"bye", b"tick", b"tick"]
        cut, end = one.errors
        assert isinstance(end, ConnectionClosed)
        if wire not in ("ttrpc", "reactivesocket"):  # which have no words for it
            assert "you are tired" in str(cut) or wire == "rsio"
            assert "you are tired" in str(end)
    await server.aclose(grace=0)


async def test_calls_with_an_authentication_of_their_own(nursery):
    """A gateway's connection goes on, and so do the calls of others."""
    peers = []
    server = await nursery.start(serve, router(peers), LOCAL)

    def stream(token):
        return requester.request_stream(
            route="demo.Peers/Stuck", metadata=Metadata(auth=BearerAuthentication(token))
        )

    async with connect(server.uris[0]) as requester:
        async with stream("ada") as ada, stream("bob") as bob:
            assert (await ada.receive()).data == (await bob.receive()).data == b"tick"
            assert server.end(lambda who: who == "ada", "banned") == 1
            with pytest.raises(Unauthenticated, match="UNAUTHENTICATED: banned"):
                await ada.receive()
            assert server.end(lambda who: who == "ada", "banned") == 0
            assert not requester.draining
            assert server.end(lambda who: who == "tcp", "all of you", grace=0) == 1
            with pytest.raises(ClosedByPeer, match="CONNECTION_CLOSE: all of you"):
                await bob.receive()
    await server.aclose(grace=0)


@pytest.mark.parametrize("of_ttrpc", [True, False])
async def test_authentications_run_out_on_other_wires(mock_clock, nursery, of_ttrpc):
    """With the connection's own on rsio, and with that of the call on ttrpc."""

    async def soon(auth, facts):
        if isinstance(facts, Setup) == of_ttrpc:
            return facts.principal
        return Admitted("ada", trio.current_time() + 0.05)

    app = Router(authenticate=soon)

    @app.request_stream("demo.Peers/Stuck")
    async def stuck() -> AsyncIterator[bytes]:
        yield b"tick"
        await trio.sleep_forever()

    server = await nursery.start(serving("ttrpc" if of_ttrpc else "rsio", app))
    if of_ttrpc:
        async with ttrpc.connect(server.uris[0]) as client:
            async with client.server_stream(STUCK, b"") as items:
                assert await items.receive() == b"tick"
                mock_clock.jump(0.05)
                with pytest.raises(ttrpc.Unauthenticated, match="has run out"):
                    await items.receive()
    else:
        async with rsio.connect(server.uris[0]) as connection:
            async with open_iter(connection.publisher("demo.Peers/Stuck")) as items:
                assert await anext(items) == b"tick"
                mock_clock.jump(0.05)
                with pytest.raises(rsio.PublisherError, match="has run out"):
                    await anext(items)
    await server.aclose(grace=0)


async def test_a_batch_after_the_end_of_its_authentication(nursery):
    """It is refused as by a guard: the connection closes without an acknowledgement."""

    async def over(auth, facts):
        if isinstance(facts, Setup):
            return Admitted("ada", trio.current_time() - 1)
        return facts.principal

    app = Router(authenticate=over)

    @app.events
    async def events(events: list[bytes]) -> None:
        raise AssertionError

    server = await nursery.start(serving("lumberjack", app))
    async with sender_to(server) as sender:
        await sender.send(full_window(2))
        assert await sender.stream.receive_some() == b""
    await server.aclose(grace=0)


async def test_an_end_before_the_connection_runs(nursery):
    """In `on_setup` it is kept for then: a client gets in only to be told."""

    async def away(setup, _requester):
        setup.peer.end("too late", grace=0)

    server = await nursery.start(serve, Router(on_setup=away), LOCAL)
    with pytest.raises(ConnectionClosed, match="too late"):
        async with connect(server.uris[0]) as requester:
            await requester.request_response(Payload(b""))
    await server.aclose(grace=0)


async def test_mistakes():
    peer = Peer(TransportInfo(scheme="memory"))
    with pytest.raises(ValueError, match="grace"):
        peer.end(grace=-1)
    with pytest.raises(TypeError, match="reason"):
        peer.end(b"bytes")
    with pytest.raises(RuntimeError, match="another thread"):
        await trio.to_thread.run_sync(peer.end)
    peer.end()  # of no connection, as in a test of a handler
