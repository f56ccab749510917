"""Every public method asks in one order: right thread? cancelled? over? Then it works.

`USES` has every method of the objects that the wires give to applications. Each is called in the
trio run of another thread, where its caller fails and nobody else; after the end of its connection,
by the peer or here, in a cancelled scope, whose cancellation is what the caller sees; and after the
end in a living scope, where the end is. A method that is missing in the table fails the last test.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import rsocket_trio
from rsocket_trio import (
    BearerAuthentication,
    Caller,
    ConnectionClosed,
    Lease,
    LeaseGranter,
    LeaseOptions,
    Payload,
    Peer,
    Responder,
    StreamedPayload,
    connect,
    connect_pool,
    lumberjack,
    open_background,
    request_response,
    rsio,
    serve,
    ttrpc,
)
from rsocket_trio.collector import connect_collector
from rsocket_trio.reactive_streams import (
    SourceClosed,
    collect,
    from_async_iterable,
    never,
    pipe,
)
from rsocket_trio.reactive_streams.operators import batch
from rsocket_trio.rsio.errors import RsioError
from rsocket_trio.sealed import Sealed
from rsocket_trio.spool import Batch, SpoolClosed, open_spool
from rsocket_trio.testing.cancel_everywhere import cancel_everywhere
from rsocket_trio.uri import parse_uri
from rsocket_trio.workers.parent import Job, WorkersFailed, supervise
from tests.collector.running import running
from tests.rsio.engine_scenes import Recorder
from tests.ttrpc.mux.trunks import trunk_pair
from tests.ttrpc.scenes import CHAT, COUNT, ECHO, JOIN, SERVICE

ENDED = (ConnectionClosed, trio.ClosedResourceError)
LOCAL = "127.0.0.1:0"
REQUEST = Payload(b"x")
WAIT = Payload(b"wait")
BEGUN = 10_000
BATCH = Batch(1, b"x", encoding="raw")


@attrs.frozen
class Use:
    """A method, and what is expected of it.

    Attributes:
        scene: Makes the objects.
        name: ``Class.method``.
        call: Calls it, with the objects.
        over: What it raises after the end; ``None`` if it raises nothing.
        waits: Whether it is asynchronous, and so sees a cancellation.
    """

    scene: Callable[..., Any]
    name: str
    call: Callable[[SimpleNamespace], Any]
    over: type[Exception] | tuple[type[Exception], ...] | None
    waits: bool

    def __str__(self) -> str:
        return f"{self.scene.__name__}-{self.name}"


USES: list[Use] = []


def use(scene, name, call, *, over=ENDED, waits=True) -> None:
    USES.append(Use(scene, name, call, over, waits))


ends = partial(use, over=None)
"""A method that works after the end too."""

tells = partial(ends, waits=False)
"""The same for one that does not wait."""


async def entered(block) -> None:
    async with block:
        pass


async def first_of(block) -> None:
    async with block as items:
        await items.receive()


async def rest_of(items) -> None:
    async for _ in items:
        pass


async def silent() -> AsyncIterator[Any]:
    """A source without items and without an end."""
    await trio.sleep_forever()
    yield b""


# -- RSocket --------------------------------------------------------------------------------


class Quiet(Responder):
    """Echoes single requests. Its streams are silent, and bodies stop after the first bytes."""

    async def request_response(self, payload):
        if payload == WAIT:
            await trio.sleep_forever()
        return StreamedPayload(self.begun()) if payload.data == b"body" else payload

    async def begun(self):
        yield bytes(BEGUN)
        await trio.sleep_forever()

    async def fire_and_forget(self, payload):
        pass

    async def metadata_push(self, metadata):
        pass

    def request_stream(self, payload):
        return silent()

    def request_channel(self, payload, payloads):
        return silent()


@asynccontextmanager
async def rsocket(_directory):
    async with (
        trio.open_nursery() as nursery,
        asynccontextmanager(open_background)() as background,
        AsyncExitStack() as stack,
    ):
        granter = LeaseGranter(Lease(1000, 1000))
        options = {"lease": granter}
        server = await nursery.start(partial(serve, Quiet(), f"tcp://{LOCAL}", **options))
        enter = stack.enter_async_context
        requester = await enter(connect(server.uris[0], lease=LeaseOptions()))
        caller = Caller(requester)
        (peer,) = server.peers()
        peer._renew = lambda _auth: trio.lowlevel.checkpoint()
        body = await enter(requester.request_response_streamed(Payload(b"body")))
        left = BEGUN
        while left:  # what has arrived is given before the end
            left -= len(await body.receive())

        async def by_peer() -> None:
            server.stop(grace=0)
            await requester.wait_closed()

        async def without_room() -> None:
            requester._connection.outbox.room.set_limit(0)
            await requester.request_response(REQUEST)

        async def without_lease() -> None:
            granter.grant(Lease(0, 0))
            while requester.leases.sendable_requests:
                await trio.sleep(0.001)
            await requester.request_response(REQUEST)

        yield SimpleNamespace(
            server=server,
            granter=granter,
            peer=peer,
            background=background,
            requester=requester,
            caller=caller,
            body=body,
            items=await enter(requester.request_stream(REQUEST)),
            manual=await enter(requester.request_stream(REQUEST, prefetch=0, initial_request_n=1)),
            objects=await enter(caller.request_stream("r", 1, returns=int)),
            manual_objects=await enter(
                caller.request_stream("r", 1, returns=int, prefetch=0, initial_request_n=1)
            ),
            leases=requester.leases,
            without_room=without_room,
            without_lease=without_lease,
            alive=lambda: requester.request_response(REQUEST),
            by_peer=by_peer,
            here=stack.aclose,
        )
        await stack.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


def channel(requester) -> Any:
    return requester.request_channel([REQUEST])


@asynccontextmanager
async def silent_dial():
    await trio.sleep_forever()
    yield


@asynccontextmanager
async def pools(_directory):
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        server = await nursery.start(serve, Quiet(), f"tcp://{LOCAL}")
        requester = await stack.enter_async_context(connect_pool(list(server.uris)))
        await requester.request_response(REQUEST)

        nowhere = await stack.enter_async_context(connect_pool([silent_dial]))

        yield SimpleNamespace(
            requester=requester,
            without_target=lambda: nowhere.request_response(REQUEST),
            alive=lambda: requester.request_response(REQUEST),
            by_peer=stack.aclose,
            here=stack.aclose,
        )
        await stack.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


@request_response("r")
async def declared(n: int) -> bytes:
    """A declaration; it is only called at the other end."""
    raise NotImplementedError


for scene, name in ((rsocket, "Requester"), (pools, "Pool")):
    use(scene, f"{name}.request_response", lambda it: it.requester.request_response(REQUEST))
    use(
        scene,
        f"{name}.request_response_streamed",
        lambda it: entered(it.requester.request_response_streamed(REQUEST)),
    )
    use(scene, f"{name}.fire_and_forget", lambda it: it.requester.fire_and_forget(REQUEST))
    use(scene, f"{name}.request_stream", lambda it: entered(it.requester.request_stream(REQUEST)))
    use(scene, f"{name}.request_channel", lambda it: first_of(channel(it.requester)))
    use(scene, f"{name}.metadata_push", lambda it: it.requester.metadata_push(b"m"))
    ends(scene, f"{name}.wait_closed", lambda it: it.requester.wait_closed())
    ends(scene, f"{name}.wait_draining", lambda it: it.requester.wait_draining())
tells(pools, "Pool.targets", lambda it: it.requester.targets())
use(rsocket, "Caller.request_response", lambda it: it.caller.request_response("r", 1))
use(rsocket, "Caller.call", lambda it: it.caller.call(declared, 1))
use(
    rsocket,
    "Caller.request_response_streamed",
    lambda it: entered(it.caller.request_response_streamed("r", 1)),
)
use(rsocket, "Caller.fire_and_forget", lambda it: it.caller.fire_and_forget("r", 1))
use(rsocket, "Caller.request_stream", lambda it: entered(it.caller.request_stream("r", 1)))
use(rsocket, "Caller.request_channel", lambda it: first_of(it.caller.request_channel("r", [1])))
for stream, name in (
    ("items", "PayloadStream"),
    ("objects", "ItemStream"),
    ("body", "PayloadBody"),
):
    use(rsocket, f"{name}.receive", lambda it, stream=stream: getattr(it, stream).receive())
    ends(rsocket, f"{name}.aclose", lambda it, stream=stream: getattr(it, stream).aclose())
use(rsocket, "PayloadStream.__anext__", lambda it: rest_of(it.items))
use(rsocket, "ItemStream.__anext__", lambda it: rest_of(it.objects))
use(rsocket, "PayloadStream.receive_many", lambda it: it.items.receive_many())
use(rsocket, "PayloadStream.receive_nowait", lambda it: it.items.receive_nowait(), waits=False)
use(
    rsocket,
    "PayloadStream.request_n",
    lambda it: it.manual.request_n(1),
    over=(trio.ClosedResourceError, type(None)),
    waits=False,
)
use(
    rsocket,
    "ItemStream.request_n",
    lambda it: it.manual_objects.request_n(1),
    over=(trio.ClosedResourceError, type(None)),
    waits=False,
)
tells(rsocket, "PayloadStream.close", lambda it: it.items.close())
tells(rsocket, "PayloadBody.close", lambda it: it.body.close())
tells(rsocket, "ConnectionLeases.grant", lambda it: it.leases.grant(Lease(1, 1)))
tells(rsocket, "ConnectionLeases.statistics", lambda it: it.leases.statistics())
tells(rsocket, "Peer.end", lambda it: it.peer.end(grace=9))
ends(rsocket, "Peer.renew", lambda it: it.peer.renew(BearerAuthentication("token")))
tells(rsocket, "Background.start_soon", lambda it: it.background.start_soon(trio.sleep, 0))
tells(rsocket, "LeaseGranter.grant", lambda it: it.granter.grant(Lease(9, 9)))


# -- several processes, here none ------------------------------------------------------------


@asynccontextmanager
async def processes(_directory):
    async with trio.open_nursery() as nursery:
        run = partial(
            supervise,
            Job(run="a:b"),
            [parse_uri("tcp://127.0.0.1:0")],
            workers=0,
            max_connections=None,
            start_timeout=1,
        )
        workers = await nursery.start(run)
        ends = workers.aclose
        yield SimpleNamespace(workers=workers, alive=workers.report, by_peer=ends, here=ends)
        nursery.cancel_scope.cancel(reason="the test is over")


use(processes, "Workers.reload", lambda it: it.workers.reload(), over=WorkersFailed)
ends(processes, "Workers.report", lambda it: it.workers.report())
ends(processes, "Workers.metrics", lambda it: it.workers.metrics())
ends(processes, "Workers.aclose", lambda it: it.workers.aclose())
tells(processes, "Workers.stop", lambda it: it.workers.stop())
tells(processes, "Workers.status", lambda it: it.workers.status())


# -- ttrpc ----------------------------------------------------------------------------------


@asynccontextmanager
async def rpc(directory):
    service = ttrpc.Service(SERVICE)
    given = []

    @service.method("Echo")
    async def echo(request: bytes) -> bytes:
        if request == b"wait":
            await trio.sleep_forever()
        return request

    @service.method("Count")
    async def count(request: bytes) -> AsyncIterator[bytes]:
        async for each in silent():
            yield each

    @service.method("Join")
    async def join(parts: trio.abc.ReceiveChannel[bytes]) -> bytes:
        await rest_of(parts)
        await trio.sleep_forever()
        return b""

    @service.method("Chat")
    async def chat(lines: trio.abc.ReceiveChannel[bytes]) -> AsyncIterator[bytes]:
        given.append(lines)
        async for each in silent():
            yield each

    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        uri = f"unix://{directory}/s"
        server = await nursery.start(partial(ttrpc.serve, service, uri))
        enter = stack.enter_async_context
        client = await enter(ttrpc.connect(uri))
        chat_call = await enter(client.bidi_stream(CHAT))
        await chat_call.send(b"x")
        while not given:
            await trio.sleep(0.01)

        async def by_peer() -> None:
            server.stop(grace=0)
            await client.wait_closed()

        yield SimpleNamespace(
            server=server,
            client=client,
            chat=chat_call,
            join=await enter(client.client_stream(JOIN)),
            count=await enter(client.server_stream(COUNT, b"")),
            alive=lambda: client.unary(ECHO, b"x"),
            by_peer=by_peer,
            here=stack.aclose,
        )
        await stack.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


use(rpc, "Client.unary", lambda it: it.client.unary(ECHO, b"x"))
use(rpc, "Client.server_stream", lambda it: entered(it.client.server_stream(COUNT, b"1")))
use(rpc, "Client.client_stream", lambda it: entered(it.client.client_stream(JOIN)))
use(rpc, "Client.bidi_stream", lambda it: entered(it.client.bidi_stream(CHAT)))
ends(rpc, "Client.wait_closed", lambda it: it.client.wait_closed())
use(rpc, "ClientStream.send", lambda it: it.join.send(b"x"))
ends(rpc, "ClientStream.end", lambda it: it.join.end())
use(rpc, "ClientStream.reply", lambda it: it.join.reply())
use(rpc, "BidiStream.send", lambda it: it.chat.send(b"x"))
ends(rpc, "BidiStream.end", lambda it: it.chat.end())
for stream, name in (("chat", "BidiStream"), ("count", "ReplyStream")):
    use(rpc, f"{name}.receive", lambda it, stream=stream: getattr(it, stream).receive())
    use(rpc, f"{name}.__anext__", lambda it, stream=stream: rest_of(getattr(it, stream)))
    ends(rpc, f"{name}.aclose", lambda it, stream=stream: getattr(it, stream).aclose())
    tells(rpc, f"{name}.close", lambda it, stream=stream: getattr(it, stream).close())


@asynccontextmanager
async def trunks(_directory):
    async with AsyncExitStack() as stack:
        trunk, other = await stack.enter_async_context(trunk_pair())
        one, two = trunk.open(1), other.open(1)

        async def alive() -> bool:
            await one.send_all(b"x")
            return await two.receive_some() == b"x"

        yield SimpleNamespace(
            trunk=trunk, stream=one, alive=alive, by_peer=stack.aclose, here=one.aclose
        )


use(
    trunks,
    "Trunk.open",
    lambda it: it.trunk.open(2),
    over=trio.ClosedResourceError,
    waits=False,
)
use(
    trunks,
    "MultiplexedStream.send_all",
    lambda it: it.stream.send_all(b"x"),
    over=trio.ClosedResourceError,
)
use(
    trunks,
    "MultiplexedStream.wait_send_all_might_not_block",
    lambda it: it.stream.wait_send_all_might_not_block(),
    over=trio.ClosedResourceError,
)
use(
    trunks,
    "MultiplexedStream.receive_some",
    lambda it: it.stream.receive_some(),
    over=trio.ClosedResourceError,
)
ends(trunks, "MultiplexedStream.aclose", lambda it: it.stream.aclose())


# -- rsio -----------------------------------------------------------------------------------


class Nothing:
    """A publisher that never sends an element."""

    def subscribe(self, subscriber) -> None:
        subscriber.on_subscribe(self)

    def request(self, n) -> None:
        pass

    def cancel(self) -> None:
        pass


class Whisper(rsio.Extension):
    """Keeps its peer, which applications get in `Extension.attach`."""

    id = 20_000
    types = (0x50,)

    def attach(self, peer):
        self.peer = peer
        return rsio.Behaviour()


class Deaf(Whisper):
    """Takes pings, and answers none."""

    id, types = rsio.Ping.id, rsio.Ping.types


@asynccontextmanager
async def publishers(_directory):
    whisper, ping = Whisper(), rsio.Ping()
    served = {
        "nothing": rsio.fixed_size(Nothing(), 4),
        "one": rsio.fixed_size([b"1234"], 4),
    }
    extensions = [Whisper(), Deaf()]
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        server = await nursery.start(
            partial(rsio.serve, served, f"rsio://{LOCAL}", extensions=extensions)
        )
        enter = stack.enter_async_context
        connection = await enter(rsio.connect(server.uris[0], extensions=[whisper, ping]))
        nothing, one = connection.publisher("nothing"), connection.publisher("one")
        recorder = Recorder(1)
        nothing.subscribe(recorder)

        async def by_peer() -> None:
            server.stop(grace=0)
            await connection.wait_closed()

        yield SimpleNamespace(
            server=server,
            connection=connection,
            peer=whisper.peer,
            ping=ping,
            one=one,
            subscription=recorder.subscription,
            items=await enter(nothing.open(4)),
            manual=await enter(nothing.open(0)),
            blocks=await enter(nothing.open_packed(4)),
            alive=lambda: collect(one),
            by_peer=by_peer,
            here=stack.aclose,
        )
        await stack.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


ends(publishers, "Connection.goodbye", lambda it: it.connection.goodbye())
use(publishers, "Connection.wait_ready", lambda it: it.connection.wait_ready())
ends(publishers, "Connection.wait_closed", lambda it: it.connection.wait_closed())
ends(publishers, "Connection.wait_draining", lambda it: it.connection.wait_draining())
use(
    publishers,
    "Connection.send_extension",
    lambda it: it.connection.send_extension(0x50, b""),
    waits=False,
)
tells(publishers, "Peer.send", lambda it: it.peer.send(0x50))
use(
    publishers,
    "Ping.round_trip",
    lambda it: it.ping.round_trip(it.connection),
    over=(*ENDED, RsioError),
)
use(publishers, "RemotePublisher.subscribe", lambda it: collect(it.one))
use(publishers, "RemotePublisher.first", lambda it: it.one.first())
use(publishers, "RemotePublisher.open", lambda it: first_of(it.one.open()))
use(publishers, "RemotePublisher.open_packed", lambda it: first_of(it.one.open_packed()))
tells(publishers, "Subscription.request", lambda it: it.subscription.request(1))
tells(publishers, "Subscription.cancel", lambda it: it.subscription.cancel())
for stream, name in (("items", "ElementStream"), ("blocks", "PackedStream")):
    use(publishers, f"{name}.receive", lambda it, stream=stream: getattr(it, stream).receive())
    ends(publishers, f"{name}.aclose", lambda it, stream=stream: getattr(it, stream).aclose())
    tells(publishers, f"{name}.close", lambda it, stream=stream: getattr(it, stream).close())
use(publishers, "ElementStream.__anext__", lambda it: rest_of(it.items))
use(publishers, "ElementStream.receive_many", lambda it: it.items.receive_many())
use(publishers, "ElementStream.receive_nowait", lambda it: it.items.receive_nowait(), waits=False)
use(
    publishers,
    "ElementStream.request_n",
    lambda it: it.manual.request_n(1),
    over=(trio.ClosedResourceError, type(None)),
    waits=False,
)
tells(publishers, "ElementStream.follow", lambda it: it.items.follow(int))


@asynccontextmanager
async def local(_directory):
    """Publishers with tasks, and no connection."""
    async with trio.open_nursery() as nursery:
        publisher = from_async_iterable(silent, nursery)
        timed = pipe(never(), batch(2, 60.0, nursery))
        subscriptions = []
        for each in (publisher, timed):
            recorder = Recorder(1)
            each.subscribe(recorder)
            subscriptions.append(recorder.subscription)

        async def here() -> None:
            for each in subscriptions:
                each.cancel()
            nursery.cancel_scope.cancel(reason="the test is over")

        yield SimpleNamespace(
            publisher=publisher,
            timed=timed,
            subscriptions=subscriptions,
            alive=lambda: collect(from_async_iterable(two, nursery)),
            by_peer=here,
            here=here,
        )
        nursery.cancel_scope.cancel(reason="the test is over")


async def two() -> AsyncIterator[int]:
    yield 1
    yield 2


for number, kind in enumerate(("from_async_iterable", "batch")):
    tells(
        local,
        f"{kind}: Subscription.cancel",
        lambda it, number=number: it.subscriptions[number].cancel(),
    )
tells(local, "from_async_iterable: Subscription.request", lambda it: it.subscriptions[0].request(1))
use(local, "from_async_iterable: subscribe", lambda it: collect(it.publisher), over=SourceClosed)
use(local, "batch: subscribe", lambda it: collect(it.timed), over=SourceClosed)


# -- Lumberjack -----------------------------------------------------------------------------


@asynccontextmanager
async def events(_directory):
    batches = []

    async def take(batch) -> None:
        batches.append(batch)
        if batch.events == [{"message": "held"}]:
            await trio.sleep_forever()

    relay, unread = lumberjack.EventRelay(), lumberjack.EventRelay()
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        server = await nursery.start(lumberjack.serve, take, f"lumberjack://{LOCAL}")
        shipper = await stack.enter_async_context(lumberjack.connect(server.uris[0]))
        await shipper.send([{"message": "first"}])
        nursery.start_soon(given_up, shipper)
        while len(batches) < 2:
            await trio.sleep(0.01)
        relayed = relay.subscribe()
        nursery.start_soon(rest_of, relay.subscribe())

        async def alive() -> bool:
            async with lumberjack.connect(server.uris[0]) as another:
                await another.send([{"message": "x"}])
            return len(batches) == 3

        async def here() -> None:
            relay.close()
            unread.close()
            await stack.aclose()
            await server.aclose(grace=0)

        yield SimpleNamespace(
            server=server,
            shipper=shipper,
            batch=batches[1],
            relay=relay,
            unread=unread,
            relayed=relayed,
            alive=alive,
            by_peer=here,
            here=here,
        )
        await stack.aclose()
        nursery.cancel_scope.cancel(reason="the test is over")


async def given_up(shipper) -> None:
    with pytest.raises(lumberjack.ShipError):
        await shipper.send([{"message": "held"}])


use(events, "Shipper.send", lambda it: it.shipper.send([{"message": "x"}]))
use(events, "Batch.ack", lambda it: it.batch.ack(1))
use(events, "EventRelay.publish", lambda it: it.relay.publish([1]))
tells(events, "EventRelay.close", lambda it: it.relay.close())
use(events, "RelayedEvents.receive", lambda it: it.relayed.receive(), over=trio.EndOfChannel)
ends(events, "RelayedEvents.__anext__", lambda it: rest_of(it.relayed))
tells(events, "RelayedEvents.close", lambda it: it.relayed.close())
ends(events, "RelayedEvents.aclose", lambda it: it.relayed.aclose())


# -- spool and collector --------------------------------------------------------------------


@asynccontextmanager
async def spools(directory):
    async with AsyncExitStack() as stack:
        spool = await stack.enter_async_context(open_spool(directory / "spool", max_size=2**20))
        await spool.append(BATCH)

        async def without_room() -> None:
            for _ in range(2):
                await spool.append(Batch(1, bytes(700_000), encoding="raw"))

        yield SimpleNamespace(
            spool=spool,
            follower=spool.read(spool.head, follow=True),
            without_room=without_room,
            reader=spool.read(0),
            alive=lambda: spool.append(BATCH),
            by_peer=stack.aclose,
            here=stack.aclose,
        )


use(spools, "Spool.append", lambda it: it.spool.append(BATCH), over=SpoolClosed)
use(spools, "Spool.wait_room", lambda it: it.spool.wait_room(), over=SpoolClosed)
use(spools, "Spool.reach", lambda it: it.spool.reach(0, 1), over=SpoolClosed)
use(spools, "Spool.since", lambda it: it.spool.since(0), over=SpoolClosed)
use(spools, "Spool.stored_at", lambda it: it.spool.stored_at([0]), over=SpoolClosed)
use(spools, "Spool.commit", lambda it: it.spool.commit("c", 0), over=SpoolClosed)
use(spools, "Spool.forget", lambda it: it.spool.forget("c"), over=SpoolClosed)
use(spools, "SpoolReader.__anext__", lambda it: anext(it.reader), over=SpoolClosed)
use(spools, "SpoolReader.look_ahead", lambda it: it.reader.look_ahead(), over=SpoolClosed)


@asynccontextmanager
async def collectors(directory):
    async with running(directory / "spool") as collector, AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect_collector(collector.uris[0]))
        await collector.spool.append(BATCH)
        spool_id = collector.spool.spool_id

        async def by_peer() -> None:
            collector.stop(grace=0)
            await client.requester.wait_closed()

        yield SimpleNamespace(
            server=collector,
            client=client,
            spool_id=spool_id,
            reader=await stack.enter_async_context(client.read(0, 1, spool_id=spool_id)),
            alive=client.info,
            by_peer=by_peer,
            here=stack.aclose,
        )
        await stack.aclose()


use(collectors, "CollectorClient.info", lambda it: it.client.info())
use(collectors, "CollectorClient.statistics", lambda it: it.client.statistics())
use(
    collectors,
    "CollectorClient.commit",
    lambda it: it.client.commit("c", 0, instance="i", spool_id=it.spool_id),
)
use(collectors, "CollectorClient.forget", lambda it: it.client.forget("c", spool_id=it.spool_id))
use(
    collectors,
    "CollectorClient.read",
    lambda it: read_one(it.client.read(0, 1, spool_id=it.spool_id)),
)
use(collectors, "RangeReader.__anext__", lambda it: anext(it.reader))


async def read_one(block) -> None:
    async with block as batches:
        await anext(batches)


SERVERS = {
    rsocket: "Server",
    rpc: "TtrpcServer",
    publishers: "RsioServer",
    events: "LumberjackServer",
    collectors: "Collector",
}
for scene, server in SERVERS.items():
    tells(scene, f"{server}.stop", lambda it: it.server.stop(grace=0))
    if scene is not collectors:
        tells(scene, f"{server}.end", lambda it: it.server.end(bool))
    ends(scene, f"{server}.aclose", lambda it: it.server.aclose(grace=0))


# -- the tests ------------------------------------------------------------------------------


async def called(each: Use, it: SimpleNamespace) -> None:
    found = each.call(it)
    if each.waits:
        await found


@pytest.mark.parametrize("each", USES, ids=str)
async def test_in_another_thread_its_caller_fails_and_the_connection_lives(each: Use, tmp_path):
    """The error says what to do; the run of the connection goes on, and its calls are answered."""
    texts = []

    async def misuse() -> None:
        with trio.fail_after(5):
            with pytest.raises(RuntimeError) as error:
                await called(each, it)
            texts.append(str(error.value))

    async with each.scene(tmp_path) as it:
        await trio.testing.wait_all_tasks_blocked()
        await trio.to_thread.run_sync(partial(trio.run, misuse))
        (text,) = texts
        assert "belongs to the trio run of another thread" in text
        assert "trio.from_thread.run" in text
        with trio.fail_after(5):
            assert await it.alive() is not None


@pytest.mark.parametrize("end", ["by_peer", "here"])
@pytest.mark.parametrize("each", USES, ids=str)
async def test_after_the_end_a_cancellation_comes_first(each: Use, end, tmp_path):
    """In a cancelled scope the caller sees that; else the error of the end, again and again."""
    async with each.scene(tmp_path) as it:
        await getattr(it, end)()
        with trio.fail_after(5):
            if each.waits:
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await called(each, it)
                assert scope.cancelled_caught
            for _ in range(2):
                raised = None
                try:
                    await called(each, it)
                except Exception as error:
                    raised = error
                if each.over is None:
                    assert raised is None
                else:
                    assert isinstance(raised, each.over)


CLOSED_BY_USERS = [
    each
    for each in USES
    if each.name.endswith("close")
    # These are stopped by their owner, more than once.
    and each.name.partition(".")[0] not in {*SERVERS.values(), "EventRelay", "Workers"}
]


@pytest.mark.parametrize("each", CLOSED_BY_USERS, ids=str)
async def test_what_is_closed_may_be_closed_in_any_thread(each: Use, tmp_path):
    """A program that cleans up in another thread, after the block, meets no error."""
    async with each.scene(tmp_path) as it:
        await it.here()
        if hasattr(it, "relayed"):
            it.relayed.close()
        await trio.to_thread.run_sync(partial(trio.run, called, each, it))


class CancelAtStep(trio.abc.Instrument):
    """Cancels a scope before a step of the loop's tasks, counted from 0."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self.scope = scope
        self.left = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self.left:
            self.scope.cancel(reason="the test cancels it")
        self.left -= 1


