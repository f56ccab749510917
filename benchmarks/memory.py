"""What an idle connection and an idle stream cost a server, in resident size and in objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs

from .harness import ProgramFailed, program, server_of
from .stacks import RAW_CLIENT, Stack

SETTLE = 0.3
"""Seconds for a server to finish what it was doing before its size is read."""


@attrs.frozen(kw_only=True)
class Idle:
    """One kind of idleness, and how its cost is seen.

    Attributes:
        title: What the report calls it.
        operation: The raw client's operation that brings it about.
        parameter: The operation's parameter for how many.
        count: How many.
        traced: The bytes of Python objects that tracemalloc counts, not the resident size. It
            does not depend on what the allocators keep, and only our server can tell.
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
    """Bytes that one more costs, in a fresh server that has seen a few.

    Raises:
        ProgramFailed: The server or the client gave up.
    """
    arguments = ["--traced"] if idle.traced else []
    with (
        server_of(stack, "tcp", arguments) as (server, uri),
        program([*RAW_CLIENT, uri], stack.directory) as client,
    ):

        def size_with(more: int) -> int:
            client.ask(idle.operation, **{idle.parameter: more})
            time.sleep(SETTLE)  # what is measured is at rest: there is no event to wait for
            return client.ask("traced")["count"] if idle.traced else server.resident_size()

        before = size_with(max(1, count // 100))
        return (size_with(count) - before) / count


def run_memory(
    stacks: Sequence[Stack], rounds: int, scale: float, say: Callable[[str], None]
) -> dict[str, dict[str, list[float] | str]]:
    """Measure every kind of idleness.

    Args:
        stacks: Who is measured.
        rounds: How often; a fresh server each time.
        scale: How many of the usual numbers to open.
        say: Told of progress.

    Returns:
        By title and stack: bytes per round, or why there are none.
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
