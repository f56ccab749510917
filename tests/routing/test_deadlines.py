"""Deadlines that travel with requests, over one hop and over three."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from rsocket_trio import (
    DEADLINE_TYPE,
    Caller,
    Canceled,
    ConnectionConfig,
    Deadlines,
    DeadlineStatistics,
    ErrorCode,
    Invalid,
    Limits,
    Router,
    lumberjack,
    rsio,
    send_deadline,
    ttrpc,
)
from rsocket_trio.frames import (
    ErrorFrame,
    KeepaliveFrame,
    PayloadFrame,
    RequestResponseFrame,
    RequestStreamFrame,
)
from rsocket_trio.metadata import Metadata
from rsocket_trio.reactive_streams import collect
from rsocket_trio.server import serve_transport
from rsocket_trio.testing.frame_peer import FramePeer
from rsocket_trio.transports import memory_transport_pair
from tests.lumberjack.receiving import ADDRESS, full_window, sender_to
from tests.routing.requests import client_of
from tests.ttrpc.scenes import COUNT, ECHO, SERVICE, pair, request


def left():
    return trio.current_effective_deadline() - trio.current_time()


def application(deadlines, further=None):
    """Handlers that answer with the time they have, or wait for too long."""
    router = Router(middleware=[deadlines])

    @router.request_response("Demo/left")
    async def answer() -> float:
        return left() if further is None else await further()

    @router.request_response("wait")
    async def wait() -> None:
        await trio.sleep_forever()

    @router.request_stream("stream")
    async def stream() -> AsyncIterator[int]:
        yield 1
        await trio.sleep_forever()

    @router.request_stream("many")
    async def many() -> AsyncIterator[int]:
        while True:
            yield 1

    return router


async def test_it_travels_over_three_hops(autojump_clock):
    """Each handler sees what is left, and the time it has used is gone for the next one."""
    async with (
        client_of(application(Deadlines()), middleware=[send_deadline]) as third,
        client_of(application(Deadlines(), asks(third)), middleware=[send_deadline]) as second,
        client_of(application(Deadlines(), asks(second)), middleware=[send_deadline]) as first,
    ):
        with trio.fail_after(10):
            assert await asks(first)() == pytest.approx(7, abs=0.01)
        assert await Caller(third).request_response("Demo/left", returns=float) == float("inf")


def asks(requester):
    async def further():
        caller = Caller(requester)
        await trio.sleep(1 if left() != float("inf") else 0)
        return await caller.request_response("Demo/left", returns=float)

    return further


def raw(content):
    return Metadata(extra=[(DEADLINE_TYPE, content)])


async def test_what_is_left_is_at_most_that_of_the_server(autojump_clock):
    """A requester that names none, and one that names more, get that of the server."""
    deadlines = Deadlines(at_most=2)
    async with client_of(application(deadlines)) as requester:
        caller = Caller(requester)
        for metadata in (None, raw(b"\xff" * 4)):
            answer = await caller.request_response("Demo/left", returns=float, metadata=metadata)
            assert answer == 2
        answer = await caller.request_response(
            "Demo/left", returns=float, metadata=raw(b"\0\0\3\xe8")
        )
        assert answer == 1


@pytest.mark.parametrize("route", ["wait", "stream", "many"])
async def test_one_that_has_begun_is_canceled(route, autojump_clock, caplog):
    """Also a stream that waits for credit; it is counted, and no fault of the middleware."""
    deadlines = Deadlines()
    async with client_of(application(deadlines)) as requester:
        caller = Caller(requester)
        began = trio.current_time()
        with pytest.raises(Canceled, match="the deadline of the request is over"):
            if route == "wait":
                await caller.request_response(route, metadata=raw(b"\0\0\3\xe8"))
            else:
                opened = caller.request_stream(
                    route, returns=int, metadata=raw(b"\0\0\3\xe8"), prefetch=2
                )
                async with opened as items:
                    await trio.sleep(1.5)
                    async for _ in items:
                        pass
        assert trio.current_time() - began >= 1
    assert deadlines.statistics() == DeadlineStatistics(expired=0, canceled=1)
    assert "absorbed" not in caplog.text


async def test_one_that_is_too_late_is_canceled_too():
    """Its handler is not asked; no `Rejected`, as nobody waits for another try."""
    deadlines = Deadlines()
    async with client_of(application(deadlines)) as requester:
        caller = Caller(requester)
        with pytest.raises(Canceled, match="the deadline of the request is over"):
            await caller.request_response("wait", metadata=raw(bytes(4)))
        for content in (b"", b"\0" * 5):
            with pytest.raises(Invalid, match="bytes and not 4"):
                await caller.request_response("wait", metadata=raw(content))
    assert deadlines.statistics() == DeadlineStatistics(expired=1, canceled=0)


async def test_a_router_behind_ttrpc(autojump_clock):
    """Its own field is the deadline; what the handler asks for gets what is left of it."""
    async with client_of(application(Deadlines()), middleware=[send_deadline]) as requester:
        router = application(Deadlines(), asks(requester))
        here, there = pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_json, router, there)
            async with ttrpc.connect(here) as client:
                with trio.fail_after(5):
                    answer = await client.unary(ttrpc.Method.raw("Demo", "left"), b"")
            nursery.cancel_scope.cancel()
    assert float(answer) == pytest.approx(4, abs=0.01)


async def serve_json(router, stream):
    await ttrpc.serve_stream(router, stream, data_mime_type="application/json")


async def test_without_a_deadline_nothing_is_sent():
    """The entry is there only when somebody waits for a limited time."""
    seen = []

    async def record(call):
        seen.append(call.entry(DEADLINE_TYPE))
        yield

    async with client_of(application(record), middleware=[send_deadline]) as requester:
        caller = Caller(requester)
        await caller.request_response("Demo/left", returns=float)
        with trio.move_on_after(1e9):
            await caller.request_response("Demo/left", returns=float)
    assert seen == [None, b"\xff" * 4]


@pytest.mark.parametrize("wrong", [0, -1, "1", None])
def test_arguments_are_checked(wrong):
    """Where they are given."""
    with pytest.raises((TypeError, ValueError), match="at_most"):
        Deadlines(wrong)


def frames_of(kind, route="left"):
    """A request on stream 101, which has a second."""
    metadata = Metadata(route=route, extra=[(DEADLINE_TYPE, b"\0\0\3\xe8")]).encode()
    if kind == "stream":
        return [RequestStreamFrame(101, metadata=metadata, data=b"", initial_request_n=9)]
    first = RequestResponseFrame(101, metadata=metadata, data=b"", follows=kind == "fragments")
    return [first, PayloadFrame(101, data=b"", next=True)] if first.follows else [first]


@pytest.mark.parametrize("kind", ["response", "stream", "fragments"])
@pytest.mark.parametrize("waiting", [0, 1, 4])
@pytest.mark.parametrize("computing", [0.75, 3.0])
async def test_the_time_in_the_queue_counts(autojump_clock, kind, waiting, computing):
    """Counted from the handler's turn, a request behind one that computes gets more than it has.

    Behind handlers that wait, requests begin in other tasks of the connection, and in another way.
    """
    deadlines = Deadlines()
    router = Router(middleware=[deadlines])
    seen = []

    @router.request_response("compute")
    async def compute() -> None:
        autojump_clock.jump(computing)

    @router.request_response("pause")
    async def pause() -> None:
        await trio.lowlevel.checkpoint()

    @router.request_response("left")
    async def answer() -> None:
        seen.append(left())

    @router.request_stream("left")
    async def stream() -> AsyncIterator[int]:
        seen.append(left())
        yield 1

    async with frame_peer_of(router) as peer:
        before = ["pause"] * waiting + ["compute"]
        await peer.send(
            *[
                RequestResponseFrame(2 * n + 1, metadata=Metadata(route=route).encode(), data=b"")
                for n, route in enumerate(before)
            ],
            *frames_of(kind),
        )
        while (frame := await peer.receive()).stream_id != 101:
            pass
    if computing < 1:
        assert seen == [pytest.approx(1 - computing)]
    else:
        assert isinstance(frame, ErrorFrame)
        assert frame.code == ErrorCode.CANCELED
        assert not seen
    assert deadlines.statistics().expired == (computing > 1)


@asynccontextmanager
async def frame_peer_of(router, **options):
    """A client of which the test writes every frame."""
    here, there = memory_transport_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(serve_transport, router, there, **options))
        peer = FramePeer(here, cushion=0.05)
        await peer.setup(data_mime_type="application/json")
        yield peer
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("data", [b"", b"1"])
async def test_a_request_in_fragments_came_with_its_first(autojump_clock, data):
    """Also if the handler's parameters wait for the rest of the data."""
    router = Router(middleware=[Deadlines()])
    seen = []

    @router.request_response("left")
    async def answer(number: int) -> None:
        seen.append(left())

    metadata = Metadata(route="left", extra=[(DEADLINE_TYPE, b"\0\0\3\xe8")]).encode()
    async with frame_peer_of(router) as peer:
        await peer.send(RequestResponseFrame(1, metadata=metadata, data=data, follows=True))
        await trio.sleep(0.75)
        await peer.send(PayloadFrame(1, data=b"2", next=True))
        await peer.receive(PayloadFrame)
    assert seen == [pytest.approx(0.25)]


