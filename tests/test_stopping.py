"""What handlers and clients see of a stop, on every wire; and that each request has an outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ClosedByPeer,
    ConnectionLost,
    RejectedSetup,
    Requester,
    Responder,
    Router,
    Setup,
    Stopping,
    connect,
    lumberjack,
    rsio,
    serve,
    ttrpc,
)
from rsocket_trio.frames import ErrorFrame, PayloadFrame, RequestStreamFrame
from rsocket_trio.reactive_streams import collect, from_iterable
from rsocket_trio.testing.in_memory import frame_peer_client
from tests.gated import LOCAL, flooded

SERVICE = "test.Endless"
TICKS = ttrpc.Method.raw(SERVICE, "ticks", ttrpc.MethodKind.SERVER_STREAM)


async def endless(stopping: Stopping) -> AsyncIterator[bytes]:
    """A stream that would live for hours."""
    assert not stopping.is_set()
    assert "not set" in repr(stopping)
    yield b"tick"
    await stopping.wait()
    assert stopping.is_set()
    yield b"bye"


def router() -> Router:
    """The stream, under the names of each wire."""
    app = Router()
    app.request_stream(f"{SERVICE}/ticks")(endless)
    return app


async def test_rsocket_handlers_learn_of_a_stop():
    """Their streams end by themselves, long before the grace is over; the client sees the drain."""
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, router(), LOCAL)
        async with connect(server.uris[0]) as requester:
            assert not requester.draining
            stream = requester.request_stream(
                route=f"{SERVICE}/ticks", prefetch=0, initial_request_n=1
            )
            async with stream as items:
                assert (await items.receive()).data == b"tick"
                server.stop(grace=3600)
                await requester.wait_draining()
                assert requester.draining
                assert not requester.closed
                assert repr(requester).endswith(" draining>")
                with pytest.raises(ClosedByPeer):
                    await requester.request_response()
                items.request_n(2)
                assert [item.data async for item in items] == [b"bye"]
            assert isinstance(await requester.wait_closed(), ClosedByPeer)
            assert not requester.draining
            await requester.wait_draining()
        with trio.fail_after(30):
            await server.aclose(grace=3600)


async def test_a_plain_responder_learns_of_a_stop():
    """`Setup.stopping` has it, and the requester of an acceptor says the same."""
    seen = []

    class Endless(Responder):
        def __init__(self, setup: Setup, requester: Requester) -> None:
            self.setup, self.requester = setup, requester

        async def request_stream(self, payload):
            yield payload
            await self.setup.stopping.wait()
            seen.append(self.requester.draining)

    async def accept(setup, requester):
        return Endless(setup, requester)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, accept, LOCAL)
        async with connect(server.uris[0]) as requester:
            async with requester.request_stream() as items:
                await items.receive()
                server.stop(grace=3600)
                assert [item async for item in items] == []
        with trio.fail_after(30):
            await server.aclose(grace=3600)
    assert seen == [True]


@pytest.mark.parametrize("accepts", [True, False])
async def test_an_acceptor_that_still_waits_learns_of_a_stop(accepts):
    """It need not wait for its timeout, of which the client would be told instead."""
    began = trio.Event()

    async def accept(setup, requester):
        began.set()
        await setup.stopping.wait()
        assert requester.draining
        if not accepts:
            raise RejectedSetup("not now")
        return Responder()

    async def ask(uri):
        with pytest.raises(ClosedByPeer if accepts else RejectedSetup) as caught:
            async with connect(uri) as requester:
                await requester.request_response()
        assert ("stopped" if accepts else "not now") in str(caught.value)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, accept, LOCAL)
        nursery.start_soon(ask, server.uris[0])
        await began.wait()
        assert server.statistics().connections == 0
        with trio.fail_after(30):
            await server.aclose(grace=3600)


async def test_a_peer_that_stops_is_a_stop_too():
    """A handler of either end learns that its peer has announced the end."""
    async with frame_peer_client(router()) as peer:
        metadata = b"\xfe\x00\x00\x13\x12" + f"{SERVICE}/ticks".encode()
        await peer.send(RequestStreamFrame(1, initial_request_n=9, metadata=metadata, data=b""))
        assert (await peer.receive(PayloadFrame)).data == b"tick"
        await peer.send(ErrorFrame(0, 0x102, b"leaving"))
        assert (await peer.receive(PayloadFrame)).data == b"bye"


async def test_stopping_belongs_to_one_thread():
    """A wait in another trio run would break both runs."""
    stopping = Stopping()
    with pytest.raises(RuntimeError, match="another thread"):
        await trio.to_thread.run_sync(trio.run, stopping.wait)


@pytest.mark.parametrize("routed", [True, False], ids=["router", "service"])
async def test_ttrpc_handlers_learn_of_a_stop(routed, tmp_path):
    """A router's by `Stopping`, a service's by `Call.stopping`; new calls are UNAVAILABLE."""
    served = router()
    if not routed:
        served = ttrpc.Service(SERVICE)

        @served.method("ticks")
        async def ticks(_request: bytes, call: ttrpc.Call) -> AsyncIterator[bytes]:
            async for each in endless(call.stopping):
                yield each

    async with trio.open_nursery() as nursery:
        server = await nursery.start(ttrpc.serve, served, f"unix://{tmp_path}/s")
        async with ttrpc.connect(server.uris[0]) as client:
            async with client.server_stream(TICKS, b"") as items:
                assert await items.receive() == b"tick"
                server.stop(grace=3600)
                with pytest.raises(ttrpc.Unavailable):
                    async with client.server_stream(TICKS, b"") as refused:
                        await refused.receive()
                assert [item async for item in items] == [b"bye"]
        with trio.fail_after(30):
            await server.aclose(grace=3600)


async def test_rsio_handlers_learn_of_a_stop():
    """The stream ends by itself, and the goodbye comes then; new subscriptions get an error."""
    connections = []

    async def greet(connection):
        connections.append(connection)
        await connection.wait_draining()
        connections.append("draining" if connection.draining else "over")

    async with trio.open_nursery() as nursery:
        serving = partial(
            rsio.serve,
            router(),
            "rsio://127.0.0.1:0",
            on_connection=greet,
            data_mime_type="application/octet-stream",
        )
        server = await nursery.start(serving)
        async with rsio.connect(server.uris[0]) as connection:
            got = []

            async def read():
                got.extend(await collect(connection.publisher(f"{SERVICE}/ticks")))

            async with trio.open_nursery() as reading:
                reading.start_soon(read)
                while server.statistics().publications == 0:
                    await trio.sleep(0.001)
                await trio.testing.wait_all_tasks_blocked(0.01)
                assert not connections[0].draining
                server.stop(grace=3600)
            assert got == [b"tick", b"bye"]
            assert isinstance(await connection.wait_closed(), rsio.GoodbyeReceived)
            assert connections[1:] == ["draining"]
        with trio.fail_after(30):
            await server.aclose(grace=3600)


async def test_an_events_handler_learns_of_a_stop():
    """It may be in the middle of a batch, e.g. waiting for another system, and leave it unread."""
    app = Router()
    seen = []

    @app.events()
    async def take(events: list[dict[str, int]], stopping: Stopping) -> None:
        await stopping.wait()
        seen.append(len(events))

    async with trio.open_nursery() as nursery:
        server = await nursery.start(lumberjack.serve, app, "lumberjack://127.0.0.1:0")
        async with lumberjack.connect(server.uris[0]) as client:
            async with trio.open_nursery() as sending:
                sending.start_soon(client.send, [{"n": 1}])
                while server.statistics().held_batches == 0:
                    await trio.sleep(0.001)
                assert seen == []
                server.stop(grace=3600)
        with trio.fail_after(30):
            await server.aclose(grace=3600)
    assert seen == [1]


async def test_a_flood_of_ttrpc_that_meets_a_stop(tmp_path):
    """ttrpc announces no end: a call is answered, UNAVAILABLE, or its connection is gone."""
    service = ttrpc.Service(SERVICE)

    @service.method("echo")
    async def echo(request: bytes) -> bytes:
        return request

    method = ttrpc.Method.raw(SERVICE, "echo")
    outcomes = Counter()

    async def ask(client):
        for _ in range(100):
            try:
                assert await client.unary(method, b"x") == b"x"
                outcomes["answered"] += 1
            except (ttrpc.Unavailable, ConnectionLost) as error:
                outcomes[type(error).__name__] += 1

    for turns in range(8):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(ttrpc.serve, service, f"unix://{tmp_path}/{turns}")
            async with ttrpc.connect(server.uris[0]) as client:
                await flooded(server, turns, partial(ask, client))
            with trio.fail_after(30):
                await server.aclose(grace=60)
    assert outcomes.total() == 8 * 10 * 100
    assert outcomes["answered"]


async def test_a_flood_of_rsio_that_meets_a_stop():
    """Each subscription gets its element, an error of the publisher, or the goodbye."""
    outcomes = Counter()

    async def ask(connection):
        for _ in range(100):
            try:
                assert await collect(connection.publisher("one")) == [b"x"]
                outcomes["answered"] += 1
            except (rsio.PublisherError, rsio.GoodbyeReceived) as error:
                outcomes[type(error).__name__] += 1

    for turns in range(8):
        async with trio.open_nursery() as nursery:
            target = {"one": from_iterable([b"x"])}
            server = await nursery.start(rsio.serve, target, "rsio://127.0.0.1:0")
            async with rsio.connect(server.uris[0]) as connection:
                await flooded(server, turns, partial(ask, connection))
                assert isinstance(await connection.wait_closed(), rsio.GoodbyeReceived)
            with trio.fail_after(30):
                await server.aclose(grace=60)
    assert outcomes.total() == 8 * 10 * 100
    assert outcomes["answered"]


@pytest.mark.parametrize("turns", range(0, 80, 10))
async def test_a_flood_of_lumberjack_that_meets_a_stop(turns):
    """Each event that was acknowledged was handled, once; the others are still the sender's."""
    handled = []
    acknowledged = []

    async def take(batch):
        handled.extend(event["n"] for event in batch.events)

    async def send(client, first):
        for n in range(first, first + 50):
            await client.send([{"n": n}])
            acknowledged.append(n)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(lumberjack.serve, take, "lumberjack://127.0.0.1:0")
        async with lumberjack.connect(server.uris[0]) as client:
            async with trio.open_nursery() as sending:
                for first in range(0, 500, 50):
                    sending.start_soon(send, client, first)
                for _ in range(turns):
                    await trio.lowlevel.checkpoint()
                with trio.fail_after(30):
                    await server.aclose(grace=60)
                sending.cancel_scope.cancel()
    assert set(acknowledged) <= set(handled)
    assert len(handled) == len(set(handled))


async def take_all(batch):
    """Takes the events of a batch."""


SERVERS = {
    "rsocket": (serve, Responder(), LOCAL),
    "ttrpc": (ttrpc.serve, ttrpc.Service(SERVICE), LOCAL),
    "rsio": (rsio.serve, {}, "rsio://127.0.0.1:0"),
    "lumberjack": (lumberjack.serve, take_all, "lumberjack://127.0.0.1:0"),
}


@pytest.mark.parametrize("wire", SERVERS)
async def test_a_server_may_be_stopped_again_at_any_time(wire, autojump_clock):
    """Also while its connections close already: a silent peer keeps them at that for a while."""
    start, served, uri = SERVERS[wire]
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        server = await nursery.start(start, served, uri)
        port = int(server.uris[0].rpartition(":")[2])
        async with await trio.open_tcp_stream("127.0.0.1", port):
            while not server.statistics().connections and wire != "rsocket":
                await trio.lowlevel.checkpoint()
            for _ in range(8):
                server.stop(grace=3600)
                await trio.sleep(0.2)
            await server.aclose(grace=3600)
    assert trio.current_time() - began < 60