def wait_for(scene, what, call, over=ENDED) -> Use:
    return Use(scene, what, call, over, waits=True)


WAITING = [
    *(
        each
        for each in USES
        if each.waits
        and each.over is not None
        and each.name.endswith((".receive", ".__anext__", ".receive_many", ".receive_some"))
        and not each.name.startswith(("Range", "Spool"))
    ),
    wait_for(rsocket, "a response", lambda it: it.requester.request_response(WAIT)),
    wait_for(
        rsocket,
        "the beginning of a response",
        lambda it: entered(it.requester.request_response_streamed(WAIT)),
    ),
    wait_for(rsocket, "room", lambda it: it.without_room()),
    wait_for(pools, "a target", lambda it: it.without_target()),
    wait_for(rsocket, "a lease", lambda it: it.without_lease()),
    wait_for(rpc, "an answer", lambda it: it.client.unary(ECHO, b"wait")),
    wait_for(rpc, "a reply", lambda it: it.join.reply()),
    wait_for(publishers, "a pong", lambda it: it.ping.round_trip(it.connection), RsioError),
    wait_for(
        events,
        "an acknowledgement",
        lambda it: it.shipper.send([{"message": "held"}]),
        lumberjack.ShipError,
    ),
    wait_for(events, "a subscriber", lambda it: it.unread.publish([1])),
    wait_for(spools, "room in a spool", lambda it: it.without_room(), SpoolClosed),
    wait_for(spools, "an event", lambda it: anext(it.follower), SpoolClosed),
]


