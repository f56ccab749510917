"""CallMeter: calls by interaction, route and outcome, and what they carry.

`tests/test_any_middleware.py` compares its counts with what happened, on every wire.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator

import attrs
import pytest
import trio
import trio.testing

from rsocket_trio import Caller, CallMeter, Invalid, Peer, Router, connect, serve
from rsocket_trio.lumberjack import connect as lumberjack_connect
from rsocket_trio.lumberjack import serve as lumberjack_serve
from rsocket_trio.metadata.mime_types import MIME
from rsocket_trio.routing.stand_ins import mute_requester, setup_of
from rsocket_trio.rsio import serve as rsio_serve
from rsocket_trio.testing import cancel_everywhere, connected_pair, served
from rsocket_trio.transports.base import TransportInfo
from rsocket_trio.ttrpc import Method, Service
from rsocket_trio.ttrpc import connect as ttrpc_connect
from rsocket_trio.ttrpc import serve as ttrpc_serve
from tests.gated import LOCAL
from tests.routing.requests import request


def application(*middleware):
    router = Router(middleware=middleware)

    @router.request_response("user.{name}")
    async def user(name: str, data: bytes) -> bytes:
        if name == "none":
            raise Invalid("no such user")
        if name == "slow":
            await trio.sleep(0.3)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        return data * 2

    @router.request_stream("numbers")
    async def numbers(data: bytes) -> AsyncIterator[bytes]:
        for size in data:
            yield b"n" * size

    @router.request_channel("sum")
    async def add(items: trio.abc.ReceiveChannel[bytes]) -> AsyncIterator[bytes]:
        async for item in items:
            yield item

    @router.fire_and_forget()
    async def drop() -> None:
        pass

    return router


def found(meter):
    return {(each.interaction, each.route): each for each in meter.statistics()}


async def test_each_interaction_and_what_it_carries(autojump_clock):
    """Items and bytes of data of both directions; the templates of routes, and not their texts."""
    meter = CallMeter()
    async with connected_pair(application(meter)) as requester:
        caller = Caller(requester)
        for name in ("ada", "bob", "slow", "none"):
            with trio.move_on_after(1):
                try:
                    await caller.request_response(f"user.{name}", b"abc", returns=bytes)
                except Invalid:
                    assert name == "none"
        async with caller.request_stream("numbers", bytes([1, 2, 3]), returns=bytes) as items:
            assert [len(item) async for item in items] == [1, 2, 3]
        async with caller.request_channel("sum", [b"a", b"bc"], returns=bytes) as items:
            assert [item async for item in items] == [b"a", b"bc"]
        await requester.fire_and_forget(request(b"xyz"))
        with pytest.raises(Invalid):
            await caller.request_response("secret.7", b"abcd", returns=bytes)
        await trio.testing.wait_all_tasks_blocked()
    numbers = found(meter)
    users = numbers["request_response", "user.{name}"]
    assert {o: h.count for o, h in users.ended.items()} == {"completed": 3, "failed": 1}
    assert (users.begun, users.open, users.size_in, users.size_out) == (4, 0, 12, 18)
    slow = users.ended["completed"]
    assert slow.total == pytest.approx(0.3)
    assert slow.counts[slow.bounds.index(0.5)] == 1
    stream = numbers["request_stream", "numbers"]
    assert (stream.items_out, stream.size_out, stream.size_in) == (3, 6, 3)
    channel = numbers["request_channel", "sum"]
    assert (channel.items_in, channel.size_in) == (2, 3)
    assert (channel.items_out, channel.size_out) == (2, 3)
    assert numbers["fire_and_forget", ""].size_in == 3
    unknown = numbers["request_response", None]
    assert (unknown.begun, unknown.size_in) == (1, 4)
    assert len(numbers) == 5


async def test_100_000_routes_of_a_stranger_are_one():
    """A peer that makes up routes costs no memory."""
    meter = CallMeter()
    info = TransportInfo(scheme="memory")
    setup = attrs.evolve(
        setup_of(Peer(info), MIME.CBOR), metadata_mime_type=MIME.COMPOSITE_METADATA
    )
    bound = await Router(middleware=[meter]).accept(setup, mute_requester(info))

    async def ask(names):
        refused = 0
        for n in names:
            try:
                await bound.request_response(request(route=f"secret.{n:x}"))
            except Invalid:
                refused += 1
        return refused

    assert await ask(range(98_000)) == 98_000
    tracemalloc.start()
    try:
        assert await ask(range(98_000, 100_000)) == 2000
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 20_000
    (unknown,) = meter.statistics()
    assert (unknown.route, unknown.begun) == (None, 100_000)
    assert "secret" not in repr(unknown)


async def test_routes_of_ones_own_have_a_limit():
    """A client may build the names of routes from data; those past the limit are one."""
    ours = CallMeter(max_routes=10)
    async with served(application()) as dial, connect(dial, middleware=[ours]) as requester:
        caller = Caller(requester)
        for n in range(30):
            await caller.request_response(f"user.{n}", b"", returns=bytes)
        async with caller.request_stream("numbers", b"123", returns=bytes) as items:
            await anext(items)
    numbers = ours.statistics()
    assert len(numbers) == 12
    assert sum(each.begun for each in numbers) == 31
    assert found(ours)["request_response", None].begun == 20
    assert found(ours)["request_stream", None].items_out > 0


async def test_a_cancelled_call_is_counted_once_wherever_it_is_cancelled():
    """At each step of both ends: what has begun has ended, with one outcome."""
    meter, ours = CallMeter(), CallMeter()
    router = application(meter)

    async def scene():
        async with served(router) as dial, connect(dial, middleware=[ours]) as requester:
            caller = Caller(requester)
            await caller.request_response("user.ada", b"abc", returns=bytes)
            async with caller.request_stream("numbers", b"abc", returns=bytes) as items:
                await anext(items)

    async def check():
        for each in (*meter.statistics(), *ours.statistics()):
            assert each.open == 0
            assert each.begun == sum(histogram.count for histogram in each.ended.values())

    assert await cancel_everywhere(scene, check, every_task=True) > 20
    assert "cancelled" in found(meter)["request_response", "user.{name}"].ended


async def test_every_server_has_the_numbers():
    """On each wire, in one field of its statistics; without a meter the field is empty."""
    service = Service("demo.Words")

    @service.method("Echo")
    async def echo(request: bytes) -> bytes:
        return request * 2

    events = Router(middleware=[CallMeter()])

    @events.events
    async def take(events: list[bytes]) -> None:
        pass

    async with trio.open_nursery() as nursery:
        router = application(CallMeter())
        rsocket = await nursery.start(serve, router, LOCAL)
        async with connect(rsocket.uris[0]) as requester:
            await Caller(requester).request_response("user.ada", b"abc", returns=bytes)
        rsio = await nursery.start(rsio_serve, router, "rsio://127.0.0.1:0")
        assert rsio.statistics().by_route == rsocket.statistics().by_route
        assert [each.begun for each in rsocket.statistics().by_route] == [1]
        plain = await nursery.start(serve, application(), LOCAL)
        assert plain.statistics().by_route == ()

        async def serve_service(*, task_status):
            await ttrpc_serve(
                service, "tcp://127.0.0.1:0", middleware=[CallMeter()], task_status=task_status
            )

        ttrpc = await nursery.start(serve_service)
        async with ttrpc_connect(ttrpc.uris[0]) as client:
            await client.unary(Method.raw("demo.Words", "Echo"), b"abc")
        (calls,) = ttrpc.statistics().by_route
        assert (calls.route, calls.size_in, calls.size_out) == ("demo.Words/Echo", 3, 6)

        lumberjack = await nursery.start(lumberjack_serve, events, "lumberjack://127.0.0.1:0")
        async with lumberjack_connect(lumberjack.uris[0]) as shipper:
            await shipper.send([{"message": "one"}])
        (batches,) = lumberjack.statistics().by_route
        assert (batches.interaction, batches.route, batches.items_in) == ("events", "", 1)
        assert batches.size_in > 0
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("wrong", [0, -1, "many", True])
def test_a_limit_is_a_count(wrong):
    with pytest.raises((TypeError, ValueError), match="max_routes"):
        CallMeter(max_routes=wrong)
