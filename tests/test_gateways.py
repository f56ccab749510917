"""Gateways: handlers that ask other peers, whose errors are not answers to the handler's own peer.

Without this, a client would get REJECTED ("you may retry") or INVALID ("your request is wrong") for
what another peer has done, with that peer's text, which was never meant for it.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import (
    ApplicationError,
    ConnectionClosed,
    ConnectionLost,
    Payload,
    Rejected,
    RejectedSetup,
    RemoteProtocolError,
    Requester,
    Responder,
    Router,
    SetupError,
    StreamError,
    rsio,
    serve,
    serve_transport,
    ttrpc,
)
from rsocket_trio import connect as connect_rsocket
from rsocket_trio.errors import ErrorCode, addressed
from rsocket_trio.frames import ErrorFrame, PayloadFrame, RequestStreamFrame
from rsocket_trio.lumberjack import serve as serve_lumberjack
from rsocket_trio.reactive_streams import collect
from rsocket_trio.testing.in_memory import connected_pair, frame_peer_server
from rsocket_trio.transports.memory import memory_transport_pair
from tests.lumberjack.receiving import ADDRESS, full_window, sender_to
from tests.rsio.engine_scenes import pair as rsio_pair
from tests.ttrpc.scenes import ECHO, JOIN, SERVICE, client_of, one, opening, stranger_to, things
from tests.ttrpc.scenes import request as request_of_ttrpc

SECRET = "10.0.0.7 has refused"


@asynccontextmanager
async def backend(kind):
    """A function that asks a peer, and ends with an error of that peer."""
    match kind:
        case "refusal" | "code":
            code = ErrorCode.REJECTED if kind == "refusal" else 0x418

            class Refuses(Responder):
                async def request_response(self, payload):
                    raise StreamError(SECRET, code=code)

            async with connected_pair(Refuses()) as requester:
                yield requester.request_response
        case "too many items":
            async with frame_peer_server() as (peer, requester):

                async def read():
                    async with requester.request_stream(prefetch=1) as items:
                        request = await peer.receive(RequestStreamFrame)
                        frame = PayloadFrame(request.stream_id, next=True, data=b"x")
                        await peer.send(frame, frame, frame)
                        return [item async for item in items]

                yield read
        case "closed" | "lost":
            async with frame_peer_server() as (peer, requester):
                if kind == "closed":
                    text = SECRET.encode()
                    await peer.send(ErrorFrame(0, ErrorCode.CONNECTION_ERROR, text))
                    await peer.expect_closed()
                else:
                    peer.transport.close()
                    await trio.testing.wait_all_tasks_blocked()
                yield requester.request_response
        case "no connection":

            async def refuse(_setup, _requester):
                raise RejectedSetup(SECRET)

            async def dial():
                ours, theirs = memory_transport_pair()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(partial(serve_transport, refuse, theirs))
                    refusal = None
                    try:
                        async with connect_rsocket(ours):
                            raise AssertionError("connected")
                    except SetupError as error:
                        refusal = error
                raise refusal

            yield dial
        case "ttrpc":

            async def deny(_request):
                raise ttrpc.PermissionDenied(SECRET)

            async with client_of(one(ttrpc.MethodKind.UNARY, deny)) as client:
                yield partial(client.unary, ECHO, b"")
        case "ttrpc unreadable":
            unary = ttrpc.MethodKind.UNARY
            method = ttrpc.Method(SERVICE, "Echo", unary, request=ttrpc.BYTES, response=UNREADABLE)
            async with client_of(things()) as client:
                yield partial(client.unary, method, b"")
        case "rsio":
            async with rsio_pair({}) as link:

                async def subscribe():
                    return await collect(link.publisher("nothing"))

                yield subscribe


def _unreadable(data):
    raise ValueError(SECRET)


UNREADABLE = ttrpc.MessageCodec(bytes, _unreadable, "Thing")

KINDS = [
    "refusal",
    "code",
    "too many items",
    "closed",
    "lost",
    "no connection",
    "ttrpc",
    "ttrpc unreadable",
    "rsio",
]


class Gateway(Responder):
    """Asks a backend in each handler, and lets its errors through."""

    def __init__(self, ask):
        self.ask = ask

    async def request_response(self, payload):
        await self.ask()
        return payload

    async def request_stream(self, payload):
        await self.ask()
        yield payload

    async def request_channel(self, payload, payloads):
        async with trio.open_nursery() as nursery:  # so that the error is in a group
            nursery.start_soon(self.ask)
        yield payload

    async def fire_and_forget(self, payload):
        await self.ask()


async def request(requester, interaction):
    match interaction:
        case "request_response":
            await requester.request_response()
        case "request_stream":
            async with requester.request_stream() as items:
                await items.receive()
        case "request_channel":
            async with requester.request_channel([Payload()]) as items:
                await items.receive()


def failures(caplog):
    return [each for each in caplog.records if each.levelno >= logging.ERROR]


@pytest.mark.parametrize("interaction", ["request_response", "request_stream", "request_channel"])
@pytest.mark.parametrize("kind", KINDS)
async def test_the_error_of_a_backend_is_a_failure_of_the_handler(kind, interaction, caplog):
    """The client of the gateway gets no code and no text of the backend; the log has both."""
    async with backend(kind) as ask, connected_pair(Gateway(ask)) as requester:
        caplog.clear()
        with pytest.raises(ApplicationError) as caught:
            await request(requester, interaction)
        assert caught.value.message == "the handler failed"
        (record,) = failures(caplog)
        assert record.exc_info is not None


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_without_an_answer(kind, caplog):
    """It has failed; it was not refused."""
    async with backend(kind) as ask, connected_pair(Gateway(ask)) as requester:
        caplog.clear()
        await requester.fire_and_forget()
        await trio.testing.wait_all_tasks_blocked()
        (record,) = failures(caplog)
        assert "a fire_and_forget handler failed" in record.message


async def test_what_a_handler_says_itself():
    """A handler passes a refusal on by making one of its own."""

    async def passes_on():
        try:
            await ask()
        except StreamError as error:
            raise StreamError(error.data, code=error.code) from error

    async with backend("refusal") as ask, connected_pair(Gateway(passes_on)) as requester:
        with pytest.raises(Rejected, match=SECRET):
            await requester.request_response()


def test_what_is_addressed_to_a_peer():
    """An error of the handler itself, also alone in a group; not one among others."""
    mine = Rejected("no")
    assert addressed(mine, StreamError) is mine
    assert addressed(ExceptionGroup("", [ExceptionGroup("", [mine])]), StreamError) is mine
    assert addressed(ExceptionGroup("", [mine, KeyError()]), StreamError) is None
    assert addressed(RemoteProtocolError("x", code=ErrorCode.INVALID), StreamError) is None
    assert addressed(ConnectionClosed("x"), StreamError) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ttrpc.MethodKind)
async def test_a_gateway_of_ttrpc(kind, method, caplog):
    """Its client gets UNKNOWN, and no text of the backend."""
    async with backend(kind) as ask:

        async def answer(_request):
            await ask()

        async def items(_request):
            await ask()
            yield b""

        function = items if method.receives_stream else answer
        async with stranger_to(one(method, function)) as stranger:
            caplog.clear()
            await stranger.send((opening if method.sends_stream else request_of_ttrpc)(1, "Echo"))
            status = (await stranger.frame()).status
            assert (status.code, status.message) == (2, "the handler failed")
            assert len(failures(caplog)) == 1


async def test_an_unreadable_message_of_the_own_client_of_ttrpc_is_its_fault():
    """Only what another peer sent is the handler's failure."""

    async def join(messages):
        return b"".join([each async for each in messages])

    kind = ttrpc.MethodKind.CLIENT_STREAM
    service = ttrpc.Service(SERVICE)
    service.add(ttrpc.Method(SERVICE, "Join", kind, request=UNREADABLE, response=ttrpc.BYTES), join)
    async with client_of(service) as client:
        async with client.client_stream(JOIN) as call:
            await call.send(b"x")
            with pytest.raises(ttrpc.Internal, match="is no Thing"):
                await call.reply()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_gateway_of_rsio(kind, caplog):
    """Its subscriber gets no text of the backend."""
    async with backend(kind) as ask:

        async def items():
            await ask()
            yield b""

        async def resolve(name, connection):
            if name == "at once":
                await ask()
            return items()

        async with rsio_pair(resolve) as link:
            for name in ("late", "at once"):
                caplog.clear()
                with pytest.raises(rsio.PublisherError) as caught:
                    await collect(link.publisher(name))
                assert caught.value.text == "the publisher failed"
                assert len(failures(caplog)) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hook", ["authenticate", "on_setup", "acceptor"])