@pytest.mark.parametrize("each", WAITING, ids=str)
async def test_a_waiting_task_that_is_cancelled_sees_no_end(each: Use, tmp_path):
    """Its scope is cancelled at each step on the way from the end to it: the end gives way."""
    ended = False

    async def call(it: SimpleNamespace, scope: trio.CancelScope) -> None:
        nonlocal ended
        with scope:
            try:
                await called(each, it)
            except each.over:
                assert not scope.cancel_called
                ended = True

    for step in range(300):
        (tmp_path / str(step)).mkdir()
        async with trio.open_nursery() as nursery, each.scene(tmp_path / str(step)) as it:
            scope = trio.CancelScope()
            nursery.start_soon(call, it, scope)
            await trio.testing.wait_all_tasks_blocked(0.002)
            instrument = CancelAtStep(scope, step)
            trio.lowlevel.add_instrument(instrument)
            await it.by_peer()
            await trio.testing.wait_all_tasks_blocked()
            trio.lowlevel.remove_instrument(instrument)
        if ended:
            assert step > 0
            return
    raise AssertionError("it never saw the end")


ANSWERED = [
    wait_for(rsocket, "a response", lambda it: it.requester.request_response(REQUEST)),
    wait_for(rpc, "an answer", lambda it: it.client.unary(ECHO, b"x")),
    wait_for(collectors, "numbers", lambda it: it.client.info()),
]


