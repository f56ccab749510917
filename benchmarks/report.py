"""The results as Markdown: medians, spread, ratios, latencies, and what could not be measured."""

from __future__ import annotations

from collections.abc import Sequence
from operator import truediv
from statistics import median

from .cases import GROUPS, Case
from .harness import Result
from .stacks import WARM_UP, Stack

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
    "* The server's processor time is what all its threads took, user and system, while what the",
    "  rate counts was asked for and answered, for each that was counted.",
    "* rsocket-java and rsocket-go run as many threads as they like on all cores; the others one.",
    "* HotSpot and V8 compile while they run. So before a case is measured, it is run until the",
    f"  server of rsocket-java has had {WARM_UP['java']:g} s of processor time and that of",
    f"  rsocket-js {WARM_UP['js']:g} s. All others run it once.",
    "* rsocket-java is used without copies of what it receives (its zero-copy payload decoder).",
    "* rsocket-go is asked by a goroutine per request in flight.",
    "* Many connections stay open from the warm-up on: opening them is not measured.",
    "* Idle connections and streams are opened by the raw client, too. What a garbage collector",
    "  has not given back counts as resident.",
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


def table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> list[str]:
    """The lines of a Markdown table; its first columns are texts, the others are numbers."""
    rule = "|" + "---|" * texts + "---:|" * (len(header) - texts)
    lines = [f"| {' | '.join(header)} |", rule]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def ratio(ours: Sequence[float], other: Sequence[float]) -> str:
    """Ours in multiples of the other: the median of the rounds' ratios.

    What shares the machine slows down minutes, not stacks; within a round both saw the same.
    """
    if not ours or not other:
        return ""
    if len(ours) != len(other):  # one of them has lost a round
        return f"{median(ours) / median(other):.2f}"
    return f"{median(map(truediv, ours, other)):.2f}"


def microseconds(values: Sequence[float]) -> str:
    """The median of seconds, then the spread."""
    low, middle, high = (short(f(values) * 1e6) for f in (min, median, max))
    return f"**{middle}** ({low}..{high})"


def short(value: float) -> str:
    """Microseconds with as many digits as mean something."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def group_lines(
    group: str, cases: Sequence[Case], stacks: Sequence[Stack], results: Results
) -> list[str]:
    """One section: a row per case and stack; beside each figure stands ours in its multiples."""
    rows = []
    for case in cases:
        if case.group != group:
            continue
        row = results.get(case.name, {})
        title = case.heading
        ours = row.get("ours", Result())
        for stack in stacks:
            result = row.get(stack.name)
            if result is None or not result.rates:
                continue
            cells = [cell(result.rates, case.unit), "", microseconds(result.costs), ""]
            if result is not ours:
                cells[1] = ratio(ours.rates, result.rates)
                cells[3] = ratio(ours.costs, result.costs)
            rows.append([title, stack.title, *cells])
            title = ""
    header = ["case", "stack", "rate", "ours ÷ it", "server's processor, µs", "ours ÷ it"]
    lines = table(header, rows, texts=2)
    return [f"## {GROUPS[group]}", "", *lines] if rows else []


WAYS = {"tcp": "TCP", "ws": "WebSocket", "server": "TCP, raw client"}


def latency_lines(cases: Sequence[Case], stacks: Sequence[Stack], results: Results) -> list[str]:
    """p50 and p99 of one request at a time."""
    rows = []
    for case in cases:
        row = results.get(case.name, {})
        way = WAYS[case.group]
        ours = [p50 for p50, _ in row["ours"].latencies] if "ours" in row else []
        for stack in stacks:
            result = row.get(stack.name)
            if result is None or not result.latencies:
                continue
            p50s, p99s = zip(*result.latencies, strict=True)
            multiple = "" if stack.name == "ours" else ratio(ours, p50s)
            rows.append([way, stack.title, microseconds(p50s), multiple, microseconds(p99s)])
            way = ""
    if not rows:
        return []
    header = ["way", "stack", "p50, µs", "ours ÷ it", "p99, µs"]
    return ["## Latency of request_response, one at a time", "", *table(header, rows, texts=2)]


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
    header = ["growth of the server per", *(stack.title for stack in present)]
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
                lines.append(f"* {titles[name]}, {case.group}, {case.heading}: {reason}")
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
        "Beside each figure of another stack stands ours in its multiples: of a rate more is",
        "better, of processor time less.",
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
