"""Measure the memory of idle connections and streams in a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs

from .harness import ProgramFailed, program, server_of
from .model import Stack
from .stacks import RAW_CLIENT

SETTLE = 0.3
"""Seconds that a server has to finish its work before its size is read."""


@attrs.frozen(kw_only=True)
class Idle:
    """An idle object, and how to measure its memory.

    Attributes:
        title: The title in the report.
        operation: The operation of the raw client that opens the objects.
        parameter: The parameter of the operation for their number.
        count: The number of objects.
        traced: Measure the Python objects with tracemalloc, not the resident size. The result does
            not depend on memory that the allocators keep. Only our server supports it.
    """

    title: str
    operation: str
    parameter: str
    count: int
    traced: bool = False


IDLES = [
    Idle(
        title="idle connection (of {count})",
        operation="idle_connections",
        parameter="connections",
        count=1000,
    ),
    Idle(
        title="idle open stream (of {count} on one connection)",
        operation="idle_streams",
        parameter="streams",
        count=10_000,
    ),
    Idle(
        title="the same stream, by tracemalloc",
        operation="idle_streams",
        parameter="streams",
        count=10_000,
        traced=True,
    ),
]


def measure_idle(stack: Stack, idle: Idle, count: int) -> float:
    """Return the bytes per object, in a new server that has opened a few objects before.

    Raises:
        ProgramFailed: The server or the client failed.
    """
    arguments = ["--traced"] if idle.traced else []
    with (
        server_of(stack, "tcp", arguments) as (server, uri),
        program([*RAW_CLIENT, uri], stack.directory) as client,
    ):

        def size_with(more: int) -> int:
            client.ask(idle.operation, **{idle.parameter: more})
            time.sleep(SETTLE)  # there is no event to wait for
            return client.ask("traced")["count"] if idle.traced else server.resident_size()

        before = size_with(max(1, count // 100))
        return (size_with(count) - before) / count


def run_memory(
    stacks: Sequence[Stack], rounds: int, scale: float, say: Callable[[str], None]
) -> dict[str, dict[str, list[float] | str]]:
    """Measure the memory of all kinds of idle objects.

    Args:
        stacks: The stacks.
        rounds: The number of rounds, each with a new server.
        scale: Factor for the number of objects.
        say: Called with texts that report progress.

    Returns:
        By title and stack: the bytes per round, or the reason why there are none.
    """
    results: dict[str, dict[str, list[float] | str]] = {}
    for idle in IDLES:
        count = max(10, int(idle.count * scale))
        title = idle.title.format(count=count)
        say(f"memory: {title}")
        row = results[title] = {}
        for stack in stacks:
            if "server" not in stack.groups or (idle.traced and stack.family != "ours"):
                continue
            try:
                row[stack.name] = [measure_idle(stack, idle, count) for _ in range(rounds)]
            except ProgramFailed as failure:
                row[stack.name] = str(failure)
    return results
