"""Our client and server of the draft, with the known answers, over real sockets."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import (
    ApplicationError,
    ConnectionConfig,
    Invalid,
    Payload,
    RejectedSetup,
    Responder,
    StreamedPayload,
    connect,
    serve,
)
from rsocket_trio.reactivesocket import request_subscription
from rsocket_trio.testing.peer import KnownAnswers
from tests.reactivesocket.wires import WIRES, collect

SMALL = ConnectionConfig(fragment_size=64)


@pytest.fixture(params=WIRES, ids=["tcp", "ws"])
async def uri(request, nursery):
    """The address of a server that serves both protocols."""
    server = await nursery.start(serve, KnownAnswers(), request.param)
    yield server.uris[0]
    await server.aclose(grace=0)


async def test_request_response(uri, protocol):
    """Data and metadata come back, errors with code and text."""
    async with connect(uri, protocol=protocol) as requester:
        for payload in (Payload(b"x"), Payload(b"x", b"m"), Payload(b""), Payload(b"", b"m")):
            assert await requester.request_response(payload) == payload
        with pytest.raises(ApplicationError) as info:
            await requester.request_response(Payload(b"error:no"))
        assert info.value.message == "no"
        nothing = await requester.request_response(Payload(b"empty"))
        # The draft has no answer without a payload.
        assert nothing == (None if protocol == "rsocket" else Payload())


async def test_cancelling_a_request(uri, protocol):
    """A caller that gives up does not affect the connection."""
    async with connect(uri, protocol=protocol) as requester:
        with trio.move_on_after(0):
            await requester.request_response(Payload(b"never"))
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")
        assert requester.statistics().open_streams == 0


async def test_messages_without_an_answer(uri, protocol):
    """fire_and_forget and metadata_push arrive."""
    async with connect(uri, protocol=protocol) as requester:
        await requester.fire_and_forget(Payload(b"fnf"))
        await requester.metadata_push(b"push")
        assert (await requester.request_response(Payload(b"last-fnf"))).data == b"fnf"
        assert (await requester.request_response(Payload(b"last-push"))).data == b"push"


async def test_request_stream(uri, protocol):
    """All items come in order, with a window smaller than the stream, and errors too."""
    async with connect(uri, protocol=protocol) as requester:
        items = await collect(requester.request_stream(Payload(b"1000"), prefetch=7))
        assert [int(item.data) for item in items] == list(range(1000))
        assert await collect(requester.request_stream(Payload(b"0"))) == []
        with pytest.raises(Invalid):
            await collect(requester.request_stream(Payload(b"many")))


async def test_manual_demand_and_leaving_a_stream(uri, protocol):
    """Exactly the granted items come; leaving cancels."""
    async with connect(uri, protocol=protocol) as requester:
        opened = requester.request_stream(Payload(b"1000"), prefetch=0, initial_request_n=2)
        async with opened as stream:
            assert [(await stream.receive()).data for _ in range(2)] == [b"0", b"1"]
            stream.request_n(1)
            assert (await stream.receive()).data == b"2"
        assert await requester.request_response(Payload(b"x")) == Payload(b"x")


async def test_request_channel(uri, protocol):
    """The sent items come back, the first and empty ones included."""
    sent = [Payload(b"%d" % n, b"m" if n % 2 else None) for n in range(500)]
    sent[10] = Payload(b"")
    async with connect(uri, protocol=protocol) as requester:
        assert await collect(requester.request_channel(sent, prefetch=8)) == sent
        assert await collect(requester.request_channel([Payload(b"one")])) == [Payload(b"one")]


@pytest.mark.parametrize("size", [50, 60, 61, 65, 1000])
async def test_payloads_larger_than_a_fragment(uri, protocol, size):
    """Payloads arrive whole, also if they were cut on the way."""
    payload = Payload(bytes(range(256)) * 4, b"m" * size)
    async with connect(uri, protocol=protocol, config=SMALL) as requester:
        assert await requester.request_response(payload) == payload
        await requester.fire_and_forget(payload)
        assert (await requester.request_response(Payload(b"last-fnf"))).data == payload.data
        assert await collect(requester.request_channel([payload, payload])) == [payload, payload]


class Early(Responder):
    """Answers a channel with two items and ends; the requester goes on."""

    async def request_channel(self, payload, payloads):
        async def two():
            yield Payload(b"a")
            yield Payload(b"b")

        return two()


async def endless():
    while True:
        await trio.lowlevel.checkpoint()
        yield Payload(b"more")


async def test_a_responder_that_completes_first_ends_the_channel(nursery):
    """The requester's source is stopped (V0-CHAN-05), and its late items open no channel."""
    server = await nursery.start(serve, Early(), WIRES[0])
    async with connect(server.uris[0], protocol="reactivesocket") as requester:
        for _ in range(3):
            replies = await collect(requester.request_channel(endless()))
            assert [reply.data for reply in replies] == [b"a", b"b"]
            assert requester.statistics().open_streams == 0
    await server.aclose(grace=0)


