"""Processor time of trees of processes, from ``/proc``, by the part that used it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

SPARK: Final = "Spark"
"""The part whose tree is told apart: see `part_of`."""
JVM: Final = "JVM"
WORKERS: Final = "workers"
DRIVER: Final = "driver"

_TICKS: Final = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class _Process:
    parent: int
    own: float
    ended: float
    """The time of its children which have ended."""


def part_of(command: bytes) -> str:
    """Return the part of Spark to which a process belongs, by its command line.

    The executors of a cluster on one machine count as `JVM`, too.
    """
    if command.split(b"\0", 1)[0].rsplit(b"/", 1)[-1] == b"java":
        return JVM
    if b"pyspark.daemon\0pyspark.worker\0" in command + b"\0":
        return WORKERS
    return DRIVER


def _processes() -> dict[int, _Process]:
    found = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):  # It has ended meanwhile.
                # The name of the program stands in brackets, and may have brackets and spaces.
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                user, system, ended_user, ended_system = map(int, fields[11:15])
                found[int(path.name)] = _Process(
                    int(fields[1]),
                    (user + system) / _TICKS,
                    (ended_user + ended_system) / _TICKS,
                )
    return found


def processor_times(roots: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Return the seconds of processor time that each part has used so far.

    Args:
        roots: The first processes of each part. All processes that they have started count.
    """
    processes = _processes()
    children = defaultdict(list)
    for number, process in processes.items():
        children[process.parent].append(number)
    times: dict[str, float] = defaultdict(float)
    for name, first in roots.items():
        numbers = list(first)
        for number in numbers:
            numbers += children[number]  # The loop goes on with them.
            if number not in processes:
                continue
            part = name
            if name == SPARK:
                with suppress(OSError):  # It has ended meanwhile.
                    part = part_of(Path(f"/proc/{number}/cmdline").read_bytes())
            times[part] += processes[number].own
            # Children of the JVM are programs in Python.
            times[DRIVER if part == JVM else part] += processes[number].ended
    return dict(times)


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the processor time between two measurements, by part."""
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}
