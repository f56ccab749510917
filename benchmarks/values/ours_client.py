"""The client of rsocket_trio: a `Caller`, one task per request in flight.

Its arguments are the MIME type of the data and the URI of the server.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, Final

import trio

from benchmarks.control import Stopwatch, read_command, write_outcome
from benchmarks.values.messages import ITEM, VALUES, Checked, Item, Refund, Sale
from rsocket_trio import connect
from rsocket_trio.routing import Caller

Outcome = dict[str, Any]

RETURNS: Final[dict[str, Any]] = {
    "ints": list[int],
    "checked": list[Checked],
    "union": list[Sale | Refund],
}
"""The types of the answers that are no classes."""


async def request(caller: Caller, *, seconds: float, kind: str, in_flight: int) -> Outcome:
    value = VALUES[kind]
    returns = RETURNS.get(kind, type(value))
    watch = Stopwatch(seconds)

    async def ask() -> None:
        while True:  # at least once, even if this task begins late
            answer = await caller.request_response(kind, value, returns=returns)
            watch.count += 1
            if perf_counter() >= watch.deadline:
                break
        assert answer == value

    async with trio.open_nursery() as nursery:
        for _ in range(in_flight):
            nursery.start_soon(ask)
    return watch.outcome()


async def stream(caller: Caller, *, seconds: float, items: int) -> Outcome:
    watch = Stopwatch(seconds)
    while True:
        count = 0
        async with caller.request_stream("items", items, returns=Item) as received:
            async for item in received:
                count += 1
                last = item
        assert count == items
        assert last == ITEM
        watch.count += count
        if perf_counter() >= watch.deadline:
            return watch.outcome()


OPERATIONS: Final[dict[str, Callable[..., Awaitable[Outcome]]]] = {
    "request": request,
    "stream": stream,
}


async def main(mime_type: str, uri: str) -> None:
    async with connect(uri, data_mime_type=mime_type) as requester:
        caller = Caller(requester)
        while (command := await trio.to_thread.run_sync(read_command)) is not None:
            write_outcome(await OPERATIONS[command.pop("operation")](caller, **command))


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
