"""Spring as the server, this package as the client: routes, security, demand, and ends.

``spring/src/peer/Answers.java`` has the routes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

import rsocket_trio
from rsocket_trio import (
    BearerAuthentication,
    ConnectionConfig,
    Metadata,
    Payload,
    Router,
    SimpleAuthentication,
)
from rsocket_trio.frames import KeepaliveFrame, PayloadFrame, RequestNFrame

pytestmark = pytest.mark.interop

OCTETS = "application/octet-stream"
MEBIBYTE = bytes(range(256)) * 4096
USER = {"simple": SimpleAuthentication("ada", "pw"), "bearer": BearerAuthentication("token-of-ada")}
ADMIN = {
    "simple": SimpleAuthentication("root", "pw"),
    "bearer": BearerAuthentication("token-of-root"),
}
STRANGERS = {
    "a wrong password": ("simple", SimpleAuthentication("ada", "guess")),
    "an unknown user": ("simple", SimpleAuthentication("eve", "pw")),
    "a token for passwords": ("simple", BearerAuthentication("token-of-ada")),
    "a wrong token": ("bearer", BearerAuthentication("guess")),
}
REFUSED = "Invalid Credentials|this token is not valid"
SECURITY = pytest.mark.parametrize("security", ["simple", "bearer"])


def connect(uri, **settings):
    return rsocket_trio.connect(uri, data_mime_type=OCTETS, **settings)


@pytest.fixture(params=["tcp", "ws"])
def connected(request, using_spring):
    """``async with connected() as (requester, spring)``: a connection to a server of Spring's."""

    @asynccontextmanager
    async def run(*, security="false", **settings):
        async with using_spring() as spring:
            server = await spring.serve(request.param, security=security)
            async with connect(server.uri, **settings) as requester:
                yield requester, spring

    return run


@pytest.fixture
def recorded(using_spring, wire_to):
    """``async with recorded() as (requester, spring, wire)``: its frames are recorded."""

    @asynccontextmanager
    async def run(*, fragment=0, **settings):
        async with using_spring() as spring:
            server = await spring.serve("tcp", fragment=fragment)
            async with wire_to(server.uri) as wire, connect(wire.uri, **settings) as requester:
                yield requester, spring, wire

    return run


async def data_of(stream):
    return [item.data async for item in stream]


def assert_demand_was_kept(wire, by, items):
    on_the_way = wire.on_the_way(by)
    assert len(on_the_way) == items
    assert all(sent <= granted for sent, granted in on_the_way)


async def test_setup(connected):
    """A method with @ConnectMapping gets the data of a SETUP that has its route."""
    setup = {"setup": Payload(b"from trio"), "setup_metadata": Metadata(route="hello")}
    async with connected(**setup) as (requester, spring):
        await spring.seen("hello from trio")
        assert await requester.request_response(Payload(b"x"), route="echo") == Payload(b"x")


async def test_request_response(connected):
    async with connected() as (requester, _):
        for data in b"hello", MEBIBYTE:
            assert await requester.request_response(Payload(data), route="echo") == Payload(data)
        assert await requester.request_response(route="empty") is None


async def test_request_without_data(connected):
    """For Spring a request without data has no payload, and its methods need one by default."""
    async with connected() as (requester, _):
        with pytest.raises(rsocket_trio.ApplicationError, match="Payload content is missing"):
            await requester.request_response(Payload(b""), route="echo")
        assert (await requester.request_response(route="optional")).data == b"nothing"


async def test_unknown_route(connected):
    """Spring answers with APPLICATION_ERROR, for all interactions that have an answer."""
    async with connected() as (requester, _):
        with pytest.raises(rsocket_trio.ApplicationError, match="No handler for destination 'no'"):
            await requester.request_response(route="no")
        async with requester.request_stream(route="no") as stream:
            with pytest.raises(rsocket_trio.ApplicationError, match="No handler"):
                await stream.receive()
        async with requester.request_channel([Payload(b"x")], route="no") as stream:
            with pytest.raises(rsocket_trio.ApplicationError, match="No handler"):
                await stream.receive()
        await requester.fire_and_forget(route="no")
        assert await requester.request_response(Payload(b"x"), route="echo") == Payload(b"x")


