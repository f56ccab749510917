"""What the clients on asyncio share: requests in flight, streams, and commands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from time import perf_counter
from typing import Any

from benchmarks.control import Stopwatch, read_command, write_outcome

__all__ = ["obey"]


async def _request(
    ask: Callable[[], Awaitable[Any]], value: Any, seconds: float, in_flight: int
) -> dict[str, Any]:
    watch = Stopwatch(seconds)

    async def repeat() -> None:
        while True:  # at least once, even if this task begins late
            answer = await ask()
            watch.count += 1
            if perf_counter() >= watch.deadline:
                break
        assert answer == value

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(repeat())
    return watch.outcome()


async def _stream(
    read: Callable[[int], AsyncIterable[Any]], item: Any, seconds: float, items: int
) -> dict[str, Any]:
    watch = Stopwatch(seconds)
    while True:
        count = 0
        async for received in read(items):
            count += 1
            last = received
        assert count == items
        assert last == item
        watch.count += count
        if perf_counter() >= watch.deadline:
            return watch.outcome()


async def obey(
    asker: Callable[[str], Awaitable[tuple[Callable[[], Awaitable[Any]], Any]]],
    read: Callable[[int], AsyncIterable[Any]],
    item: Any,
) -> None:
    """Carry out the commands until the last one.

    Args:
        asker: Returns, for a kind of request, a function that sends one and returns the answer, and
            what the answer should be.
        read: Returns as many items of a stream.
        item: What each item should be.
    """
    while (command := await asyncio.to_thread(read_command)) is not None:
        seconds = command["seconds"]
        if command["operation"] == "stream":
            outcome = await _stream(read, item, seconds, command["items"])
        else:
            ask, value = await asker(command["kind"])
            outcome = await _request(ask, value, seconds, command["in_flight"])
        write_outcome(outcome)
