"""Deadlines that travel with requests, over one hop and over three."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from rsocket_trio import (
    DEADLINE_TYPE,
    Caller,
    Canceled,
    Deadlines,
    DeadlineStatistics,
    Invalid,
    Rejected,
    Router,
    send_deadline,
    ttrpc,
)
from rsocket_trio.metadata import Metadata
from tests.routing.requests import client_of
from tests.ttrpc.scenes import pair


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
    assert deadlines.statistics() == DeadlineStatistics(rejected=0, canceled=1)
    assert "absorbed" not in caplog.text


async def test_one_that_is_too_late_is_rejected():
    """Nothing of it was processed, and the requester may know that."""
    deadlines = Deadlines()
    async with client_of(application(deadlines)) as requester:
        caller = Caller(requester)
        with pytest.raises(Rejected, match="before it was handled"):
            await caller.request_response("wait", metadata=raw(bytes(4)))
        for content in (b"", b"\0" * 5):
            with pytest.raises(Invalid, match="bytes and not 4"):
                await caller.request_response("wait", metadata=raw(content))
    assert deadlines.statistics() == DeadlineStatistics(rejected=1, canceled=0)


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
