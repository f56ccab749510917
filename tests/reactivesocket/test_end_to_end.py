"""Our client and server of the draft, with the known answers, over real sockets."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
import trustme

from rsocket_trio import (
    ApplicationError,
    ClientResume,
    ConnectionClosed,
    ConnectionConfig,
    Invalid,
    Limits,
    LocalProtocolError,
    Payload,
    Rejected,
    RejectedSetup,
    Responder,
    Router,
    StreamedPayload,
    connect,
    serve,
)
from rsocket_trio.reactivesocket import request_subscription
from rsocket_trio.testing.peer import KnownAnswers

WIRES = ["tcp://127.0.0.1:0", "ws://127.0.0.1:0/path"]
SMALL = ConnectionConfig(fragment_size=64)
LARGE = Payload(b"d" * 100_000, b"m" * 100_000)


@pytest.fixture(params=WIRES, ids=["tcp", "ws"])
async def uri(request, nursery):
    """The address of a server that serves both protocols."""
    server = await nursery.start(serve, KnownAnswers(), request.param)
    yield server.uris[0]
    await server.aclose(grace=0)


@pytest.fixture(params=["rsocket", "reactivesocket"])
def protocol(request):
    return request.param


async def collect(opened):
    async with opened as stream:
        return [item async for item in stream]


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


def greeter():
    router = Router()

    @router.request_response("greet")
    async def greet(name: str) -> str:
        return f"hello {name}"

    @router.request_stream("ticks")
    async def ticks(start: int) -> AsyncIterator[str]:
        while True:
            start += 1
            yield f"{start}"

    @router.request_channel("upper")
    async def upper(words: trio.abc.ReceiveChannel[str]) -> AsyncIterator[str]:
        async for word in words:
            yield word.upper()

    return router


async def test_a_router_serves_both_at_the_same_time(nursery):
    """One port, clients of both protocols, the same handlers by route."""
    server = await nursery.start(serve, greeter(), *WIRES)
    for uri in server.uris:
        async with (
            connect(uri, data_mime_type="text/plain") as new,
            connect(uri, data_mime_type="text/plain", protocol="reactivesocket") as old,
        ):
            for requester in (new, old, new, old):
                reply = await requester.request_response(Payload(b"bob"), route="greet")
                assert reply.data == b"hello bob"
                async with request_subscription(requester, Payload(b"7"), route="ticks") as ticks:
                    assert (await ticks.receive()).data == b"8"
                words = [Payload(b"a"), Payload(b"b")]
                assert await collect(requester.request_channel(words, route="upper")) == [
                    Payload(b"A"),
                    Payload(b"B"),
                ]
    await server.aclose(grace=0)


async def test_every_transport_recognizes_the_protocol(nursery, tmp_path, protocol):
    """TLS, secure WebSocket and Unix sockets tell the two apart as TCP and WebSocket do."""
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    uris = ["tls://127.0.0.1:0", "wss://127.0.0.1:0/path", f"unix://{tmp_path}/socket"]
    server = await nursery.start(partial(serve, ssl_context=theirs), KnownAnswers(), *uris)
    for uri in server.uris:
        context = None if uri.startswith("unix") else ours
        async with connect(uri, protocol=protocol, ssl_context=context) as requester:
            assert await requester.request_response(LARGE) == LARGE
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
        with trio.fail_after(5):
            await requester.wait_closed()


async def test_a_protocol_that_a_server_does_not_offer(nursery):
    """A server of 1.0 only refuses the draft, and the reverse."""
    new_only = partial(serve, protocols=["rsocket"])
    old_only = partial(serve, protocols=["reactivesocket"])
    one = await nursery.start(new_only, KnownAnswers(), WIRES[1])
    other = await nursery.start(old_only, KnownAnswers(), *WIRES)
    with pytest.raises(ConnectionClosed, match="0x0000 is not known"):
        async with connect(one.uris[0], protocol="reactivesocket"):
            pass
    for uri in other.uris:
        async with connect(uri, protocol="reactivesocket") as requester:
            assert await requester.request_response(Payload(b"x")) == Payload(b"x")
    with pytest.raises(ConnectionClosed, match="0x00 is not known"):
        async with connect(other.uris[1]):
            pass
    for server in (one, other):
        await server.aclose(grace=0)


@pytest.mark.parametrize("protocols", [[], "rsocket", ["http"], ["rsocket", "x"]])
async def test_unknown_protocols_of_a_server(protocols):
    """An unknown name, or no name, is the caller's error."""
    with pytest.raises(ValueError, match="protocols must be 'rsocket' and 'reactivesocket'"):
        await serve(KnownAnswers(), WIRES[0], protocols=protocols)


