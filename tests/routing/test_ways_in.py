"""A guard is called on every way to a handler, however the router is served."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

import attrs
import pytest
import trio
import trustme
from trio.abc import ReceiveChannel

from rsocket_trio import (
    BearerAuthentication,
    ConnectionConfig,
    Invalid,
    Metadata,
    Payload,
    PayloadBody,
    Principal,
    Rejected,
    RequestFacts,
    Router,
    Setup,
    StreamedPayload,
    connect,
    serve,
    serve_transport,
)
from rsocket_trio.transports.memory import memory_transport_pair
from tests.waiting import until

SMALL = ConnectionConfig(fragment_size=64)
Who = Annotated[Any, Principal]
KEY = BearerAuthentication("ada")
LONG = b"x" * 500


class Door:
    """An authenticator that admits all connections, and only requests with a token."""

    def __init__(self):
        self.asked: list[RequestFacts] = []

    async def __call__(self, auth, facts):
        if auth is not None:
            principal = auth.token
        elif isinstance(facts, Setup):
            principal = None
        else:
            principal = facts.principal
        if isinstance(facts, RequestFacts):
            self.asked.append(facts)
            if principal is None:
                raise Rejected("who are you?")
        return principal


class Rooms:
    """Handlers of every kind that note the principals of their requests."""

    def __init__(self):
        self.doors = [Door(), Door()]
        self.reached: list[tuple[str, Any]] = []

    def router(self, door):
        """Handlers for each interaction: with a route, without one, and with a body."""
        router = Router(authenticate=door)
        reached = self.reached

        for route in ("room", None):

            @router.request_response(route)
            async def response(data: bytes, who: Who) -> bytes:
                reached.append(("response", who))
                return data

            @router.fire_and_forget(route)
            async def note(data: bytes, who: Who) -> None:
                reached.append(("note", who))

            @router.request_stream(route)
            async def stream(data: bytes, who: Who) -> AsyncIterator[bytes]:
                reached.append(("stream", who))
                yield data

            @router.request_channel(route)
            async def channel(items: ReceiveChannel[bytes], who: Who) -> AsyncIterator[bytes]:
                reached.append(("channel", who))
                async for item in items:
                    yield item

        @router.request_response("body")
        async def read(body: PayloadBody, who: Who) -> bytes:
            reached.append(("response", who))
            return b"".join([chunk async for chunk in body])

        @router.fire_and_forget("body")
        async def read_note(body: PayloadBody, who: Who) -> None:
            reached.append(("note", who))

        @router.request_stream("body")
        async def read_stream(body: PayloadBody, who: Who) -> AsyncIterator[bytes]:
            reached.append(("stream", who))
            yield b"".join([chunk async for chunk in body])

        @router.metadata_push()
        async def push(metadata: bytes, who: Who) -> None:
            reached.append(("push", who))

        return router

    def served(self):
        return self.router(self.doors[0])

    def included(self):
        outer = Router()
        outer.include(self.router(self.doors[0]))
        return outer

    def included_twice(self):
        middle, outer = Router(), Router()
        middle.include(self.router(self.doors[0]))
        outer.include(middle)
        return outer

    def nested(self):
        outer = Router(authenticate=self.doors[1])
        outer.include(self.router(self.doors[0]))
        return outer

    def accepted(self):
        async def accept(setup, requester):
            return self.served()

        return accept


HOUSES = ["served", "included", "included_twice", "nested", "accepted"]


async def response(requester, payload, **where):
    return [(await requester.request_response(payload, **where)).data]


async def stream(requester, payload, **where):
    async with requester.request_stream(payload, **where) as items:
        return [item.data async for item in items]


async def channel(requester, payload, **where):
    async with requester.request_channel([payload], **where) as items:
        return [item.data async for item in items]


async def note(requester, payload, **where):
    await requester.fire_and_forget(payload, **where)


async def push(requester, payload, **where):
    assert payload.data in (b"", LONG)
    await requester.metadata_push(Metadata(**where).encode() or b"")


async def chunks():
    for _ in range(10):
        yield b"x" * 50


def ways():
    """Every way to send a request: (function, payload, arguments)."""
    payloads = [Payload(), Payload(LONG), StreamedPayload(chunks())]
    for way in (response, stream, channel, note):
        for payload in payloads:
            for route in ("room", None, "body"):
                if not (way is channel and route == "body"):
                    yield way, payload, {} if route is None else {"route": route}
    yield push, Payload(), {}


@pytest.fixture(scope="module")
def contexts():
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


@asynccontextmanager
async def visiting(house, wire, protocol, contexts, tmp_path, **settings):
    """Connect a client to a router, over some wire."""
    server_context, client_context = contexts if wire in {"tls", "wss"} else (None, None)
    async with trio.open_nursery() as nursery:
        if wire == "memory":
            target, other = memory_transport_pair()
            nursery.start_soon(partial(serve_transport, house, other))
        else:
            uri = f"unix://{tmp_path}/socket" if wire == "unix" else f"{wire}://127.0.0.1:0"
            server = await nursery.start(partial(serve, house, uri, ssl_context=server_context))
            target = server.uris[0]
        client = connect(
            target, config=SMALL, ssl_context=client_context, protocol=protocol, **settings
        )
        async with client as requester:
            yield requester
        nursery.cancel_scope.cancel()


WIRES = [
    (wire, protocol)
    for wire in ("memory", "tcp", "unix", "tls", "ws", "wss")
    for protocol in ("rsocket", "reactivesocket")
]


@pytest.mark.parametrize(("wire", "protocol"), WIRES)
@pytest.mark.parametrize("house", ["served", "nested"])
async def test_strangers_reach_no_handler(house, wire, protocol, contexts, tmp_path):
    """No request of any kind gets past a guard, over any wire."""
    rooms = Rooms()
    door = rooms.doors[house == "nested"]  # the first that was admitted
    built = getattr(rooms, house)()
    async with visiting(built, wire, protocol, contexts, tmp_path) as requester:
        for number, (way, payload, where) in enumerate(ways(), 1):
            payload = fresh(payload)
            if way in (note, push):
                await way(requester, payload, **where)
                await until(lambda n=number: len(door.asked) == n)
            else:
                with pytest.raises(Rejected, match="who are you"):
                    await way(requester, payload, **where)
                assert len(door.asked) == number
    assert rooms.reached == []


def fresh(payload):
    return StreamedPayload(chunks()) if isinstance(payload, StreamedPayload) else payload


@pytest.mark.parametrize(("wire", "protocol"), WIRES)
async def test_requests_of_an_authenticated_connection_are_authenticated(
    wire, protocol, contexts, tmp_path
):
    """The principal of the SETUP is admitted everywhere, and each request is checked."""
    rooms = Rooms()
    setup = Metadata(auth=KEY)
    house = rooms.nested()
    async with visiting(
        house, wire, protocol, contexts, tmp_path, setup_metadata=setup
    ) as requester:
        for number, (way, payload, where) in enumerate(ways(), 1):
            answer = await way(requester, fresh(payload), **where)
            await until(lambda n=number: len(rooms.reached) == n)
            if answer is not None:
                sent = payload.data if isinstance(payload, Payload) else LONG
                assert b"".join(answer) == sent
    assert {who for _, who in rooms.reached} == {"ada"}
    outer, inner = rooms.doors[1], rooms.doors[0]
    assert len(outer.asked) == len(inner.asked) == len(rooms.reached)
    assert [facts.interaction for facts in outer.asked] == [f.interaction for f in inner.asked]
    for facts in outer.asked:
        assert (facts.principal, facts.outer_principal) == ("ada", None)
    for facts in inner.asked:
        assert (facts.principal, facts.outer_principal) == ("ada", "ada")


@pytest.mark.parametrize("house", HOUSES)
async def test_the_guard_holds_on_every_way(house, contexts, tmp_path):
    """Served, included, nested or returned by an acceptor: the guard is called."""
    rooms = Rooms()
    where_asked = rooms.doors[house == "nested"]
    built = getattr(rooms, house)()
    async with visiting(built, "memory", "rsocket", contexts, tmp_path) as requester:
        for number, (way, payload, where) in enumerate(ways(), 1):
            if way in (note, push):
                await way(requester, fresh(payload), **where)
                await until(lambda n=number: len(where_asked.asked) == n)
                continue
            with pytest.raises(Rejected, match="who are you"):
                await way(requester, fresh(payload), **where)
        assert rooms.reached == []
        # A request with its own credentials is admitted.
        auth = Metadata(auth=KEY)
        for number, (way, payload, where) in enumerate(ways(), 1):
            if way is push:
                await requester.metadata_push(auth.encode())
            else:
                await way(requester, fresh(payload), **where, metadata=auth)
            await until(lambda n=number: len(rooms.reached) == n)
    assert {who for _, who in rooms.reached} == {"ada"}


@pytest.mark.parametrize("house", HOUSES)
async def test_strangers_learn_no_routes(house, contexts, tmp_path):
    """Known and unknown routes give a stranger the same answer, with a body and without."""
    rooms = Rooms()
    built = getattr(rooms, house)()
    async with visiting(built, "memory", "rsocket", contexts, tmp_path) as requester:
        said = set()
        for route in ("room", "body", "nowhere", "", None):
            for payload in (Payload(), Payload(LONG), StreamedPayload(chunks())):
                for way in (response, stream, channel):
                    with pytest.raises(Rejected) as info:
                        where = {} if route is None else {"route": route}
                        await way(requester, fresh(payload), **where)
                    said.add((info.value.code, info.value.data))
        assert len(said) == 1
        with pytest.raises(Invalid, match="no request_response handler for route 'nowhere'"):
            await requester.request_response(route="nowhere", metadata=Metadata(auth=KEY))


@attrs.frozen
class Rule:
    """An authenticator with rules for routes: all may look, and one may change."""

    async def __call__(self, auth, facts):
        principal = facts.principal if auth is None else auth.token
        change = isinstance(facts, RequestFacts) and facts.route.name == "change"
        if change and principal != "root":
            raise Rejected("not you")
        return principal


async def test_rules_for_single_routes(contexts, tmp_path):
    """They hold for clients that authenticated with SETUP too."""
    router = Router(authenticate=Rule())

    @router.request_response("look")
    async def look(who: Annotated[str, Principal]) -> str:
        return who

    @router.request_response("change")
    async def change(who: Annotated[str, Principal]) -> str:
        return who

    for name in ("ada", "root"):
        setup = Metadata(auth=BearerAuthentication(name))
        async with visiting(
            router, "memory", "rsocket", contexts, tmp_path,
            setup_metadata=setup, data_mime_type="text/plain",
        ) as requester:  # fmt: skip
            for _ in range(2):
                assert (await requester.request_response(route="look")).data == name.encode()
                if name == "root":
                    assert (await requester.request_response(route="change")).data == b"root"
                    continue
                with pytest.raises(Rejected, match="not you"):
                    await requester.request_response(route="change")
