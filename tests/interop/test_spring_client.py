"""This package as the server, Spring as the client: routes, security, demand, and ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

import rsocket_trio
from rsocket_trio import (
    Authentication,
    BearerAuthentication,
    ConnectionConfig,
    Payload,
    Rejected,
    Requester,
    RequestFacts,
    Responder,
    Router,
    Server,
    Setup,
    SimpleAuthentication,
)
from rsocket_trio.frames import (
    KeepaliveFrame,
    PayloadFrame,
    RequestChannelFrame,
    RequestNFrame,
)

pytestmark = pytest.mark.interop

OCTETS = "application/octet-stream"
MEBIBYTE = bytes(range(256)) * 4096

ACCEPTED = {"simple": "ada:pw", "bearer": "s3cret"}
REFUSED = {
    "a wrong password": ("simple", "ada:guess"),
    "an unknown user": ("simple", "eve:pw"),
    "a wrong token": ("bearer", "guess"),
}


@attrs.define
class Seen:
    """What the handlers of our server have seen."""

    router: Router
    server: Server | None = None
    setups: list[bytes] = attrs.Factory(list)
    notes: list[bytes] = attrs.Factory(list)
    requesters: list[Requester] = attrs.Factory(list)
    cancelled: dict[str, trio.Event] = attrs.Factory(dict)


def answering(**settings) -> Seen:
    """A router with the same routes as Spring's, and what it has seen."""

    async def on_setup(setup: Setup, requester: Requester) -> None:
        seen.setups.append(setup.data)
        seen.requesters.append(requester)

    router = Router(on_setup=on_setup, **settings)
    seen = Seen(router)
    for name in "never", "numbers", "both-ways":
        seen.cancelled[name] = trio.Event()

    @router.request_response("echo")
    async def echo(data: bytes) -> bytes:
        return data

    @router.request_response("empty")
    async def empty() -> bytes | None:
        return None

    @router.request_response("fail")
    async def fail(data: bytes) -> bytes:
        raise rsocket_trio.ApplicationError(data.decode())

    @router.request_response("never")
    async def never() -> bytes:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            seen.cancelled["never"].set()
            raise

    @router.fire_and_forget("note")
    async def note(data: bytes) -> None:
        seen.notes.append(data)

    @router.metadata_push()
    async def pushed() -> None:
        seen.notes.append(b"pushed")

    @router.request_stream("numbers")
    async def numbers(count: bytes) -> AsyncIterator[bytes]:
        try:
            for number in range(int(count)):
                yield b"%d" % number
        except (trio.Cancelled, GeneratorExit):
            seen.cancelled["numbers"].set()
            raise

    @router.request_stream("numbers-then-fail")
    async def numbers_then_fail() -> AsyncIterator[bytes]:
        yield b"0"
        raise rsocket_trio.ApplicationError("no more numbers")

    @router.request_channel("both-ways")
    async def both_ways(items: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        try:
            async for item in items:
                yield item
        except (trio.Cancelled, GeneratorExit):
            seen.cancelled["both-ways"].set()
            raise

    @router.request_channel("first")
    async def first(items: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for item in items:
            yield item
            return

    @router.request_channel("count")
    async def count(items: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        yield b"%d" % len([item async for item in items])

    @router.request_channel("items-fail")
    async def items_fail(items: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for item in items:
            yield item
            raise rsocket_trio.ApplicationError("bad " + item.decode())

    return seen


async def authenticate(auth: Authentication | None, facts: RequestFacts | Setup) -> str | None:
    match auth:
        case (
            SimpleAuthentication(username="ada", password="pw")
            | BearerAuthentication(token="s3cret")
        ):
            return "ada"
        case None if isinstance(facts, Setup):
            return None
        case None if facts.principal is not None:
            return facts.principal
    raise Rejected("who are you?")


@asynccontextmanager
async def serving(responder, transport="tcp", **settings):
    async with trio.open_nursery() as nursery:

        async def run(task_status):
            uri = f"{transport}://127.0.0.1:0"
            await rsocket_trio.serve(responder, uri, task_status=task_status, **settings)

        server = await nursery.start(run)
        yield server
        nursery.cancel_scope.cancel(reason="the test is over")


@pytest.fixture(params=["tcp", "ws"])
def connected(request, using_spring):
    """``async with connected() as (connection, spring, seen)``: Spring is connected to us."""

    @asynccontextmanager
    async def run(*, options=None, **settings):
        seen = answering(**settings)
        async with serving(seen.router, request.param) as server, using_spring() as spring:
            seen.server = server
            yield await spring.connect(server.uris[0], **(options or {})), spring, seen

    return run


@pytest.fixture
def recorded(using_spring, wire_to):
    """``async with recorded() as (connection, spring, wire)``: the frames are recorded."""

    @asynccontextmanager
    async def run(responder=None, *, config=None, **options):
        settings = {} if config is None else {"config": config}
        async with (
            serving(responder or answering().router, **settings) as server,
            wire_to(server.uris[0]) as wire,
            using_spring() as spring,
        ):
            yield await spring.connect(wire.uri, **options), spring, wire

    return run


def assert_demand_was_kept(wire, by, items):
    on_the_way = wire.on_the_way(by)
    assert len(on_the_way) == items
    assert all(sent <= granted for sent, granted in on_the_way)


async def test_setup(connected):
    """The data of Spring's SETUP, and its route, arrive."""
    async with connected(options={"route": "hello"}) as (connection, _, seen):
        assert await connection.response("echo", b"x") == b"x"
        assert seen.setups == [b"from Spring"]


async def test_request_response(connected):
    async with connected() as (connection, spring, _):
        for data in b"hello", b"", MEBIBYTE:
            assert await connection.response("echo", data) == data
        assert await spring.items(await connection.start("request_response", "empty")) == []


async def test_unknown_route(connected):
    """Spring gets INVALID with our text, and the connection lives."""
    async with connected() as (connection, spring, _):
        for op in "request_response", "request_stream":
            call = await connection.start(op, "no", b"x")
            assert "no request_" in await spring.error(call)
        call = await connection.start("request_channel", "no", items=[b"x"], open=False)
        while (event := await spring.event(call))["event"] in ("granted", "cancelled"):
            pass
        assert event["type"] == "InvalidException"
        assert await connection.response("echo", b"x") == b"x"


async def test_errors_of_handlers(connected):
    """Our errors arrive with their text, and the connection lives."""
    async with connected() as (connection, spring, _):
        call = await connection.start("request_response", "fail", b"no such thing")
        assert await spring.error(call) == "no such thing"
        call = await connection.start("request_stream", "numbers-then-fail")
        assert (await spring.next_item(call))[0] == b"0"
        assert await spring.error(call) == "no more numbers"
        assert await connection.response("echo", b"x") == b"x"


async def test_many_requests_at_once(connected):
    async with connected() as (connection, spring, _):
        calls = [await connection.start("request_response", "echo", b"%d" % n) for n in range(100)]
        for number, call in enumerate(calls):
            assert await spring.items(call) == [b"%d" % number]


async def test_one_way(connected):
    """A message and pushed metadata arrive before the next request is answered.

    Which of the two handlers runs first is open: each has a task, and trio orders the tasks of one
    turn at random.
    """
    async with connected() as (connection, spring, seen):
        call = await connection.start("fire_and_forget", "note", b"first")
        assert (await spring.event(call))["event"] == "sent"
        call = await connection.start("metadata_push", "pushed")
        assert (await spring.event(call))["event"] == "sent"
        await connection.response("echo", b"x")
        assert sorted(seen.notes) == [b"first", b"pushed"]


@pytest.mark.parametrize("count", [0, 1, 1000])
async def test_streams(connected, count):
    async with connected() as (connection, spring, _):
        call = await connection.start("request_stream", "numbers", b"%d" % count)
        assert await spring.items(call) == [b"%d" % number for number in range(count)]


async def test_channels(connected):
    sent = [b"%d" % number for number in range(300)]
    async with connected() as (connection, spring, _):
        call = await connection.start("request_channel", "both-ways", items=sent, open=False)
        assert await spring.items(call) == sent
        call = await connection.start("request_channel", "count", items=sent, open=False)
        assert await spring.items(call) == [b"300"]


async def test_items_without_data(connected):
    """Both ways they are items."""
    items = [b"a", b"", b"c", b""]
    async with connected() as (connection, spring, _):
        call = await connection.start("request_channel", "both-ways", items=items, open=False)
        assert await spring.items(call) == items


async def test_our_handler_fails_a_channel(connected):
    """Spring's source is cancelled, and its subscriber gets our error."""
    async with connected() as (connection, spring, _):
        call = await connection.start("request_channel", "items-fail", items=[b"1"], open=True)
        events = []
        while not {"error", "cancelled"} <= {event["event"] for event in events}:
            events.append(await spring.event(call))
        [error] = [event["message"] for event in events if event["event"] == "error"]
        assert error == "bad 1"


async def test_we_end_our_half_of_a_channel(connected):
    """A handler that has enough ends the channel; Spring's source is cancelled."""
    async with connected() as (connection, spring, _):
        call = await connection.start("request_channel", "first", items=[b"1"], open=True)
        events = []
        while not {"complete", "cancelled"} <= set(events):
            events.append((await spring.event(call))["event"])


async def test_springs_source_fails(recorded):
    """Its error ends the stream in both directions, so our handler is cancelled: with its text."""
    reasons: list[str | None] = []
    ended = trio.Event()

    class Channels(Responder):
        async def request_channel(self, payload, payloads):
            try:
                received = [item.data async for item in payloads]
                yield Payload(b"%d" % len(received))
            except trio.Cancelled as cancelled:
                reasons.append(cancelled.reason)
                raise
            finally:
                ended.set()

    async with recorded(Channels()) as (connection, _, _):
        # The second item waits for our demand. Without it, the error comes with the request.
        items = [b"1", b"2"]
        await connection.start("request_channel", "any", items=items, failure="out of paper")
        await ended.wait()
        assert reasons == ["the peer sent ERROR: APPLICATION_ERROR: out of paper"]


async def test_springs_cancel_reaches_us(connected):
    """A request, a stream and a channel that Spring cancels are cancelled here."""
    async with connected() as (connection, spring, seen):
        call = await connection.start("request_response", "never")
        await connection.response("echo", b"behind")
        await spring.cancel(call)
        await seen.cancelled["never"].wait()
        call = await connection.start("request_stream", "numbers", b"1000000", initial_n=1)
        assert (await spring.next_item(call))[0] == b"0"
        await spring.cancel(call)
        await seen.cancelled["numbers"].wait()
        call = await connection.start(
            "request_channel", "both-ways", items=[b"once"], open=True, initial_n=10
        )
        while (await spring.event(call))["event"] != "next":
            pass
        await spring.cancel(call)
        await seen.cancelled["both-ways"].wait()
        assert await connection.response("echo", b"after") == b"after"


async def test_we_send_what_spring_asks_for(recorded):
    """BaseSubscriber.request(n) is demand: we send no more."""
    async with recorded() as (connection, spring, wire):
        call = await connection.start("request_stream", "numbers", b"100", initial_n=3)
        for number in range(3):
            assert (await spring.next_item(call))[0] == b"%d" % number
        await connection.response("echo", b"had more been sent, it would be on record now")
        assert len(wire.on_the_way("server")) == 3
        await spring.request_n(call, 90)
        await spring.request_n(call, 7)
        assert await spring.items(call) == [b"%d" % number for number in range(3, 100)]
    assert_demand_was_kept(wire, "server", 100)


async def test_spring_sends_what_we_ask_for(recorded):
    """Spring's source is asked for our window, and a channel is read in step, both ways."""
    items = [b"%d" % number for number in range(1000)]
    async with recorded() as (connection, spring, wire):
        call = await connection.start(
            "request_channel", "both-ways", items=items, open=False, initial_n=40
        )
        await wire.wait_for("server", PayloadFrame, 40)
        await connection.response("echo", b"had more been sent, it would be on record now")
        assert len(wire.on_the_way("server")) == 40
        await spring.request_n(call, 960)
        assert await spring.items(call) == items
        granted = [frame.n for frame in wire.frames("server", RequestNFrame)]
    # The first item was in the REQUEST_CHANNEL frame.
    assert_demand_was_kept(wire, "client", 999)
    assert_demand_was_kept(wire, "server", 1000)
    assert max(granted) <= 256  # the window of our handlers


@pytest.mark.parametrize("size", [64, 1000])
async def test_fragments(recorded, size):
    """Both sides send fragments of that size, with routes and data of any length."""
    config = ConnectionConfig(fragment_size=size)
    large = MEBIBYTE[: 200 * size]
    async with recorded(config=config, fragment=size) as (connection, spring, wire):
        for data in large, large[: size - 1], large[:size], b"":
            assert await connection.response("echo", data) == data
        items = [large, b"", large]
        call = await connection.start("request_channel", "both-ways", items=items, open=False)
        assert await spring.items(call) == items
    # Spring's size has the three bytes of the length before each frame in it.
    assert max(wire.sizes("client")[1:]) == size - 3
    assert max(wire.sizes("server")) == size
    assert len(wire.record) > 1000


async def test_large_payloads(connected):
    """Payloads larger than a frame of ours."""
    large = MEBIBYTE * 4
    assert ConnectionConfig().fragment_size < len(large)
    async with connected() as (connection, _, _):
        assert await connection.response("echo", large) == large


async def test_empty_channel(recorded):
    """Spring sends Flux.empty() as a REQUEST_CHANNEL without data, and a completion."""
    seen = []

    class Channels(Responder):
        async def request_channel(self, payload, payloads):
            async for item in payloads:
                seen.append(item.data)
            yield Payload(b"done")

    async with recorded(Channels()) as (connection, spring, wire):
        call = await connection.start("request_channel", "any", items=[], open=False)
        assert await spring.items(call) == [b"done"]
    [request] = wire.frames("client", RequestChannelFrame)
    assert request.data == b""
    [complete] = wire.frames("client", PayloadFrame)
    assert (complete.next, complete.complete) == (False, True)
    assert b"".join(seen) == b""


async def test_the_client_answers_too(connected):
    """Our server sends requests to Spring's client: both ways on one connection."""
    async with connected() as (connection, spring, seen):
        await connection.response("echo", b"x")
        [requester] = seen.requesters
        assert await requester.request_response(Payload(b"y"), route="echo") == Payload(b"y")
        async with requester.request_stream(route="numbers.20", prefetch=4) as stream:
            assert [item.data async for item in stream] == [b"%d" % n for n in range(20)]
        sent = [Payload(b"a"), Payload(b"b"), Payload(b"c")]
        async with requester.request_channel(sent, route="both-ways") as echo:
            assert [item.data async for item in echo] == [b"a", b"b", b"c"]
        await requester.fire_and_forget(Payload(b"first"), route="note")
        await spring.seen("note first")


async def test_keepalive(recorded):
    """We answer Spring's KEEPALIVE."""
    async with recorded(keepalive=50) as (connection, _, wire):
        await wire.wait_for("client", KeepaliveFrame, 3, where=lambda frame: frame.respond)
        await wire.wait_for("server", KeepaliveFrame, 3, where=lambda frame: not frame.respond)
        assert await connection.response("echo", b"x") == b"x"


@pytest.mark.parametrize("security", ACCEPTED)
async def test_accepted(connected, security):
    """Authentication of the connection, or of one request."""
    auth = ACCEPTED[security]
    options = {"security": security, "auth": auth}
    async with connected(options=options, authenticate=authenticate) as (connection, _, _):
        assert await connection.response("echo", b"x") == b"x"
    options = {"security": security}
    async with connected(options=options, authenticate=authenticate) as (connection, spring, _):
        assert await connection.response("echo", b"x", auth=auth) == b"x"
        call = await connection.start("request_stream", "numbers", b"2", auth=auth)
        assert await spring.items(call) == [b"0", b"1"]


@pytest.mark.parametrize("who", REFUSED)
async def test_refused(connected, who):
    """A refused request and one without authentication get REJECTED; the connection lives."""
    security, auth = REFUSED[who]
    options = {"security": security}
    async with connected(options=options, authenticate=authenticate) as (connection, spring, _):
        for wrong in {"auth": auth}, {}:
            call = await connection.start("request_response", "echo", b"x", **wrong)
            event = await spring.event(call)
            assert (event["type"], event["message"]) == ("RejectedException", "who are you?")
        assert await connection.response("echo", b"x", auth=ACCEPTED[security]) == b"x"


@pytest.mark.parametrize("who", REFUSED)
async def test_refused_setup(connected, who):
    """Spring gets the reason with the end of its connection."""
    security, auth = REFUSED[who]
    options = {"security": security, "auth": auth}
    async with connected(options=options, authenticate=authenticate) as (connection, _, _):
        reason = (await connection.closed())["message"]
        assert reason == "RejectedSetupException (0x3): who are you?"


async def test_we_stop(connected):
    """A graceful stop lets Spring's request end, and Spring notices the end."""
    async with connected() as (connection, spring, seen):
        call = await connection.start("request_response", "never")
        await connection.response("echo", b"behind")
        await seen.server.aclose(grace=0)
        await spring.error(call)
        await connection.closed()


async def test_spring_leaves(connected):
    """Spring's close cancels our handlers."""
    async with connected() as (connection, _, seen):
        await connection.start("request_response", "never")
        await connection.response("echo", b"behind")
        await connection.close()
        await seen.cancelled["never"].wait()
        await connection.closed()