async def test_errors_of_handlers(connected):
    """The text of an exception arrives with APPLICATION_ERROR, and the connection lives."""
    async with connected() as (requester, _):
        with pytest.raises(
            rsocket_trio.ApplicationError, match=r"^APPLICATION_ERROR: no such thing$"
        ):
            await requester.request_response(Payload(b"no such thing"), route="fail")
        async with requester.request_stream(route="numbers-then-fail") as stream:
            assert [(await stream.receive()).data for _ in range(3)] == [b"0", b"1", b"2"]
            with pytest.raises(
                rsocket_trio.ApplicationError, match=r"^APPLICATION_ERROR: no more numbers$"
            ):
                await stream.receive()
        async with requester.request_channel([Payload(b"1")], route="items-fail") as stream:
            with pytest.raises(rsocket_trio.ApplicationError, match=r"^APPLICATION_ERROR: bad 1$"):
                await stream.receive()
        assert await requester.request_response(Payload(b"x"), route="echo") == Payload(b"x")


async def test_many_requests_at_once(connected):
    replies = {}

    async with connected() as (requester, _):

        async def ask(number):
            request = Payload(b"%d" % number)
            replies[number] = await requester.request_response(request, route="echo")

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(ask, number)
    assert replies == {number: Payload(b"%d" % number) for number in range(100)}


async def test_one_way(connected):
    """A message and pushed metadata reach their methods."""
    async with connected() as (requester, spring):
        await requester.fire_and_forget(Payload(b"first"), route="note")
        await spring.seen("note first")
        await requester.metadata_push(Metadata(route="hello").encode())
        await spring.seen("hello without data")


@pytest.mark.parametrize("count", [0, 1, 1000])
async def test_streams(connected, count):
    async with connected() as (requester, _):
        async with requester.request_stream(route=f"numbers.{count}", prefetch=16) as stream:
            assert await data_of(stream) == [b"%d" % number for number in range(count)]


async def test_channels(connected):
    """Items both ways, many to one, and one to many."""
    sent = [Payload(b"%d" % number) for number in range(300)]
    async with connected() as (requester, _):
        for route in "both-ways", "one-by-one":
            async with requester.request_channel(sent, route=route, prefetch=16) as stream:
                assert await data_of(stream) == [item.data for item in sent]
        async with requester.request_channel(sent, route="count") as stream:
            assert await data_of(stream) == [b"300"]
        async with requester.request_channel(sent[:1], route="count") as stream:
            assert await data_of(stream) == [b"1"]


async def test_items_without_data(connected):
    """Spring sends them, but its handlers do not get ours."""
    sent = [Payload(), Payload(b"a"), Payload(), Payload(b"c"), Payload()]
    async with connected() as (requester, _):
        async with requester.request_stream(route="large.1") as stream:
            assert await data_of(stream) == [b"\0", b"", b"\0"]
        async with requester.request_channel(sent, route="both-ways", prefetch=1) as stream:
            assert await data_of(stream) == [b"a", b"c"]


async def test_spring_ends_its_half_of_a_channel(connected):
    """A handler that has enough ends the channel, with its answer; our source is left."""
    async with connected() as (requester, _):
        for route in "first", "first-of-many":
            send, receive = trio.open_memory_channel[Payload](1)
            with send:
                await send.send(Payload(b"only"))
                async with requester.request_channel(receive, route=route) as stream:
                    assert await data_of(stream) == [b"only"]
                    # Spring's CANCEL has closed our source.
                    with pytest.raises(trio.BrokenResourceError):
                        for _ in range(3):
                            await send.send(Payload(b"more"))


async def test_our_source_fails(connected):
    """Spring's handler gets the error of our source."""

    async def source():
        yield Payload(b"1")
        raise rsocket_trio.ApplicationError("out of paper")

    async with connected() as (requester, spring):
        with pytest.raises(rsocket_trio.ApplicationError, match="out of paper"):
            async with requester.request_channel(source(), route="both-ways") as stream:
                await data_of(stream)
        await spring.seen("items failed out of paper")


