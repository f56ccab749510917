"""Measure the resident size of programs with ttrpc or gRPC: their packages, idle connections."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

from ..harness import ProgramFailed, program, server_of
from ..memory import SETTLE
from ..model import Stack
from ..report import Memory, table
from .ends import TTRPC_GROUPS

__all__ = ["NAME", "absent_lines", "memory_lines", "run_memory"]

NAME: Final = "ttrpc/memory"
"""The name for ``--only``."""

_CONNECTIONS: Final = 1000
_PACKAGES: Final = {"tt-ours": ["rsocket_trio.ttrpc"], "tt-grpc": ["grpc.aio"]}
"""The stacks that are measured, and what a program of theirs imports."""

_IMPORTED: Final = [sys.executable, "-m", "benchmarks.ttrpc.imported"]
_ROWS: Final = (
    "Python alone, MiB",
    "the package imported, MiB",
    "a server that is ready, MiB",
    "growth of the server per idle connection (of {count}), KiB",
    "growth of the client per idle connection (of {count}), KiB",
)
_UNITS: Final = (2**20, 2**20, 2**20, 2**10, 2**10)


def _size_with(stack: Stack, packages: Sequence[str]) -> int:
    """Return the resident size of a program that has imported some packages."""
    with server_of(stack, "-", command=[*_IMPORTED, *packages]) as (imported, _):
        return imported.resident_size()


def _measure(stack: Stack, count: int) -> list[float]:
    """Return the figures of one stack, in bytes, in the order of the rows.

    Raises:
        ProgramFailed: A program failed.
    """
    sizes: list[float] = [_size_with(stack, ()), _size_with(stack, _PACKAGES[stack.name])]
    with (
        server_of(stack, "unix") as (server, uri),
        program([*stack.client, uri], stack.directory) as client,
    ):
        sizes.append(server.resident_size())

        def sizes_with(connections: int) -> tuple[int, int]:
            client.ask("idle_connections", connections=connections)
            time.sleep(SETTLE)  # there is no event to wait for
            return server.resident_size(), client.resident_size()

        before = sizes_with(max(1, count // 100))
        after = sizes_with(count)
    more = count - max(1, count // 100)
    return [*sizes, *((size - first) / more for first, size in zip(before, after, strict=True))]


def run_memory(
    stacks: Sequence[Stack], rounds: int, scale: float, say: Callable[[str], None]
) -> Memory:
    """Measure the stacks in turns, each time with new programs.

    Args:
        stacks: The stacks; those of ttrpc in Python, and of gRPC, are measured.
        rounds: The number of rounds.
        scale: Factor for the number of connections.
        say: Called with texts that report progress.

    Returns:
        By row and stack: the bytes per round, or the reason why there are none.
    """
    count = max(10, int(_CONNECTIONS * scale))
    results: Memory = {title.format(count=count): {} for title in _ROWS}
    failed: dict[str, str] = {}
    say(NAME)
    for _ in range(rounds):
        for stack in stacks:
            if stack.name not in _PACKAGES or stack.name in failed:
                continue
            try:
                sizes = _measure(stack, count)
            except ProgramFailed as failure:
                failed[stack.name] = str(failure)
                continue
            for row, size in zip(results.values(), sizes, strict=True):
                values = row.setdefault(stack.name, [])
                assert isinstance(values, list)
                values.append(size)
    for row in results.values():
        row.update(failed)
    return results


def memory_lines(stacks: Sequence[Stack], memory: Memory) -> list[str]:
    """Return the section of the report."""
    present = [stack for stack in stacks if stack.name in _PACKAGES]
    if not present or not memory:
        return []
    rows = []
    for (title, row), unit in zip(memory.items(), _UNITS, strict=False):
        cells = []
        for stack in present:
            sizes = row.get(stack.name)
            if isinstance(sizes, list):
                low, middle, high = (f(sizes) / unit for f in (min, median, max))
                cells.append(f"**{middle:.1f}** ({low:.1f}..{high:.1f})")
            else:
                cells.append("–")
        rows.append([title, *cells])
    header = ["resident size", *(stack.title for stack in present)]
    return [f"## {TTRPC_GROUPS['ttrpc-memory']}", "", *table(header, rows)]


def absent_lines(stacks: Sequence[Stack], memory: Memory) -> list[str]:
    """Return the stacks whose programs failed, with the reasons."""
    failed = {
        name: value
        for row in memory.values()
        for name, value in row.items()
        if isinstance(value, str)
    }
    titles = {stack.name: stack.title for stack in stacks}
    return [
        f"* {titles[name]}, memory: {reason.splitlines()[0]}" for name, reason in failed.items()
    ]
