"""The Lumberjack client of rsocket_trio: some tasks, each sends a window and waits for its ACK.

isal is used only with ``--fast``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import cycle
from time import perf_counter
from typing import Any

import trio

from benchmarks.lumberjack.accelerators import hide_unless_fast

hide_unless_fast()

from benchmarks.control import Stopwatch, read_command, write_outcome
from benchmarks.lumberjack.lines import event_windows, text_windows
from rsocket_trio.errors import RSocketError
from rsocket_trio.lumberjack import ShipperConfig, connect

Windows = Iterator[list[Mapping[str, Any]]] | Iterator[list[bytes]]


async def ship(uri: str, watch: Stopwatch, windows: Windows, *, level: int, in_flight: int) -> None:
    """Send until the deadline, on one connection."""
    config = ShipperConfig(
        compression_level=level, pipelining=in_flight, initial_window=2048, max_window=2048
    )

    async def send_windows() -> None:
        while perf_counter() < watch.deadline:
            events = next(windows)
            await shipper.send(events)
            watch.count += len(events)

    async with connect(uri, config=config) as shipper, trio.open_nursery() as nursery:
        for _ in range(in_flight + 1):  # One more, so that a window waits while others are sent.
            nursery.start_soon(send_windows)


async def main() -> None:
    uri = sys.argv[-1].replace("tcp://", "lumberjack://")
    events, texts = cycle(event_windows()), cycle(text_windows())
    while (command := await trio.to_thread.run_sync(read_command)) is not None:
        windows = texts if command["texts"] else events
        watch = Stopwatch(command["seconds"])
        try:
            await ship(uri, watch, windows, level=command["level"], in_flight=command["windows"])
        except (OSError, RSocketError) as error:
            write_outcome({"error": f"{type(error).__name__}: {error}"})
        else:
            write_outcome(watch.outcome())


if __name__ == "__main__":
    trio.run(main)
