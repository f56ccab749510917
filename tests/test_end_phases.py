"""The phases of a connection's end: what crosses the announcement of a stop has an outcome."""

from __future__ import annotations

import ssl
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
import trustme

from rsocket_trio import (
    ClosedByPeer,
    ConnectFailed,
    ConnectionConfig,
    ErrorCode,
    Limits,
    Payload,
    Rejected,
    RejectedSetup,
    Responder,
    connect,
    serve,
)
from rsocket_trio.connection.lifecycle import Lifecycle, Phase
from rsocket_trio.frames import (
    CancelFrame,
    ErrorFrame,
    PayloadFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    SetupFrame,
)
from rsocket_trio.sockets.farewell import LINGER
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.testing.leaks import assert_no_leaks
from rsocket_trio.transports import open_transport
from tests.gated import Gated, flooded

SETUP = SetupFrame(1, 0, keepalive_interval_ms=20_000, max_lifetime_ms=90_000)
SCHEMES = ["tcp", "tls", "ws", "wss", "unix"]


class Place:
    """An address of a scheme, and the TLS of both ends."""

    def __init__(self, scheme, directory):
        self.uri = f"unix://{directory}/s" if scheme == "unix" else f"{scheme}://127.0.0.1:0"
        self.server_tls = self.client_tls = None
        if scheme in ("tls", "wss"):
            authority = trustme.CA()
            self.server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert("127.0.0.1").configure_cert(self.server_tls)
            self.client_tls = ssl.create_default_context()
            authority.configure_trust(self.client_tls)


@pytest.fixture(params=SCHEMES)
def place(request, tmp_path):
    """An address of each kind."""
    return Place(request.param, tmp_path)


@asynccontextmanager
async def raw_client(place, responder, *, setup=True):
    """A server, and a client of which the test writes every frame."""
    config = ConnectionConfig(limits=Limits(max_metadata_size=1000))
    start = partial(serve, responder, place.uri, ssl_context=place.server_tls, config=config)
    async with assert_no_leaks(), trio.open_nursery() as nursery:
        server = await nursery.start(start)
        dialled = open_transport(
            server.uris[0], ssl_context=place.client_tls, max_frame_size=2**24 - 1
        )
        async with dialled as transport:
            peer = FramePeer(transport, cushion=0.05)
            if setup:
                await peer.setup()
            yield server, peer
        with trio.fail_after(30):
            await server.aclose(grace=60)


def code_of(frame):
    """Which stream it refuses, and how."""
    assert isinstance(frame, ErrorFrame), frame
    return frame.stream_id, frame.code


async def test_requests_that_cross_a_stop_are_refused(place):
    """While it drains, and while it lingers: until the peer closes, each request is answered."""
    gated = Gated()
    async with raw_client(place, gated) as (server, peer):
        await peer.send(RequestResponseFrame(1, data=b"wait"), RequestResponseFrame(3, data=b"x"))
        assert (await peer.receive(PayloadFrame)).stream_id == 3
        server.stop(grace=60)
        assert code_of(await peer.receive()) == (0, ErrorCode.CONNECTION_CLOSE)
        await peer.send(RequestResponseFrame(5, data=b"x"))
        assert code_of(await peer.receive()) == (5, ErrorCode.REJECTED)
        gated.gate.set()
        assert (await peer.receive(PayloadFrame)).stream_id == 1
        await peer.send(
            RequestStreamFrame(7, initial_request_n=1, data=b"x"),
            RequestFnfFrame(9, data=b"x"),
            RequestResponseFrame(11, data=b"x"),
        )
        assert code_of(await peer.receive()) == (7, ErrorCode.REJECTED)
        assert code_of(await peer.receive()) == (11, ErrorCode.REJECTED)
        assert server.statistics().dropped_events == 1
        assert server.statistics().connections == 1
    assert server.statistics().connections == 0


@pytest.mark.parametrize("end", ["answered", "refused", "cancelled", "streamed"])
async def test_a_request_in_fragments_at_the_start_of_a_drain_has_begun(end, tmp_path):
    """It gets its answer, whatever that is; a drain that saw nothing open would end before."""

    class Fragments(Responder):
        async def request_response(self, payload):
            return Payload(b"%d" % len(payload.data))

        async def fire_and_forget(self, payload):
            pass

        def body_responder(self, _interaction, _metadata):
            return self if end == "streamed" else None

    class Streamed(Fragments):
        async def request_response(self, body):
            if isinstance(body, Payload):
                return await super().request_response(body)
            return Payload(b"%d" % sum([len(chunk) async for chunk in body]))

    responder = Streamed() if end == "streamed" else Fragments()
    async with raw_client(Place("tcp", tmp_path), responder) as (server, peer):
        first = RequestResponseFrame(1, data=b"x", follows=True)
        if end != "streamed":
            first = RequestResponseFrame(1, data=b"", metadata=b"m", follows=True)
        await peer.send(first, RequestResponseFrame(3, data=b"x"))
        assert (await peer.receive(PayloadFrame)).stream_id == 3
        server.stop(grace=60)
        assert code_of(await peer.receive()) == (0, ErrorCode.CONNECTION_CLOSE)
        await peer.expect_nothing()
        if end == "cancelled":
            await peer.send(CancelFrame(1))
        elif end == "refused":
            await peer.send(PayloadFrame(1, metadata=bytes(1000), next=True, follows=True))
            assert code_of(await peer.receive()) == (1, ErrorCode.INVALID)
        else:
            await peer.send(PayloadFrame(1, data=b"yz", next=True))
            answer = await peer.receive(PayloadFrame)
            assert answer.data == (b"3" if end == "streamed" else b"2")
        await peer.send(RequestResponseFrame(5, data=b"x"))
        assert code_of(await peer.receive()) == (5, ErrorCode.REJECTED)


