"""The client of rsocket_trio: `connect` and `Requester`, as in an application."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import trio

from benchmarks.control import (
    BURST,
    COUNT,
    ITEM_SIZE,
    Stopwatch,
    read_command,
    write_outcome,
)
from rsocket_trio import Payload, Requester, connect, connect_pool
from rsocket_trio.transports import open_transport

Outcome = dict[str, Any]


async def request_response(
    requester: Requester,
    *,
    seconds: float,
    in_flight: int,
    size: int = ITEM_SIZE,
    route: str | None = None,
) -> Outcome:
    payload = Payload(b"x" * size)
    watch = Stopwatch(seconds)

    async def ask() -> None:
        while True:  # at least once, even if this task begins late
            answer = await requester.request_response(payload, route=route)
            watch.count += 1
            if perf_counter() >= watch.deadline:
                break
        assert answer is not None
        assert len(answer.data) == size

    async with trio.open_nursery() as nursery:
        for _ in range(in_flight):
            nursery.start_soon(ask)
    return watch.outcome()


async def pooled(uri: str, *, seconds: float, in_flight: int, targets: int) -> Outcome:
    """As `request_response`, by a pool of so many connections to one server."""
    dials = [partial(open_transport, uri) for _ in range(targets)]
    async with connect_pool(dials) as pool:
        while sum(each.state.value == "connected" for each in pool.targets()) < targets:  # noqa: ASYNC110 - a pool tells no event of all
            await trio.sleep(0.01)
        return await request_response(pool, seconds=seconds, in_flight=in_flight)


async def sequential(requester: Requester, *, seconds: float) -> Outcome:
    payload = Payload(b"x" * ITEM_SIZE)
    watch = Stopwatch(seconds)
    now = watch.start
    while now < watch.deadline:
        await requester.request_response(payload)
        before, now = now, perf_counter()
        watch.latencies.append(now - before)
    watch.count = len(watch.latencies)
    return watch.outcome()


async def request_stream(requester: Requester, *, seconds: float, window: int) -> Outcome:
    watch = Stopwatch(seconds)
    async with requester.request_stream(Payload(), prefetch=window) as items:
        async for _ in items:
            watch.count += 1
            if not watch.count & 31 and perf_counter() > watch.deadline:
                break
        return watch.outcome()


async def request_channel(requester: Requester, *, seconds: float, window: int) -> Outcome:
    source = itertools.repeat(Payload(b"x" * ITEM_SIZE))
    watch = Stopwatch(seconds)
    async with requester.request_channel(source, prefetch=window) as echoes:
        async for _ in echoes:
            watch.count += 1
            if not watch.count & 31 and perf_counter() > watch.deadline:
                break
        return watch.outcome()


async def fire_and_forget(requester: Requester, *, seconds: float) -> Outcome:
    payload = Payload(b"x" * ITEM_SIZE)

    async def seen() -> int:
        count = await requester.request_response(Payload(COUNT))
        assert count is not None
        return int(count.data)

    before = await seen()
    watch = Stopwatch(seconds)

    async def send() -> None:
        while True:  # at least once, even if this task begins late
            for _ in range(BURST):
                await requester.fire_and_forget(payload)
            watch.count += BURST
            await seen()
            if perf_counter() >= watch.deadline:
                break

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        nursery.start_soon(send)
    while await seen() < before + watch.count:
        await trio.lowlevel.checkpoint()
    return watch.outcome()


async def many_streams(
    requester: Requester, *, seconds: float, streams: int, items: int, window: int
) -> Outcome:
    payload = Payload(b"%d" % items)
    watch = Stopwatch(seconds)

    async def read() -> None:
        async with requester.request_stream(payload, prefetch=window) as stream:
            async for _ in stream:
                watch.count += 1

    async with trio.open_nursery() as nursery:
        for _ in range(streams):
            nursery.start_soon(read)
    assert watch.count == streams * items
    return watch.outcome()


async def many_connections(
    requesters: Sequence[Requester], *, seconds: float, connections: int
) -> Outcome:
    assert len(requesters) == connections
    payload = Payload(b"x" * ITEM_SIZE)
    watch = Stopwatch(seconds)

    async def ask(requester: Requester) -> None:
        while True:  # at least once, even if this task begins late
            await requester.request_response(payload)
            watch.count += 1
            if perf_counter() >= watch.deadline:
                break

    async with trio.open_nursery() as nursery:
        for requester in requesters:
            nursery.start_soon(ask, requester)
    return watch.outcome()


async def hold(
    uri: str, *, task_status: trio.TaskStatus[Requester] = trio.TASK_STATUS_IGNORED
) -> None:
    """Keep a connection open until cancelled."""
    async with connect(uri) as requester:
        task_status.started(requester)
        await trio.sleep_forever()


OPERATIONS: dict[str, Callable[..., Awaitable[Outcome]]] = {
    "sequential": sequential,
    "request_response": request_response,
    "request_stream": request_stream,
    "request_channel": request_channel,
    "fire_and_forget": fire_and_forget,
    "many_streams": many_streams,
}


async def main(uri: str) -> None:
    many: list[Requester] = []
    async with connect(uri) as requester, trio.open_nursery() as connections:
        while (command := await trio.to_thread.run_sync(read_command)) is not None:
            name = command.pop("operation")
            if name == "many_connections":
                while len(many) < command["connections"]:
                    many.append(await connections.start(hold, uri))
                write_outcome(await many_connections(many, **command))
            elif name == "pooled":
                write_outcome(await pooled(uri, **command))
            else:
                write_outcome(await OPERATIONS[name](requester, **command))
        connections.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