@pytest.mark.parametrize("each", ANSWERED, ids=str)
async def test_an_answer_that_has_arrived_is_returned_to_a_cancelled_caller(each: Use, tmp_path):
    """Else it would be lost; the cancellation waits for the next checkpoint, as always in trio."""
    late = False
    async with each.scene(tmp_path) as it:
        for step in range(100):
            scope = trio.CancelScope()
            instrument = CancelAtStep(scope, step)
            trio.lowlevel.add_instrument(instrument)
            with scope:
                await each.call(it)
                late |= scope.cancel_called
            trio.lowlevel.remove_instrument(instrument)
            await trio.testing.wait_all_tasks_blocked()
    assert late


# A timeout around a whole block: each function connects, and makes one kind of request in a loop.


def over_rsocket(request) -> Callable[..., Any]:
    async def block(it: SimpleNamespace) -> None:
        async with connect(it.server.uris[0], lease=LeaseOptions()) as requester:
            for _ in range(ROUNDS):
                await request(requester)

    return block


async def items_of(block) -> None:
    with trio.move_on_after(0):  # its streams are silent
        await first_of(block)


async def call_in_a_loop(it: SimpleNamespace) -> None:
    async with ttrpc.connect(it.server.uris[0]) as client:
        for _ in range(ROUNDS):
            await client.unary(ECHO, b"x")