class Endless(Responder):
    """Sends items without end."""

    async def request_stream(self, payload):
        number = 0
        while True:
            yield Payload(b"%d" % number)
            number += 1


async def test_request_subscription(nursery, protocol):
    """An endless stream, with either protocol, in fragments or whole; leaving it ends it."""
    server = await nursery.start(serve, Endless(), WIRES[0])
    uri = server.uris[0]
    async with connect(uri, protocol=protocol, config=SMALL) as requester:
        for request in (Payload(b"x"), Payload(b"x" * 1000, b"m" * 100)):
            async with request_subscription(requester, request, prefetch=4) as ticks:
                assert [(await ticks.receive()).data for _ in range(9)] == [
                    b"%d" % n for n in range(9)
                ]
        assert requester.statistics().open_streams == 0
    await server.aclose(grace=0)


async def test_a_server_asks_its_client(nursery, protocol):
    """Requests go in both directions at the same time."""
    seen = []

    async def acceptor(setup, requester):
        class Asking(Responder):
            async def request_response(self, payload):
                seen.append(setup.transport.extra.get("protocol"))
                items = await collect(requester.request_stream(Payload(b"3")))
                reply = await requester.request_response(payload)
                return Payload(reply.data + b"".join(item.data for item in items))

        return Asking()

    server = await nursery.start(serve, acceptor, WIRES[0])
    async with connect(server.uris[0], protocol=protocol, responder=KnownAnswers()) as requester:
        for _ in range(3):
            assert (await requester.request_response(Payload(b"x"))).data == b"x012"
    assert seen == [None if protocol == "rsocket" else protocol] * 3
    await server.aclose(grace=0)


async def test_a_refused_setup(nursery):
    """An error of an acceptor arrives as the same error."""

    async def acceptor(setup, requester):
        raise RejectedSetup("not today")

    server = await nursery.start(serve, acceptor, *WIRES)
    for uri in server.uris:
        with pytest.raises(RejectedSetup, match="not today"):
            async with connect(uri, protocol="reactivesocket"):
                pass
    await server.aclose(grace=0)


async def test_a_server_that_stops(nursery):
    """Streams in flight finish within the grace; the draft has no frame to announce the end."""
    started, go_on = trio.Event(), trio.Event()

    class Slow(Responder):
        async def request_response(self, payload):
            started.set()
            await go_on.wait()
            return payload

    server = await nursery.start(serve, Slow(), WIRES[0])
    async with connect(server.uris[0], protocol="reactivesocket") as requester:
        async with trio.open_nursery() as inner:

            @inner.start_soon
            async def ask():
                assert await requester.request_response(Payload(b"x")) == Payload(b"x")

            await started.wait()
            server.stop(grace=60)
            go_on.set()
        with trio.fail_after(30):
            await requester.wait_closed()


async def body():
    for _ in range(5):
        await trio.lowlevel.checkpoint()
        yield b"x" * 100


async def test_streamed_payloads_arrive_whole(uri, protocol):
    """A payload that is sent while it is made is the same at the other end."""
    async with connect(uri, protocol=protocol, config=SMALL) as requester:
        reply = await requester.request_response(StreamedPayload(body()))
        assert reply == Payload(b"x" * 500)
