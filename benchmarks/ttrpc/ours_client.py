"""The ttrpc client of rsocket_trio: `connect` and `Client`, one task per call in flight."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import trio

from benchmarks.control import Stopwatch, read_command, write_outcome
from benchmarks.ttrpc.messages import ITEM, SERVICE, wrap
from rsocket_trio.ttrpc import Client, Method, MethodKind, connect

Outcome = dict[str, Any]

UNARY = Method.raw(SERVICE, "Unary")
ITEMS = Method.raw(SERVICE, "Items", MethodKind.SERVER_STREAM)
ECHO = Method.raw(SERVICE, "Echo", MethodKind.BIDI_STREAM)


async def sequential(client: Client, *, seconds: float) -> Outcome:
    watch = Stopwatch(seconds)
    now = watch.start
    while now < watch.deadline:
        await client.unary(UNARY, ITEM)
        before, now = now, perf_counter()
        watch.latencies.append(now - before)
    watch.count = len(watch.latencies)
    return watch.outcome()


async def unary(client: Client, *, seconds: float, in_flight: int) -> Outcome:
    watch = Stopwatch(seconds)

    async def ask() -> None:
        while True:  # at least once, even if this task begins late
            answer = await client.unary(UNARY, ITEM)
            watch.count += 1
            if perf_counter() >= watch.deadline:
                break
        assert answer == ITEM

    async with trio.open_nursery() as nursery:
        for _ in range(in_flight):
            nursery.start_soon(ask)
    return watch.outcome()


async def server_stream(client: Client, *, seconds: float, items: int) -> Outcome:
    """Ask for one stream after the other: the protocol cannot end one early."""
    request = wrap(b"%d" % items)
    watch = Stopwatch(seconds)
    while True:
        count = 0
        async with client.server_stream(ITEMS, request) as replies:
            async for _ in replies:
                count += 1
        assert count == items
        watch.count += count
        if perf_counter() >= watch.deadline:
            return watch.outcome()


async def bidi_stream(client: Client, *, seconds: float, burst: int) -> Outcome:
    """Send a burst, and receive its echoes, again and again."""
    watch = Stopwatch(seconds)
    async with client.bidi_stream(ECHO) as call:
        while True:
            for _ in range(burst):
                await call.send(ITEM)
            for _ in range(burst):
                await anext(call)
            watch.count += burst
            if perf_counter() >= watch.deadline:
                break
        await call.end()
        assert [item async for item in call] == []
    return watch.outcome()


OPERATIONS: dict[str, Callable[..., Awaitable[Outcome]]] = {
    "sequential": sequential,
    "request_response": unary,
    "server_stream": server_stream,
    "bidi_stream": bidi_stream,
}


async def hold(uri: str, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Make a call on a new connection, and keep it open until cancelled."""
    async with connect(uri) as client:
        await client.unary(UNARY, ITEM)
        task_status.started()
        await trio.sleep_forever()


async def main(uri: str) -> None:
    idle = 0
    async with connect(uri) as client, trio.open_nursery() as connections:
        while (command := await trio.to_thread.run_sync(read_command)) is not None:
            name = command.pop("operation")
            if name == "idle_connections":
                while idle < command["connections"]:
                    await connections.start(hold, uri)
                    idle += 1
                write_outcome({"count": idle})
            else:
                write_outcome(await OPERATIONS[name](client, **command))
        connections.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