async def send_in_a_loop(it: SimpleNamespace) -> None:
    async with ttrpc.connect(it.server.uris[0]) as client, client.bidi_stream(CHAT) as chat:
        for _ in range(ROUNDS):
            await chat.send(b"x")


async def collect_in_a_loop(it: SimpleNamespace) -> None:
    async with rsio.connect(it.server.uris[0]) as connection:
        for _ in range(ROUNDS):
            await collect(connection.publisher("one"))


async def packed_in_a_loop(it: SimpleNamespace) -> None:
    async with rsio.connect(it.server.uris[0]) as connection:
        for _ in range(ROUNDS):
            async with connection.publisher("one").open_packed() as blocks:
                await rest_of(blocks)


async def ship_in_a_loop(it: SimpleNamespace) -> None:
    async with lumberjack.connect(it.server.uris[0]) as shipper:
        for _ in range(ROUNDS):
            await shipper.send([{"message": "x"}])


async def ask_in_a_loop(it: SimpleNamespace) -> None:
    async with connect_collector(it.server.uris[0]) as client:
        for _ in range(ROUNDS):
            await client.info()


ROUNDS = 3
BLOCKS = {
    "request_response": (rsocket, over_rsocket(lambda it: it.request_response(REQUEST))),
    "request_response_streamed": (
        rsocket,
        over_rsocket(lambda it: entered(it.request_response_streamed(REQUEST))),
    ),
    "fire_and_forget": (rsocket, over_rsocket(lambda it: it.fire_and_forget(REQUEST))),
    "metadata_push": (rsocket, over_rsocket(lambda it: it.metadata_push(b"m"))),
    "request_stream": (rsocket, over_rsocket(lambda it: items_of(it.request_stream(REQUEST)))),
    "request_channel": (rsocket, over_rsocket(lambda it: items_of(channel(it)))),
    "unary": (rpc, call_in_a_loop),
    "send": (rpc, send_in_a_loop),
    "elements": (publishers, collect_in_a_loop),
    "blocks": (publishers, packed_in_a_loop),
    "events": (events, ship_in_a_loop),
    "collector": (collectors, ask_in_a_loop),
}


