"""The rsio client: reads the elements of one publisher in one way.

Its arguments are the publisher, the way, and the address.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import trio

from benchmarks.control import Stopwatch, read_command, write_outcome
from rsocket_trio import rsio
from rsocket_trio.reactive_streams import MAX_DEMAND, Subscription

Outcome = dict[str, Any]


async def blocks(
    publisher: rsio.RemotePublisher, watch: Stopwatch, window: int, limit: int | None
) -> None:
    """Read as many elements as arrive together, as one object."""
    async with publisher.open_packed(window, limit=limit) as packed:
        async for block in packed:
            watch.count += block.count
            if perf_counter() > watch.deadline:
                break


async def elements(
    publisher: rsio.RemotePublisher, watch: Stopwatch, window: int, limit: int | None
) -> None:
    """Read the elements one by one."""
    async with publisher.open(window, limit=limit) as stream:
        async for _ in stream:
            watch.count += 1
            if not watch.count & 31 and perf_counter() > watch.deadline:
                break


class Callback:
    """A subscriber that counts, and requests everything at once."""

    def __init__(self, watch: Stopwatch, demand: int) -> None:
        self.over = trio.Event()
        self._watch = watch
        self._demand = demand

    def on_subscribe(self, subscription: Subscription, /) -> None:
        self._subscription = subscription
        subscription.request(self._demand)

    def on_next(self, element: bytes, /) -> None:
        watch = self._watch
        watch.count += 1
        late = not watch.count & 31 and perf_counter() > watch.deadline
        if late or watch.count == self._demand:
            self._subscription.cancel()
            self.over.set()

    def on_error(self, error: Exception, /) -> None:
        raise error

    def on_complete(self) -> None:
        self.over.set()


async def callback(
    publisher: rsio.RemotePublisher, watch: Stopwatch, window: int, limit: int | None
) -> None:
    """Let each element call a function. The demand has no limit, and so no window."""
    subscriber = Callback(watch, limit or MAX_DEMAND)
    publisher.subscribe(subscriber)
    await subscriber.over.wait()


READERS: dict[
    str, Callable[[rsio.RemotePublisher, Stopwatch, int, int | None], Awaitable[None]]
] = {"blocks": blocks, "elements": elements, "callback": callback}


async def main(name: str, reader: str, uri: str) -> None:
    async with rsio.connect(uri) as connection:
        await connection.wait_ready()
        publisher = connection.publisher(name)
        read = READERS[reader]

        async def request_stream(*, seconds: float, window: int) -> Outcome:
            watch = Stopwatch(seconds)
            await read(publisher, watch, window, None)
            return watch.outcome()

        async def octets(*, elements: int, window: int) -> Outcome:
            """Read so many elements; count the octets of both directions."""
            before = connection.statistics()
            watch = Stopwatch(3600)
            await read(publisher, watch, window, elements)
            assert watch.count == elements
            after = connection.statistics()
            sent = after.sent_size - before.sent_size
            received = after.received_size - before.received_size
            return {**watch.outcome(), "octets": sent + received}

        operations: dict[str, Callable[..., Awaitable[Outcome]]] = {
            "request_stream": request_stream,
            "octets": octets,
        }
        while (command := await trio.to_thread.run_sync(read_command)) is not None:
            write_outcome(await operations[command.pop("operation")](**command))


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