async def test_an_unknown_protocol_of_a_client():
    """It is the caller's error."""
    with pytest.raises(ValueError, match="protocols must be"):
        async with connect("tcp://127.0.0.1:1", protocol="http"):
            pass


async def test_the_draft_has_no_resumption():
    """A request for it is refused before the client dials."""
    with pytest.raises(LocalProtocolError, match="no resumption"):
        async with connect("tcp://127.0.0.1:1", protocol="reactivesocket", resume=ClientResume()):
            pass


async def body():
    for _ in range(5):
        await trio.lowlevel.checkpoint()
        yield b"x" * 100


async def test_streamed_payloads_arrive_whole(uri, protocol):
    """A payload that is sent while it is made is the same at the other end."""
    async with connect(uri, protocol=protocol, config=SMALL) as requester:
        reply = await requester.request_response(StreamedPayload(body()))
        assert reply == Payload(b"x" * 500)


LIMITED = ConnectionConfig(fragment_size=64, limits=Limits(max_frame_size=2000))
"""The frame size of both ends: a request that one end sends, the other accepts."""
ROOM = 1980


class Sizes(Responder):
    """Answers with the size of the payload, or with an error of the requested size."""

    async def request_response(self, payload):
        if payload.data.startswith(b"error:"):
            raise Rejected(b"\xff" * int(payload.data[6:]))
        return Payload(b"%d" % (len(payload.data) + len(payload.metadata or b"")))

    async def request_stream(self, payload):
        yield Payload(b"%d" % len(payload.data))

    async def request_channel(self, _payload, payloads):
        async for payload in payloads:
            yield Payload(b"%d" % len(payload.data))


@pytest.fixture(params=WIRES, ids=["tcp", "ws"])
async def limited(request, nursery):
    """A client of the draft whose frames, and its server's, hold at most two kilobytes."""
    server = await nursery.start(partial(serve, Sizes(), request.param, config=LIMITED))
    async with connect(server.uris[0], protocol="reactivesocket", config=LIMITED) as requester:
        yield requester
    await server.aclose(grace=0)


@pytest.mark.parametrize(
    ("size", "metadata"), [(ROOM, None), (0, b"m" * ROOM), (ROOM // 2, b"m" * (ROOM // 2))]
)
async def test_the_largest_request(limited, size, metadata):
    """The draft does not fragment requests, so a request may fill exactly one frame."""
    reply = await limited.request_response(Payload(b"d" * size, metadata))
    assert reply.data == b"%d" % ROOM
    assert await collect(limited.request_stream(Payload(b"d" * ROOM))) == [Payload(b"%d" % ROOM)]
    await limited.metadata_push(b"m" * (ROOM - 6))
    for payload in (Payload(b"d" * (ROOM + 1)), Payload(b"", b"m" * (ROOM + 1))):
        with pytest.raises(LocalProtocolError, match="no fragments of requests"):
            await limited.request_response(payload)
        with pytest.raises(LocalProtocolError, match="no fragments of requests"):
            await limited.fire_and_forget(payload)
        with pytest.raises(LocalProtocolError, match="no fragments of requests"):
            await collect(limited.request_stream(payload))
    with pytest.raises(LocalProtocolError):
        await limited.metadata_push(b"m" * (ROOM - 5))
    items = [Payload(b"d" * 5000)] * 2
    assert await collect(limited.request_channel(items)) == [Payload(b"5000")] * 2
    assert limited.statistics().open_streams == 0


async def test_a_request_that_becomes_too_large_while_it_is_made(limited):
    """It fails with the chunk that does not fit, and uses memory for a frame and that chunk."""
    made = []

    async def chunks():
        try:
            while True:
                made.append(100)
                yield bytearray(100)
        finally:
            made.append("closed")

    for ask in (limited.request_response, limited.fire_and_forget):
        with pytest.raises(LocalProtocolError, match="of 2000 bytes or more"):
            await ask(StreamedPayload(chunks()))
        assert made == [100] * 20 + ["closed"]
        made.clear()
    with pytest.raises(LocalProtocolError, match="no fragments of requests"):
        await limited.request_response(StreamedPayload(chunks(), b"m" * (ROOM + 1)))
    assert limited.statistics().open_streams == 0
    assert (await limited.request_response(Payload(b"x"))).data == b"1"


@pytest.mark.parametrize("size", [10, 256, 257, ROOM, 5000])
async def test_the_longest_error(limited, size):
    """The part of an error that fits a frame arrives, also where the draft makes it longer."""
    with pytest.raises(Rejected) as caught:
        await limited.request_response(Payload(b"error:%d" % size))
    assert caught.value.message.startswith("\N{REPLACEMENT CHARACTER}")
    assert (await limited.request_response(Payload(b"x"))).data == b"1"