@pytest.mark.parametrize("name", BLOCKS)
async def test_a_timeout_around_a_whole_block_ends_it_silently(name, tmp_path):
    """Wherever it comes: the end of the connection, which it causes too, is never the outcome."""
    scene, block = BLOCKS[name]

    async def nothing_to_check() -> None:
        pass

    async with scene(tmp_path) as it:
        assert await cancel_everywhere(partial(block, it), nothing_to_check, every_task=True)


ANYWHERE = {
    "Batch.numbered",
    "AnyCall.began",
    "Call.began",
    "Call.entry",
    "Call.values",
    "Caller.decode",
    "Caller.encode",
    "Caller.of",
    "Connection.publisher",
    "Peer.decode_elements",
    "Peer.encode_elements",
    "Spool.check_epoch",
    "Spool.epoch_end",
    "Spool.instances",
    "Spool.positions",
    "Spool.read",
    "PackedElements.array",
    "Pool.states",
    "Requester.states",
    "OutgoingCall.began",
    "RouterCall.began",
    "RouterCall.entry",
    *(f"{each}.peers" for each in ("LumberjackServer", "RsioServer", "Server", "TtrpcServer")),
    "EventRelay.subscribe",
    "Ping.attach",
}
"""Methods that wait for nobody and wake nobody; and so are all called ``statistics``, except where
they need the clock of the run."""