async def test_our_cancel_reaches_spring(connected):
    """A request, a stream and a channel that we leave are cancelled there."""
    send, receive = trio.open_memory_channel[Payload](1)
    async with connected() as (requester, spring):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: requester.request_response(route="never"))
            # It is answered behind the other one, which has been sent then.
            await requester.request_response(Payload(b"x"), route="echo")
            nursery.cancel_scope.cancel()
        await spring.seen("never cancelled")
        async with requester.request_stream(route="numbers.1000000", prefetch=8) as stream:
            assert (await stream.receive()).data == b"0"
        await spring.seen("numbers cancelled")
        with send:
            async with requester.request_channel(receive, route="both-ways") as stream:
                await send.send(Payload(b"once"))
                assert (await stream.receive()).data == b"once"
            await spring.seen("items cancelled")
        assert await requester.request_response(Payload(b"x"), route="echo") == Payload(b"x")


async def test_spring_sends_what_we_ask_for(recorded):
    """Each REQUEST_N of ours is demand for Spring's publisher, which never sends more."""
    async with recorded() as (requester, spring, wire):
        demand = {"prefetch": 0, "initial_request_n": 2}
        async with requester.request_stream(route="numbers.5", **demand) as stream:
            assert [(await stream.receive()).data for _ in range(2)] == [b"0", b"1"]
            await requester.request_response(Payload(b"behind"), route="echo")
            with pytest.raises(trio.WouldBlock):
                stream.receive_nowait()
            stream.request_n(3)
            assert await data_of(stream) == [b"2", b"3", b"4"]
        # The first item is asked for alone.
        await spring.seen("asked for 1", "asked for 1", "asked for 3")
        async with requester.request_stream(route="numbers.100", prefetch=8) as stream:
            assert len(await data_of(stream)) == 100
    assert_demand_was_kept(wire, "server", 105)


async def test_we_send_what_spring_asks_for(recorded):
    """A handler with limitRate(1) gets an item at a time, both ways of the channel in step."""
    sent = [Payload(b"%d" % number) for number in range(50)]
    async with recorded() as (requester, _, wire):
        async with requester.request_channel(sent, route="one-by-one", prefetch=4) as stream:
            assert len(await data_of(stream)) == 50
    # The first item was in the REQUEST_CHANNEL frame.
    assert_demand_was_kept(wire, "client", 49)
    assert_demand_was_kept(wire, "server", 50)
    assert {frame.n for frame in wire.frames("server", RequestNFrame)} == {1}


@pytest.mark.parametrize("size", [64, 1000])
async def test_fragments(recorded, size):
    """Both sides send fragments of that size, with routes and data of any length."""
    config = ConnectionConfig(fragment_size=size)
    large = MEBIBYTE[: 200 * size]
    async with recorded(fragment=size, config=config) as (requester, _, wire):
        for data in large, large[: size - 1], large[:size]:
            assert (await requester.request_response(Payload(data), route="echo")).data == data
        items = [Payload(large), Payload(b"small"), Payload(large)]
        async with requester.request_channel(items, route="both-ways") as stream:
            assert await data_of(stream) == [large, b"small", large]
        async with requester.request_stream(route=f"large.{len(large)}") as stream:
            assert await data_of(stream) == [bytes(len(large)), b"", bytes(len(large))]
    # Spring's size has the three bytes of the length before each frame in it.
    assert max(wire.sizes("server")) == size - 3
    # SETUP is never fragmented.
    assert max(wire.sizes("client")[1:]) == size
    assert len(wire.record) > 1500


async def test_large_payloads(connected):
    """Payloads larger than a frame of ours."""
    large = MEBIBYTE * 4
    assert ConnectionConfig().fragment_size < len(large)
    async with connected() as (requester, _):
        assert (await requester.request_response(Payload(large), route="echo")).data == large


async def test_empty_streams(recorded):
    """Flux.empty() is a completion without an item."""
    async with recorded() as (requester, _, wire):
        async with requester.request_stream(route="numbers.0") as stream:
            assert await data_of(stream) == []
        [complete] = wire.frames("server", PayloadFrame)
        assert (complete.next, complete.complete) == (False, True)


async def test_spring_calls_back(using_spring):
    """A handler of Spring's reads a stream of ours: both ways on one connection."""
    router = Router()

    @router.request_stream("stream")
    async def stream_of(text: bytes) -> AsyncIterator[bytes]:
        for number in range(5):
            yield text + b"%d" % number

    async with using_spring() as spring:
        server = await spring.serve()
        async with connect(server.uri, responder=router) as requester:
            async with requester.request_stream(Payload(b"n"), route="call-back") as stream:
                assert await data_of(stream) == [b"n0", b"n1", b"n2", b"n3", b"n4"]