async def test_who_admits_connections(kind, hook):
    """A hook that asks another peer has failed; the text of the other peer stays here."""
    async with backend(kind) as ask:

        async def decide(*_arguments):
            await ask()

        target = decide if hook == "acceptor" else Router(**{hook: decide})
        with pytest.raises(RejectedSetup) as caught:
            async with connected_pair(target):
                raise AssertionError("connected")
        text = "the acceptor failed" if hook == "acceptor" else "this connection was not admitted"
        assert caught.value.message == text


@pytest.mark.parametrize("kind", KINDS)
async def test_who_admits_requests(kind):
    """An authenticator that asks another peer about a request."""
    async with backend(kind) as ask:

        async def authenticate(_auth, facts):
            if hasattr(facts, "interaction"):
                await ask()

        router = Router(authenticate=authenticate)

        @router.request_response()
        async def answer() -> None: ...

        async with connected_pair(router) as requester:
            with pytest.raises(ApplicationError) as caught:
                await requester.request_response()
        assert caught.value.message == "this request was not admitted"


@pytest.mark.parametrize("kind", ["refusal", "ttrpc", "too many items"])
async def test_who_admits_senders_of_log_events(kind, caplog):
    """A guard that fails is an error in the log, and not the refusal of a sender."""
    async with backend(kind) as ask, trio.open_nursery() as nursery:

        async def authenticate(_auth, facts):
            if hasattr(facts, "interaction"):
                await ask()

        router = Router(authenticate=authenticate)

        @router.events()
        async def take(events: list[dict]) -> None: ...

        server = await nursery.start(serve_lumberjack, router, ADDRESS)
        caplog.clear()
        async with sender_to(server) as sender:
            await sender.send(full_window(1))
            assert await sender.ack() is None
        assert [each.message[:30] for each in failures(caplog)] == [
            "authenticate= of a Router fail"
        ]
        await server.aclose()