BELOW = {
    "MemoryTransport",
    "SinkReceiver",
    "ResumableSession",
}
"""Objects that have no part in the order: transports, which only the connection uses; and those
whose methods only return numbers."""
SAME = {"MessageStream": "ReplyStream"}
"""Classes without methods of their own: their base class has all."""
ALSO = {Caller, LeaseGranter, Peer, lumberjack.EventRelay, rsio.RemotePublisher, rsio.Ping}
"""Classes that applications may make, and whose objects work on a connection."""


def given_classes() -> Iterator[type]:
    """The classes whose objects the package gives to applications."""
    for module in pkgutil.walk_packages(rsocket_trio.__path__, "rsocket_trio."):
        if module.name.endswith("__main__"):
            continue
        there = importlib.import_module(module.name)
        for value in vars(there).values():
            if isinstance(value, Sealed) and value.__module__ == module.name:
                yield value
    yield from ALSO


def methods_of(cls: type) -> Iterator[str]:
    for name in dir(cls):
        found = inspect.getattr_static(cls, name)
        ours = inspect.isfunction(found) and found.__module__.startswith("rsocket_trio")
        if ours and (not name.startswith("_") or name == "__anext__"):
            yield name


def test_the_table_is_complete():
    """Every public method of these classes has one row, or a reason why it needs none."""
    assert len({*map(str, USES)}) == len(USES)
    rows = {each.name for each in USES}
    wanted = set()
    for cls in given_classes():
        if cls.__name__ in SAME:
            assert not [each for each in vars(cls).values() if inspect.isfunction(each)]
        elif cls.__name__ not in BELOW:
            wanted |= {f"{cls.__name__}.{name}" for name in methods_of(cls)}
    free = {each for each in wanted - rows if each in ANYWHERE or each.endswith(".statistics")}
    assert wanted - free == {
        each for each in rows if "Subscription." not in each and ": " not in each
    }
    assert free >= ANYWHERE