async def test_keepalive(recorded):
    """Spring answers our KEEPALIVE, and we answer those of its server."""
    config = ConnectionConfig(keepalive_interval=0.05)
    async with recorded(config=config) as (requester, _, wire):
        await wire.wait_for("server", KeepaliveFrame, 3, where=lambda frame: not frame.respond)
        assert await requester.request_response(Payload(b"x"), route="echo") == Payload(b"x")


@SECURITY
async def test_accepted(connected, security):
    """Authentication of the connection, or of one request."""
    auth = Metadata(auth=USER[security])
    async with connected(security=security, setup_metadata=auth) as (requester, _):
        assert await requester.request_response(Payload(b"x"), route="echo") == Payload(b"x")
    async with connected(security=security) as (requester, _):
        reply = await requester.request_response(Payload(b"x"), route="echo", metadata=auth)
        assert reply == Payload(b"x")


@SECURITY
async def test_nobody(connected, security):
    """Without authentication Spring refuses a request, and no message that all may send."""
    async with connected(security=security) as (requester, spring):
        with pytest.raises(rsocket_trio.ApplicationError, match="Access Denied"):
            await requester.request_response(Payload(b"x"), route="echo")
        async with requester.request_stream(route="numbers.5") as stream:
            with pytest.raises(rsocket_trio.ApplicationError, match="Access Denied"):
                await stream.receive()
        await requester.fire_and_forget(Payload(b"free"), route="note")
        await spring.seen("note free")


@SECURITY
async def test_roles(connected, security):
    """A request has the authentication of its own, or else that of the connection."""
    user = Metadata(auth=USER[security])
    admin = Metadata(auth=ADMIN[security])
    async with connected(security=security, setup_metadata=user) as (requester, _):
        async with requester.request_stream(route="numbers.2") as stream:
            with pytest.raises(rsocket_trio.ApplicationError, match="Access Denied"):
                await stream.receive()
        async with requester.request_stream(route="numbers.2", metadata=admin) as stream:
            assert await data_of(stream) == [b"0", b"1"]


@pytest.mark.parametrize("who", STRANGERS)
async def test_refused_request(connected, who):
    """Spring refuses a request with APPLICATION_ERROR, and the connection lives."""
    security, auth = STRANGERS[who]
    async with connected(security=security) as (requester, _):
        with pytest.raises(rsocket_trio.ApplicationError, match=REFUSED):
            await requester.request_response(route="echo", metadata=Metadata(auth=auth))
        user = Metadata(auth=USER[security])
        await requester.request_response(Payload(b"x"), route="echo", metadata=user)


@pytest.mark.parametrize("transport", ["tcp", "ws"])
@pytest.mark.parametrize("who", STRANGERS)
async def test_refused_setup(using_spring, transport, who):
    """Wrong authentication of the connection: REJECTED_SETUP, with Spring's text."""
    security, auth = STRANGERS[who]
    async with using_spring() as spring:
        server = await spring.serve(transport, security=security)
        with pytest.raises(rsocket_trio.RejectedSetup, match=REFUSED):
            async with connect(server.uri, setup_metadata=Metadata(auth=auth)):
                pytest.fail("the connection was accepted")


@pytest.mark.parametrize("transport", ["tcp", "ws"])
async def test_spring_stops(using_spring, transport):
    """When the application is closed, what waits ends with an error that says so."""
    async with using_spring() as spring:
        server = await spring.serve(transport, own=True)
        async with connect(server.uri) as requester:
            async with requester.request_stream(route="numbers.10", prefetch=0) as stream:
                assert (await stream.receive()).data == b"0"
                await server.stop()
                with pytest.raises(rsocket_trio.ConnectionClosed):
                    await stream.receive()
            with pytest.raises(rsocket_trio.ConnectionClosed):
                await requester.request_response(route="echo")


@pytest.mark.parametrize("transport", ["tcp", "ws"])
async def test_we_leave(using_spring, transport):
    """Our close ends Spring's handlers."""
    async with using_spring() as spring:
        server = await spring.serve(transport)
        async with trio.open_nursery() as nursery:
            async with connect(server.uri) as requester:

                async def wait():
                    with pytest.raises(trio.ClosedResourceError):
                        await requester.request_response(route="never")

                nursery.start_soon(wait)
                await requester.request_response(Payload(b"x"), route="echo")
        await spring.seen("never cancelled")
