"""Requests from asyncio: `asyncio_connect`, `asyncio_open`, `in_asyncio`.

Modules: rsocket_trio.portal, rsocket_trio.from_asyncio.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from functools import partial

import pytest
import trio

from rsocket_trio import Invalid, Rejected, Router, connect, serve
from rsocket_trio.blocking import blocking
from rsocket_trio.errors import ConnectFailed
from rsocket_trio.from_asyncio import asyncio_connect, asyncio_open, in_asyncio

router = Router()
seen = {}
changed = threading.Condition()


def note(what):
    with changed:
        seen[what] = seen.get(what, 0) + 1
        changed.notify_all()


async def noted(what, count=1):
    """Wait for the server, and not in the loop."""

    def wait():
        with changed:
            return changed.wait_for(lambda: seen.get(what, 0) >= count, timeout=30)

    assert await asyncio.to_thread(wait)


@router.request_response("double")
async def double(number: int) -> int:
    return 2 * number


@router.request_response("never")
async def never() -> int:
    note("begun")
    try:
        await trio.sleep_forever()
    finally:
        note("cancelled")


@router.request_response("refuse")
async def refuse() -> int:
    raise Rejected("busy")


@router.request_stream("count")
async def count(upto: int) -> AsyncIterator[int]:
    for number in range(upto):
        note("produced")
        yield number


@router.request_stream("silent")
async def silent() -> AsyncIterator[int]:
    yield 1
    try:
        await trio.sleep_forever()
    finally:
        note("cancelled")


@router.request_channel("sums")
async def sums(numbers: AsyncIterator[int]) -> AsyncIterator[int]:
    total = 0
    async for number in numbers:
        total += number
        yield total


@asynccontextmanager
async def serving(handlers=router):
    async with trio.open_nursery() as nursery:
        server = await nursery.start(serve, handlers, "tcp://127.0.0.1:0")
        yield server
        nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def uri():
    with blocking(serving) as server:
        yield server.value.uris[0]


@pytest.fixture(autouse=True)
def fresh():
    seen.clear()


def with_client(test):
    """Run a test in asyncio, with a client."""

    def run(uri):
        async def main():
            async with asyncio_connect(uri) as client:
                await test(client)

        asyncio.run(main(), debug=True)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@with_client
async def test_each_interaction(client):
    """Objects go and come, as with a `Caller`."""
    assert await client.request_response("double", 21, returns=int) == 42
    await client.fire_and_forget("nowhere")
    async with client.request_stream("count", 5, returns=int) as items:
        assert [item async for item in items] == [0, 1, 2, 3, 4]
    async with client.request_channel("sums", [1, 2, 3], returns=int) as totals:
        assert [total async for total in totals] == [1, 3, 6]
    with pytest.raises(Rejected, match="busy"):
        await client.request_response("refuse")


@with_client
async def test_cancelling_a_task_cancels_its_request(client):
    """The peer gets a CANCEL, by a cancelled task and by a timeout, and the connection goes on."""
    task = asyncio.create_task(client.request_response("never"))
    await noted("begun")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await noted("cancelled")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.request_response("never"), 0.05)
    await noted("cancelled", 2)
    assert await client.request_response("double", 1, returns=int) == 2


@with_client
async def test_cancelling_in_each_turn(client):
    """Before the call begins, and at any turn of the loop until it has ended."""
    for turns in range(40):
        task = asyncio.create_task(client.request_response("double", turns, returns=int))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            assert await task == 2 * turns
    assert await client.request_response("double", 1, returns=int) == 2
    counts = client.value.statistics()
    assert counts.open_streams == 0


@with_client
async def test_cancelling_a_read_loses_no_item(client):
    """In any turn: the next read has it."""
    got = []
    async with client.request_stream("count", 200, returns=int, prefetch=8) as items:
        while len(got) < 200:
            task = asyncio.create_task(items.receive())
            for _ in range(len(got) % 5):
                await asyncio.sleep(0)
            if len(got) % 2:
                task.cancel()
            try:
                got.append(await task)
            except asyncio.CancelledError:
                got.append(await items.receive())
    assert got == list(range(200))


@with_client
async def test_reads_that_are_cancelled_leave_nothing_behind(client):
    """A quiet stream may be read with a timeout for a year."""
    async with client.request_stream("silent", returns=int) as items:
        assert await anext(items) == 1
        sizes = []
        for _ in range(2):
            for _ in range(50):
                with suppress(TimeoutError):
                    async with asyncio.timeout(0):
                        await items.receive()
            gc.collect()
            sizes.append(sum(type(each) is asyncio.Future for each in gc.get_objects()))
        assert sizes[1] < sizes[0] + 50


@with_client
async def test_demand_is_what_is_read(client):
    """The server produces what the window allows, and no more while nobody reads."""
    async with client.request_stream("count", 100_000, returns=int, prefetch=4) as items:
        assert await anext(items) == 0
        await client.request_response("double", 1)
        assert seen["produced"] <= 6
        for expected in range(1, 100):
            assert await anext(items) == expected
        await client.request_response("double", 1)
        assert 100 <= seen["produced"] <= 106


@with_client
async def test_leaving_a_stream_cancels_it(client):
    """Also when its task is cancelled within."""

    async def read():
        async with client.request_stream("silent", returns=int) as items:
            async for _ in items:
                note("read")

    task = asyncio.create_task(read())
    await noted("read")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await noted("cancelled")


@with_client
async def test_one_task_reads_a_stream(client):
    """Another one is told."""
    async with client.request_stream("silent", returns=int) as items:
        assert await anext(items) == 1
        reader = asyncio.create_task(items.receive())
        await asyncio.sleep(0)
        with pytest.raises(trio.BusyResourceError):
            await items.receive()
        reader.cancel()


@with_client
async def test_a_channel_sends_what_asyncio_gives(client):
    """Its source runs in the loop of the caller, as credit allows, and is closed there."""
    loop = asyncio.get_running_loop()
    closed = asyncio.Event()

    async def numbers():
        try:
            for number in range(5):
                await asyncio.sleep(0)
                assert asyncio.get_running_loop() is loop
                yield number
        finally:
            closed.set()

    async with client.request_channel("sums", numbers(), returns=int) as totals:
        assert [total async for total in totals] == [0, 1, 3, 6, 10]
    await closed.wait()
    closed.clear()
    async with client.request_channel("sums", numbers(), returns=int) as totals:
        assert await anext(totals) == 0
    await closed.wait()

    async def failing():
        yield 1
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        async with client.request_channel("sums", failing(), returns=int) as totals:
            [total async for total in totals]


@with_client
async def test_thousands_of_calls(client):
    """At the same time; each has its own answer."""

    async def ask(number):
        assert await client.request_response("double", number, returns=int) == 2 * number

    await asyncio.gather(*map(ask, range(3000)))


def test_leaving_ends_calls_that_wait(uri):
    """In tasks that go on."""

    async def main():
        async with asyncio_open(partial(connect, uri)) as block:
            task = asyncio.create_task(block.run(trio.sleep_forever))
            await asyncio.sleep(0)
        with pytest.raises(trio.ClosedResourceError):
            await task
        with pytest.raises(trio.ClosedResourceError):
            await block.run(trio.sleep_forever)

    asyncio.run(main())


@with_client
async def test_a_blocked_loop_keeps_the_connection(client):
    """Keepalives are answered meanwhile, as trio has its own thread."""
    told = threading.Event()

    async def beside():
        await trio.sleep(0)
        told.set()

    task = asyncio.create_task(client.run(beside))
    await asyncio.sleep(0)
    assert told.wait(30)  # which blocks the loop
    await task


VARIABLE = ContextVar("VARIABLE", default="nothing")


@with_client
async def test_context_variables_go_along(client):
    """A call sees those of its caller, and changes none of them."""

    async def look():
        was = VARIABLE.get()
        VARIABLE.set("changed")
        return was

    VARIABLE.set("mine")
    assert await client.run(look) == "mine"
    assert VARIABLE.get() == "mine"


def test_two_loops(uri):
    """A client belongs to no loop: tasks of another one may use it."""

    async def main():
        async with asyncio_connect(uri) as client:

            def other():
                return asyncio.run(client.request_response("double", 4, returns=int))

            assert await asyncio.to_thread(other) == 8

    asyncio.run(main())


def test_a_loop_that_is_closed(uri, caplog):
    """Its tasks are gone; what they have asked for is dropped, and the client goes on."""

    async def main():
        async with asyncio_connect(uri) as client:
            gate = threading.Event()

            async def slow():
                while not gate.is_set():
                    await trio.sleep(0.001)

            async def leave_behind():
                task = asyncio.create_task(client.run(slow))
                await asyncio.sleep(0)
                task.cancel()

            await asyncio.to_thread(asyncio.run, leave_behind())
            gate.set()
            assert await client.request_response("double", 4, returns=int) == 8

    asyncio.run(main())
    assert not caplog.records


def test_errors_of_connecting():
    """They leave the block as they are, and no thread is left."""
    before = set(threading.enumerate())

    async def main():
        async with asyncio_connect("tcp://127.0.0.1:1"):
            raise AssertionError

    with pytest.raises(ConnectFailed):
        asyncio.run(main())
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


def test_cancelling_while_it_connects():
    """The dial is cancelled, and the thread ends."""
    before = set(threading.enumerate())

    @asynccontextmanager
    async def dial():
        note("dialled")
        await trio.sleep_forever()
        yield

    async def main():
        async def enter():
            async with asyncio_connect(dial):
                raise AssertionError

        task = asyncio.create_task(enter())
        await noted("dialled")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    for thread in set(threading.enumerate()) - before:
        thread.join(30)
        assert not thread.is_alive()


def test_serving_with_handlers_that_use_asyncio(uri):
    """`in_asyncio` runs a coroutine function in the loop; cancelling the request cancels it."""

    async def main():
        loop = asyncio.get_running_loop()
        ours = Router()

        async def work(number):
            assert asyncio.get_running_loop() is loop
            try:
                await asyncio.sleep(0 if number else 1000)
            except asyncio.CancelledError:
                note("task cancelled")
                raise
            if number < 0:
                raise Rejected("negative")
            return number + 1

        @ours.request_response("work")
        async def handle(number: int) -> int:
            return await in_asyncio(loop, partial(work, number))

        async with asyncio_open(partial(serving, ours)) as server:
            async with asyncio_connect(server.value.uris[0]) as client:
                assert await client.request_response("work", 1, returns=int) == 2
                with pytest.raises(Rejected, match="negative"):
                    await client.request_response("work", -1)
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.request_response("work", 0), 0.05)
                await noted("task cancelled")
                with pytest.raises(Invalid):
                    await client.request_response("nowhere")

    asyncio.run(main())


async def test_a_loop_that_is_closed_is_told():
    """`in_asyncio` raises, and leaves no coroutine that was never awaited."""
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(RuntimeError, match="closed"):
        await in_asyncio(loop, partial(asyncio.sleep, 0))
