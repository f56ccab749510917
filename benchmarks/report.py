"""The results as Markdown: medians, spread, ratios, latencies, and what could not be measured."""

from __future__ import annotations

from collections.abc import Sequence
from operator import truediv
from statistics import median

from .cases import GROUPS, Case
from .harness import Result
from .stacks import Stack

Results = dict[str, dict[str, Result]]
Memory = dict[str, dict[str, list[float] | str]]


NOTES = [
    "* Ratios are the medians of the rounds' ratios: the stacks take turns within a round, so what",
    "  else goes on in the machine meets both.",
    "* Every server echoes, every stream gives prepared items: what is measured is the stack.",
    "* rsocket_trio is used as its users do: `serve` with a plain `Responder`, `connect`, a task",
    "  per request in flight. rsocket-py likewise, with its awaitables; its streams and channels",
    "  use publishers that give all that is requested at once, which is faster than its own",
    "  generators. rsocket-js keeps requests in flight by callbacks. It does not set TCP_NODELAY,",
    "  hence its streams over TCP; one case shows it with that mended.",
    "* fire_and_forget: bursts of 1000, two at a time, each followed by a request for the count;",
    "  the clock stops when the server has counted all of them.",
    "* The floor sends the same bytes without a protocol, a task per request or any check.",
    "* The raw client is a plain socket that writes prepared frames, the same for every server.",
    "* Idle connections and streams are opened by the raw client, too.",
]
"""Closes the report."""


def number(value: float) -> str:
    """A rate, short."""
    if value >= 99_500:
        return f"{value / 1000:.0f} k"
    if value >= 9_950:
        return f"{value / 1000:.1f} k"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def cell(values: Sequence[float], unit: str) -> str:
    """The median, then the spread."""
    return f"**{number(median(values))}**{unit} ({number(min(values))}..{number(max(values))})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table; its first column is text, the others are numbers."""
    lines = [f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def ratio(ours: Result | None, other: Result | None) -> str:
    """Ours in multiples of the other: the median of the rounds' ratios.

    What shares the machine slows down minutes, not stacks; within a round both saw the same.
    """
    if ours is None or other is None or not ours.rates or not other.rates:
        return ""
    if len(ours.rates) != len(other.rates):  # one of them has lost a round
        return f"{median(ours.rates) / median(other.rates):.2f}"
    return f"{median(map(truediv, ours.rates, other.rates)):.2f}"


def group_lines(
    group: str, cases: Sequence[Case], stacks: Sequence[Stack], results: Results
) -> list[str]:
    """One section: a row per case, a column per stack, then the ratios."""
    chosen = [case for case in cases if case.group == group and case.name in results]
    if not chosen:
        return []
    present = [stack for stack in stacks if group in stack.groups]
    others = [stack for stack in present if stack.name != "ours"]
    compare = len(others) < len(present)
    header = ["case", *(stack.title for stack in present)]
    if compare:
        header += [f"ours ÷ {stack.name}" for stack in others]
    rows = []
    for case in chosen:
        row = results[case.name]
        cells = [
            cell(row[stack.name].rates, case.unit)
            if stack.name in row and row[stack.name].rates
            else "–"
            for stack in present
        ]
        if compare:
            cells += [ratio(row.get("ours"), row.get(stack.name)) for stack in others]
        rows.append([case.title, *cells])
    return [f"## {GROUPS[group]}", "", *table(header, rows)]


def latency_lines(cases: Sequence[Case], stacks: Sequence[Stack], results: Results) -> list[str]:
    """p50 and p99 of one request at a time."""
    rows = []
    for case in cases:
        for stack in stacks:
            result = results.get(case.name, {}).get(stack.name)
            if result is None or not result.latencies:
                continue
            cells = [
                f"{median(values) * 1e6:.0f} ({min(values) * 1e6:.0f}..{max(values) * 1e6:.0f})"
                for values in zip(*result.latencies, strict=True)
            ]
            rows.append([f"{case.group}, {stack.title}", *cells])
    if not rows:
        return []
    header = ["transport and stack", "p50, µs", "p99, µs"]
    return ["## Latency of request_response, one at a time", "", *table(header, rows)]


def memory_lines(stacks: Sequence[Stack], memory: Memory) -> list[str]:
    """Bytes per idle thing."""
    if not memory:
        return []
    present = [stack for stack in stacks if "server" in stack.groups]
    rows = []
    for title, row in memory.items():
        cells = []
        for stack in present:
            sizes = row.get(stack.name)
            if not isinstance(sizes, list):
                cells.append("–")
                continue
            low, middle, high = (f(sizes) / 1024 for f in (min, median, max))
            cells.append(f"**{middle:.1f}** KiB ({low:.1f}..{high:.1f})")
        rows.append([title, *cells])
    header = ["growth of the server's resident size per", *(stack.title for stack in present)]
    return ["## Memory", "", *table(header, rows)]


def absent_lines(
    cases: Sequence[Case], stacks: Sequence[Stack], results: Results, memory: Memory
) -> list[str]:
    """What has no number, and why."""
    titles = {stack.name: stack.title for stack in stacks}
    lines = []
    for case in cases:
        for name, result in results.get(case.name, {}).items():
            if result.failure is not None:
                reason = result.failure.splitlines()[0]
                lines.append(f"* {titles[name]}, {case.group}, {case.title}: {reason}")
    for title, row in memory.items():
        lines += [
            f"* {titles[name]}, memory per {title}: {sizes.splitlines()[0]}"
            for name, sizes in row.items()
            if isinstance(sizes, str)
        ]
    lines += [
        f"* {stack.title}: {missing}"
        for stack in stacks
        if (missing := stack.missing()) is not None
    ]
    return ["## Not measured", "", *lines, ""] if lines else []


def markdown(
    *,
    command: str,
    machine: Sequence[str],
    rounds: int,
    seconds: float,
    cases: Sequence[Case],
    stacks: Sequence[Stack],
    results: Results,
    memory: Memory,
) -> str:
    """The whole report."""
    present = [stack for stack in stacks if stack.missing() is None]
    lines = [
        "# Benchmark results",
        "",
        f"Made by `{command}`. Medians of {rounds} rounds, in which the stacks take turns,",
        f"{seconds:g} s each after a warm-up; in brackets the smallest and the largest round.",
        "Messages carry 128 bytes of data unless the case says otherwise. Each end is a process",
        "of its own, on one machine, over the loopback.",
        "",
        *(f"* {line}" for line in machine),
        "",
    ]
    for group in GROUPS:
        lines += group_lines(group, cases, present, results)
    lines += latency_lines(cases, present, results)
    lines += memory_lines(present, memory)
    lines += absent_lines(cases, stacks, results, memory)
    lines += ["## How to read this", "", *NOTES]
    return "\n".join(lines).rstrip() + "\n"