@pytest.mark.parametrize("waiting", [0, 7])
async def test_the_time_behind_a_full_outbox_counts(autojump_clock, waiting):
    """While a peer does not read its answers, requests stay in the queue of the connection.

    Frames that are read meanwhile, here a KEEPALIVE, came later than these. Behind handlers that
    wait, requests begin in another way.
    """
    deadlines = Deadlines()
    router = application(deadlines)

    @router.request_stream("large")
    async def large() -> AsyncIterator[str]:
        while True:
            yield "x" * 60_000

    config = ConnectionConfig(limits=Limits(max_outbox_size=1))
    large_items, wait = (Metadata(route=route).encode() for route in ("large", "wait"))
    async with frame_peer_of(router, config=config) as peer:
        await peer.send(
            RequestStreamFrame(1, metadata=large_items, data=b"", initial_request_n=2**31 - 1)
        )
        await peer.send(*[RequestResponseFrame(2 * n + 3, metadata=wait) for n in range(waiting)])
        await trio.sleep(1)
        await peer.send(*frames_of("response", "Demo/left"))
        await trio.sleep(2.5)
        await peer.send(KeepaliveFrame(respond=False))
        await trio.sleep(0.5)
        while (frame := await peer.receive()).stream_id != 101:
            pass
    assert isinstance(frame, ErrorFrame)
    assert frame.code == ErrorCode.CANCELED
    assert deadlines.statistics() == DeadlineStatistics(expired=1, canceled=0)