async def test_a_flood_that_meets_a_stop(place):
    """Each request is answered, refused by the server, or by the announced end; none is lost."""
    outcomes = Counter()

    class Echo(Responder):
        async def request_response(self, payload):
            return payload

    async def ask(requester):
        for _ in range(200):
            try:
                await requester.request_response(Payload(b"x"))
                outcomes["answered"] += 1
            except (Rejected, ClosedByPeer) as error:
                outcomes[type(error).__name__] += 1

    for turns in range(8):
        async with trio.open_nursery() as nursery:
            start = partial(serve, Echo(), place.uri, ssl_context=place.server_tls)
            server = await nursery.start(start)
            async with connect(server.uris[0], ssl_context=place.client_tls) as requester:
                await flooded(server, turns, partial(ask, requester))
                reason = await requester.wait_closed()
                assert isinstance(reason, ClosedByPeer)
                assert reason.code == ErrorCode.CONNECTION_CLOSE
            with trio.fail_after(30):
                await server.aclose(grace=60)
    assert outcomes.total() == 8 * 10 * 200
    assert outcomes["answered"]


class Idle(Lifecycle):
    """The phases of a connection without streams."""

    def __init__(self):
        super().__init__(established=True, peer=lambda: "a peer")
        self.is_idle = lambda: True


async def test_a_peer_that_never_closes(autojump_clock):
    """It delays the end by `LINGER`, and no longer."""
    lifecycle = Idle()
    lifecycle.drain(trio.ClosedResourceError("stopping"), linger=LINGER)
    assert lifecycle.phase is Phase.LINGERING
    began = trio.current_time()
    await lifecycle.run_out()
    assert trio.current_time() - began == LINGER
    assert lifecycle.phase is Phase.CLOSED
    assert str(lifecycle.failure) == "stopping"


@pytest.mark.parametrize("late", [False, True])
def test_two_ends_that_both_announce_do_not_wait_for_each_other(late):
    """Who is told that the peer stops too expects no request from it, and closes at once."""
    lifecycle = Idle()
    idle = late
    lifecycle.is_idle = lambda: idle
    lifecycle.drain(trio.ClosedResourceError("stopping"), linger=LINGER)
    assert lifecycle.phase is (Phase.LINGERING if late else Phase.DRAINING)
    lifecycle.drain(ClosedByPeer("stopping too"))
    idle = True
    lifecycle.check_drained()
    assert lifecycle.phase is Phase.CLOSED
    assert str(lifecycle.failure) == "stopping"


async def test_a_refusal_with_a_large_request_behind_it(place):
    """A client that sends all before it reads is told why; a reset would destroy that."""

    async def refuse(_setup, _requester):
        await trio.sleep(0.01)
        raise RejectedSetup("not today")

    async with raw_client(place, refuse, setup=False) as (_server, peer):
        large = RequestResponseFrame(1, data=bytes(8 * 2**20))
        await peer.send(SETUP, large)
        await peer.expect_closed(ErrorCode.REJECTED_SETUP)


async def test_a_setup_that_crosses_a_stop(place):
    """The client is told of the stop, as everybody else is."""
    async with raw_client(place, Gated(), setup=False) as (server, peer):
        await trio.testing.wait_all_tasks_blocked(0.05)
        server.stop(grace=60)
        await peer.send(SETUP)
        await peer.expect_closed(ErrorCode.CONNECTION_CLOSE)


class Everything(Responder):
    """Answers each kind of request."""

    async def request_response(self, payload):
        await trio.lowlevel.checkpoint()
        return payload

    async def fire_and_forget(self, payload):
        await trio.lowlevel.checkpoint()

    async def request_stream(self, payload):
        for _ in range(3):
            yield payload

    async def request_channel(self, payload, payloads):
        async for each in payloads:
            yield each


async def ask_everything(uri):
    """Each request has its answer, or the reason that there is none; return how many had it."""
    answered = 0
    large = Payload(bytes(200_000))

    async def check(ask):
        nonlocal answered
        try:
            await ask()
            answered += 1
        except (Rejected, ClosedByPeer):
            pass

    async def read(stream, count):
        async with stream as items:
            assert len([item async for item in items]) == count

    async def tell(requester):
        await requester.fire_and_forget(large)

    try:
        async with connect(uri) as requester, trio.open_nursery() as nursery:
            for ask in (
                partial(requester.request_response, Payload(b"x")),
                partial(requester.request_response, large),
                partial(read, requester.request_stream(large, prefetch=1), 3),
                partial(read, requester.request_channel([large] * 3, prefetch=1), 3),
                partial(tell, requester),
            ):
                nursery.start_soon(check, ask)
    except (ConnectFailed, ClosedByPeer):
        pass  # the connection itself was refused, or told of the stop
    return answered


async def test_a_stop_at_every_step():
    """From before the dialling to behind the last answer: nothing is left without an outcome."""
    counts = set()
    for step in range(0, 150, 3):
        async with assert_no_leaks(), trio.open_nursery() as nursery:
            server = await nursery.start(serve, Everything(), "tcp://127.0.0.1:0")

            async def stop(server, step):
                for _ in range(step):
                    await trio.lowlevel.checkpoint()
                server.stop(grace=60)

            nursery.start_soon(stop, server, step)
            with trio.fail_after(30):
                counts.add(await ask_everything(server.uris[0]))
                await server.aclose(grace=60)
    assert {0, 5} <= counts