@pytest.mark.parametrize("fails", ["by its own client", "by a backend"])
async def test_a_client_of_ttrpc_that_leaves_inside_of_its_stream(fails, caplog):
    """What it causes is no error in the log, as a stranger may cause it; what a backend does is."""

    async def join(messages):
        if fails == "by a backend":
            raise ConnectionLost(SECRET)
        return b"".join([each async for each in messages])

    async with stranger_to(one(ttrpc.MethodKind.CLIENT_STREAM, join), over="socket") as stranger:
        await stranger.send(opening(1, "Echo"))
        await stranger.end_sending()
        status = (await stranger.frame()).status
        assert (status.code, status.message) == (2, "the handler failed")
        await stranger.until_end()
    assert len(failures(caplog)) == (fails == "by a backend")


@pytest.mark.parametrize("channel", [False, True])
async def test_a_handler_that_asks_its_own_peer_while_the_connection_ends(channel, caplog):
    """A graceful stop is no error of the handlers that ask their clients."""
    connected: list[Requester] = []
    go = trio.Event()

    class Asks(Responder):
        async def request_response(self, payload):
            await go.wait()
            await connected[0].request_response(payload)

        async def request_channel(self, payload, payloads):
            await self.request_response(payload)
            yield payload

    async def accept(_setup, requester):
        connected.append(requester)
        return Asks()

    async def ask(requester):
        with pytest.raises((StreamError, ConnectionClosed)):
            await request(requester, "request_channel" if channel else "request_response")

    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, accept, "tcp://127.0.0.1:0")
        async with connect_rsocket(server.uris[0]) as requester, trio.open_nursery() as asking:
            asking.start_soon(ask, requester)
            await trio.testing.wait_all_tasks_blocked(0.05)
            server.stop(grace=5)
            await trio.testing.wait_all_tasks_blocked(0.05)
            go.set()
        await server.aclose()
    assert failures(caplog) == []
