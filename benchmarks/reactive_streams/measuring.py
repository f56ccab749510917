"""Measures the paths and the rules in turns, and makes the tables: `run_in_process`."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final

import attrs

from ..report import table
from ..stacks import package_version
from . import TITLE
from .paths import PATHS, reactivex_missing
from .rules import STEPS

__all__ = ["NAME", "InProcess", "absent_lines", "in_process_lines", "run_in_process"]

NAME: Final = "reactive_streams/in-process"
"""The name for ``--only``."""

_ELEMENTS: Final = 200_000


@attrs.frozen(kw_only=True)
class InProcess:
    """What was measured: seconds of processor time per source element, in each round.

    Attributes:
        ours: Of each path.
        rx: Of each path with reactivex; empty where there is none.
        steps: Of each step of the rules.
    """

    ours: Sequence[Sequence[float]]
    rx: Sequence[Sequence[float]]
    steps: Sequence[Sequence[float]]


def run_in_process(rounds: int, scale: float, say: Callable[[str], None]) -> InProcess:
    """Measure everything in each round, ours and reactivex's in turns.

    Args:
        rounds: The number of rounds.
        scale: A factor for the number of elements.
        say: Called with texts that report progress.
    """
    say(NAME)
    count = max(100, int(_ELEMENTS * scale))
    with_rx = reactivex_missing() is None
    ours: list[list[float]] = [[] for _ in PATHS]
    rx: list[list[float]] = [[] for _ in PATHS]
    steps: list[list[float]] = [[] for _ in STEPS]
    for number in range(-1, rounds):  # Python specialises its code in the first round.
        for path, mine, theirs in zip(PATHS, ours, rx, strict=True):
            kept = [(path.ours, mine)]
            if with_rx and path.rx is not None:
                kept.append((path.rx, theirs))
            for run, seconds in kept if number % 2 else reversed(kept):
                seconds.append(_seconds(run, count))
        for (_, run), seconds in zip(STEPS, steps, strict=True):
            seconds.append(_seconds(run, count))
    for each in (*ours, *rx, *steps):
        del each[:1]
    return InProcess(ours=ours, rx=rx, steps=steps)


def _seconds(run: Callable[[int], int], count: int) -> float:
    gc.collect()
    began = time.process_time()
    found = run(count)
    taken = time.process_time() - began
    assert found in (count, count // 2), f"{found} of {count} elements came out"
    return taken / count


def in_process_lines(measured: InProcess | None) -> list[str]:
    """Return the section of the report."""
    if measured is None:
        return []
    rows = []
    for path, mine, theirs in zip(PATHS, measured.ours, measured.rx, strict=True):
        rates = [_rate(mine), "–", "–"]
        if theirs:
            ratios = [there / here for here, there in zip(mine, theirs, strict=True)]
            low, middle, high = min(ratios), median(ratios), max(ratios)
            rates[1:] = [_rate(theirs), f"**{middle:.2f}** ({low:.2f}..{high:.2f})"]
        rows.append([path.title, *rates])
    header = [
        "million source elements/s",
        "rsocket_trio",
        f"reactivex {package_version('reactivex')}",
        "ratio",
    ]
    costs = []
    before = 0.0
    for (title, _), seconds in zip(STEPS, measured.steps, strict=True):
        taken = 1e9 * median(seconds)
        costs.append([title, f"{taken:.0f}", f"{taken - before:+.0f}" if before else "–"])
        before = taken
    return [
        f"## {TITLE}",
        "",
        "Processor time, medians of the rounds; the ratio is that of the rates, round by round.",
        "",
        *table(header, rows),
        "",
        "The cost of each rule: map, filter and map to a callback. Each row has the rules of the",
        "rows before it, too.",
        "",
        *table(["rule", "ns per source element", "more"], costs),
    ]


def _rate(seconds: Sequence[float]) -> str:
    return f"{1e-6 / median(seconds):.2f}"


def absent_lines(measured: InProcess | None) -> list[str]:
    """Return what was not measured, with the reason."""
    reason = reactivex_missing()
    return [] if measured is None or reason is None else [f"* reactivex: {reason}"]
