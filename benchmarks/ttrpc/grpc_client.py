"""The client of grpcio, with asyncio; messages are bytes, one task per call in flight."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Any

import grpc

from benchmarks.control import Stopwatch, read_command, write_outcome
from benchmarks.ttrpc.messages import ITEM, SERVICE, wrap

Outcome = dict[str, Any]


async def sequential(channel: grpc.aio.Channel, *, seconds: float) -> Outcome:
    call = channel.unary_unary(f"/{SERVICE}/Unary")
    watch = Stopwatch(seconds)
    now = watch.start
    while now < watch.deadline:
        await call(ITEM)
        before, now = now, perf_counter()
        watch.latencies.append(now - before)
    watch.count = len(watch.latencies)
    return watch.outcome()


async def unary(channel: grpc.aio.Channel, *, seconds: float, in_flight: int) -> Outcome:
    call = channel.unary_unary(f"/{SERVICE}/Unary")
    watch = Stopwatch(seconds)

    async def ask() -> None:
        while True:  # at least once, even if this task begins late
            answer = await call(ITEM)
            watch.count += 1
            if perf_counter() >= watch.deadline:
                break
        assert answer == ITEM

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(ask())
    return watch.outcome()


async def server_stream(channel: grpc.aio.Channel, *, seconds: float, items: int) -> Outcome:
    call = channel.unary_stream(f"/{SERVICE}/Items")
    request = wrap(b"%d" % items)
    watch = Stopwatch(seconds)
    while True:
        count = 0
        async for _ in call(request):
            count += 1
        assert count == items
        watch.count += count
        if perf_counter() >= watch.deadline:
            return watch.outcome()


async def bidi_stream(channel: grpc.aio.Channel, *, seconds: float, burst: int) -> Outcome:
    watch = Stopwatch(seconds)
    call = channel.stream_stream(f"/{SERVICE}/Echo")()
    while True:
        for _ in range(burst):
            await call.write(ITEM)
        for _ in range(burst):
            await call.read()
        watch.count += burst
        if perf_counter() >= watch.deadline:
            break
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    return watch.outcome()


OPERATIONS: dict[str, Callable[..., Awaitable[Outcome]]] = {
    "sequential": sequential,
    "request_response": unary,
    "server_stream": server_stream,
    "bidi_stream": bidi_stream,
}

OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
"""Otherwise channels to one address share a connection."""


async def main(uri: str) -> None:
    idle = 0
    async with grpc.aio.insecure_channel(uri) as channel, AsyncExitStack() as channels:
        while (command := await asyncio.to_thread(read_command)) is not None:
            name = command.pop("operation")
            if name == "idle_connections":
                for _ in range(command["connections"] - idle):
                    another = grpc.aio.insecure_channel(uri, options=OWN_CONNECTION)
                    await channels.enter_async_context(another)
                    await another.unary_unary(f"/{SERVICE}/Unary")(ITEM)
                    idle += 1
                write_outcome({"count": idle})
            else:
                write_outcome(await OPERATIONS[name](channel, **command))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
