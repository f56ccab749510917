"""The client of rsocket-py: awaitables for requests, subscribers for streams."""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter
from typing import Any

from reactivestreams.publisher import DefaultPublisher
from reactivestreams.subscriber import DefaultSubscriber
from reactivestreams.subscription import DefaultSubscription
from rsocket.awaitable.awaitable_rsocket import AwaitableRSocket
from rsocket.helpers import single_transport_provider
from rsocket.payload import Payload
from rsocket.rsocket_client import RSocketClient
from rsocket.transports.tcp import TransportTCP

from benchmarks.control import (
    BURST,
    COUNT,
    ITEM_SIZE,
    Stopwatch,
    read_command,
    write_outcome,
)
from benchmarks.py_server import KEEPALIVE

Outcome = dict[str, Any]
ITEM = b"x" * ITEM_SIZE


class Counter(DefaultSubscriber):
    """Counts items. Requests more after three quarters of its window; cancels at the deadline."""

    def __init__(self, watch: Stopwatch, window: int) -> None:
        super().__init__()
        self.watch = watch
        self.batch = max(1, window * 3 // 4)
        self.consumed = 0
        self.done = asyncio.Event()

    def on_next(self, value: Payload, is_complete: bool = False) -> None:
        if self.done.is_set():
            return
        watch = self.watch
        watch.count += 1
        self.consumed += 1
        if is_complete:
            self.done.set()
        elif self.consumed >= self.batch:
            if perf_counter() > watch.deadline:
                self.done.set()
                self.subscription.cancel()
            else:
                self.subscription.request(self.consumed)
                self.consumed = 0

    def on_complete(self) -> None:
        self.done.set()


class Source(DefaultPublisher, DefaultSubscription):
    """Sends all requested items at once, until cancelled."""

    def __init__(self) -> None:
        self.open = True

    def subscribe(self, subscriber: Any) -> None:
        super().subscribe(subscriber)
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        for _ in range(n if self.open else 0):
            self._subscriber.on_next(Payload(ITEM))

    def cancel(self) -> None:
        self.open = False


async def request_response(
    client: RSocketClient, *, seconds: float, in_flight: int, size: int = ITEM_SIZE
) -> Outcome:
    awaitable = AwaitableRSocket(client)
    data = b"x" * size
    watch = Stopwatch(seconds)

    async def ask() -> None:
        while True:  # at least once, even if this task begins late
            answer = await awaitable.request_response(Payload(data))
            watch.count += 1
            if perf_counter() >= watch.deadline:
                break
        assert len(answer.data) == size

    await asyncio.gather(*(ask() for _ in range(in_flight)))
    return watch.outcome()


async def sequential(client: RSocketClient, *, seconds: float) -> Outcome:
    awaitable = AwaitableRSocket(client)
    watch = Stopwatch(seconds)
    now = watch.start
    while now < watch.deadline:
        await awaitable.request_response(Payload(ITEM))
        before, now = now, perf_counter()
        watch.latencies.append(now - before)
    watch.count = len(watch.latencies)
    return watch.outcome()


async def request_stream(client: RSocketClient, *, seconds: float, window: int) -> Outcome:
    watch = Stopwatch(seconds)
    counter = Counter(watch, window)
    client.request_stream(Payload()).initial_request_n(window).subscribe(counter)
    await counter.done.wait()
    return watch.outcome()


async def request_channel(client: RSocketClient, *, seconds: float, window: int) -> Outcome:
    watch = Stopwatch(seconds)
    counter = Counter(watch, window)
    source = Source()
    channel = client.request_channel(Payload(ITEM), source)
    channel.initial_request_n(window).subscribe(counter)
    await counter.done.wait()
    source.cancel()
    return watch.outcome()


async def fire_and_forget(client: RSocketClient, *, seconds: float) -> Outcome:
    awaitable = AwaitableRSocket(client)

    async def seen() -> int:
        return int((await awaitable.request_response(Payload(COUNT))).data)

    before = await seen()
    watch = Stopwatch(seconds)

    async def send() -> None:
        while True:  # at least once, even if this task begins late
            # An awaitable completes when its frame is written, so waiting for the last of a burst
            # is enough.
            for _ in range(BURST - 1):
                awaitable.fire_and_forget(Payload(ITEM))
            await awaitable.fire_and_forget(Payload(ITEM))
            watch.count += BURST
            await seen()
            if perf_counter() >= watch.deadline:
                break

    await asyncio.gather(send(), send())
    while await seen() < before + watch.count:
        pass
    return watch.outcome()


async def many_streams(
    client: RSocketClient, *, seconds: float, streams: int, items: int, window: int
) -> Outcome:
    watch = Stopwatch(float("inf"))

    async def read() -> None:
        counter = Counter(watch, window)
        stream = client.request_stream(Payload(b"%d" % items))
        stream.initial_request_n(window).subscribe(counter)
        await counter.done.wait()

    await asyncio.gather(*(read() for _ in range(streams)))
    assert watch.count == streams * items
    return watch.outcome()


async def many_connections(
    clients: Sequence[RSocketClient], *, seconds: float, connections: int
) -> Outcome:
    assert len(clients) == connections
    watch = Stopwatch(seconds)

    async def ask(client: RSocketClient) -> None:
        awaitable = AwaitableRSocket(client)
        while True:  # at least once, even if this task begins late
            await awaitable.request_response(Payload(ITEM))
            watch.count += 1
            if perf_counter() >= watch.deadline:
                break

    await asyncio.gather(*(ask(client) for client in clients))
    return watch.outcome()


OPERATIONS = {
    "sequential": sequential,
    "request_response": request_response,
    "request_stream": request_stream,
    "request_channel": request_channel,
    "fire_and_forget": fire_and_forget,
    "many_streams": many_streams,
}


@asynccontextmanager
async def connect(uri: str, options: dict[str, Any]) -> Any:
    if uri.startswith("ws:"):
        from rsocket.transports.aiohttp_websocket import websocket_client  # needs aiohttp

        async with websocket_client(uri, **options) as client:
            yield client
    else:
        streams = await asyncio.open_connection("127.0.0.1", int(uri.rpartition(":")[2]))
        provider = single_transport_provider(TransportTCP(*streams))
        async with RSocketClient(provider, **options) as client:
            yield client


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri")
    parser.add_argument("--fragment-size", type=int)
    arguments = parser.parse_args()
    options = KEEPALIVE | {"fragment_size_bytes": arguments.fragment_size}
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as opened:

        async def connected() -> RSocketClient:
            return await opened.enter_async_context(connect(arguments.uri, options))

        client, many = await connected(), []
        while (command := await loop.run_in_executor(None, read_command)) is not None:
            name = command.pop("operation")
            if name == "many_connections":
                while len(many) < command["connections"]:
                    many.append(await connected())
                write_outcome(await many_connections(many, **command))
            else:
                write_outcome(await OPERATIONS[name](client, **command))


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(main())