# -- other wires ------------------------------------------------------------------------------


async def two_calls(serve, kind):
    here, there = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, there)
        method = "Echo" if kind == "response" else "Count"
        await here.send_all(request(1, method) + request(3, method))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def two_over_rsio(router, kind):
    here, there = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(rsio.serve_stream, router, there)
        async with rsio.connect(here) as connection:
            name = f"{SERVICE}/{'Echo' if kind == 'response' else 'Count'}"
            for _ in range(2):
                nursery.start_soon(collect, connection.publisher(name))
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def two_over_lumberjack(router):
    async with trio.open_nursery() as nursery:
        server = await nursery.start(lumberjack.serve, router, ADDRESS)
        async with sender_to(server) as sender:
            await sender.send(full_window(1) + full_window(1))
            await sender.ack()
            await sender.ack()
        await server.aclose()


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        ("ttrpc", "response"),
        ("ttrpc", "stream"),
        ("ttrpc service", "response"),
        ("ttrpc service", "stream"),
        ("rsio", "response"),
        ("rsio", "stream"),
        ("lumberjack", "events"),
    ],
)
async def test_the_time_in_the_queue_counts_on_other_wires(wire, kind, mock_clock):
    """Each wire has a queue of its own, and notes the arrival before it."""
    deadlines = Deadlines(at_most=1)
    seen = []

    async def compute_or_tell():
        if not seen:
            mock_clock.jump(0.75)
        seen.append(left())

    router = Router(middleware=[deadlines])

    @router.request_response(f"{SERVICE}/Echo")
    async def answer() -> bytes:
        await compute_or_tell()
        return b""

    @router.request_stream(f"{SERVICE}/Count")
    async def stream() -> AsyncIterator[bytes]:
        await compute_or_tell()
        yield b""

    @router.events()
    async def events(_batch: lumberjack.Batch) -> None:
        await compute_or_tell()

    service = ttrpc.Service(SERVICE)

    async def echo(_request):
        await compute_or_tell()
        return b""

    async def count(_request):
        await compute_or_tell()
        yield b""

    service.add(ECHO, echo)
    service.add(COUNT, count)
    with trio.fail_after(60):
        match wire:
            case "ttrpc":
                await two_calls(partial(ttrpc.serve_stream, router), kind)
            case "ttrpc service":
                serve = partial(ttrpc.serve_stream, service, middleware=[deadlines])
                await two_calls(serve, kind)
            case "rsio":
                await two_over_rsio(router, kind)
            case "lumberjack":
                await two_over_lumberjack(router)
    assert seen == [pytest.approx(0.25), pytest.approx(0.25)]
