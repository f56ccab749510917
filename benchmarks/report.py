"""Write the results as Markdown: medians, spread, ratios, latencies, and failed cases."""

from __future__ import annotations

from collections.abc import Sequence
from operator import truediv
from statistics import median

from .cases import GROUPS
from .harness import Result
from .model import Case, Stack
from .spark.groups import SPARK_GROUPS
from .stacks import WARM_UP

Results = dict[str, dict[str, Result]]
Memory = dict[str, dict[str, list[float] | str]]

_HOW_TO_READ = "How to read this"

NOTES = [
    "* A ratio is the median of the ratios of all rounds. The stacks take turns within a round, so",
    "  other load on the machine affects both.",
    "* Every server echoes, and every stream sends prepared items, so the stack is measured.",
    "* rsocket_trio is used as in an application: `serve` with a plain `Responder`, `connect`,",
    "  one task per request in flight. rsocket-py is used with its awaitables. Its streams and",
    "  channels use publishers that send all requested items at once; this is faster than its",
    "  own generators. rsocket-js keeps requests in flight with callbacks. It does not set",
    "  TCP_NODELAY, so its streams over TCP are slow; one case sets it.",
    "* fire_and_forget sends bursts of 1000, two at a time. A request for the count follows each.",
    "  The clock stops when the server has counted all messages.",
    "* The floor sends the same bytes without a protocol, a task per request or any check.",
    "* The raw client is a plain socket that writes prepared frames, the same for every server.",
    "* The processor time of the server is the time of all its threads, user and system, during",
    "  the measurement, divided by the number of completions.",
    "* rsocket-java and rsocket-go use threads on all cores; the other stacks use one thread.",
    "* HotSpot and V8 compile while they run. So before a case is measured, it runs until the",
    f"  server of rsocket-java has used {WARM_UP['java']:g} s of processor time, and the server of",
    f"  rsocket-js {WARM_UP['js']:g} s. For all others it runs once.",
    "* rsocket-java does not copy received payloads (it uses its zero-copy payload decoder).",
    "* The client of rsocket-go uses one goroutine per request in flight.",
    "* The many connections are opened in the warm-up, so opening them is not measured.",
    "* The raw client also opens the idle connections and streams. Memory that a garbage collector",
    "  has not returned to the system counts as resident.",
    "* Typed requests: every server reads the request as a class, and answers with it. FastAPI has",
    "  pydantic's models, websockets msgspec's structs, gRPC protobuf's messages, and the others",
    "  dataclasses. uvicorn runs on asyncio's loop. Its client is aiohttp with a connection per",
    "  request in flight; the others have one connection. websockets has no routes, answers in",
    "  order, and does not compress. Streams follow each other: lines of JSON with FastAPI, and a",
    "  generator in rsocket-py, as its manual shows.",
    "* Applications: each request has a middleware that takes its time, and a dependency of its",
    "  own. grpc.aio has an interceptor, and rsocket-py a function around the handler; in both the",
    "  handler awaits what it depends on.",
    "* Lumberjack: windows of 2048 events of about 170 bytes, 2 windows in flight on a connection.",
    "  The lines are made from a seed, and 32768 of them are different. The sender writes prepared",
    "  bytes. It counts an event when it is acknowledged.",
    "* The server of rsocket_trio decodes the events in its handler. go-lumber decodes with Go's",
    "  `encoding/json`, on all cores. The programs of rsocket_trio call `gc.freeze()` after the",
    "  start. Compressed means level 3.",
    "* In a spool, batches are stored as they came. An ACK leaves when its batch is on the disk.",
    "* Each Lumberjack client encodes events from dicts or maps, unless the row says that they are",
    "  JSON texts. pylogbeat always compresses, at level 6, and has one window in flight. With",
    "  Logstash it has a connection for each window: otherwise the second one gets no ACK.",
    "* Logstash is its Beats input alone, without a pipeline; it gets events for 4 s before.",
    "* ttrpc: a message is a google.protobuf.BytesValue. Programs in Python handle it as bytes,",
    "  those of grpcio too; the programs in Go decode and encode it. Server streams have 5000",
    "  messages, and follow each other. In a bidi stream, a burst is sent, and then its echoes are",
    "  received. Containerd's ttrpc and gRPC use threads on all cores.",
    "* The memory of ttrpc: each figure is a new program. An idle connection has made one call.",
    "* rsio: the rows of a case are ways to publish and read the same elements, and the first one",
    "  takes the place of ours in the ratios. The publishers never end; a block has 64 KiB. A",
    "  publisher of elements of any size sends each as a message of its own. A callback requests",
    "  everything at once. RSocket is the case tcp/request_stream, in turns with the others.",
    "* Filebeat reads a file and adds its own fields, so its events are larger. It is started for",
    "  each measurement, and measured after its first 40000 events.",
]
"""The last section of the report."""


def number(value: float) -> str:
    """Return a rate as a short text."""
    if value >= 99_500:
        return f"{value / 1000:.0f} k"
    if value >= 9_950:
        return f"{value / 1000:.1f} k"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def cell(values: Sequence[float], unit: str) -> str:
    """Return the median and the spread."""
    return f"**{number(median(values))}**{unit} ({number(min(values))}..{number(max(values))})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> list[str]:
    """Return the lines of a Markdown table. Its first columns are texts, the others numbers."""
    rule = "|" + "---|" * texts + "---:|" * (len(header) - texts)
    lines = [f"| {' | '.join(header)} |", rule]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def ratio(ours: Sequence[float], other: Sequence[float]) -> str:
    """Return ours divided by the other: the median of the ratios of all rounds.

    Other load on the machine affects both within a round.
    """
    if not ours or not other:
        return ""
    if len(ours) != len(other):  # one of them failed in a round
        return f"{median(ours) / median(other):.2f}"
    return f"{median(map(truediv, ours, other)):.2f}"


def microseconds(values: Sequence[float]) -> str:
    """Return the median and the spread of times in seconds, in microseconds."""
    low, middle, high = (short(f(values) * 1e6) for f in (min, median, max))
    return f"**{middle}** ({low}..{high})"


def short(value: float) -> str:
    """Return microseconds with about three significant digits."""
    if value < 0.1:
        return f"{value:.4f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def group_lines(
    group: str, cases: Sequence[Case], stacks: Sequence[Stack], results: Results
) -> list[str]:
    """Return one section: a row per case and stack, each with our ratio to the stack."""
    rows = []
    end = "server"
    for case in cases:
        if case.group != group:
            continue
        row = results.get(case.name, {})
        title = case.heading
        ours = row.get(case.reference, Result())
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
        end = case.end
    processor = f"processor of the {end}, µs"
    header = ["case", "stack", "rate", "ours ÷ it", processor, "ours ÷ it"]
    lines = table(header, rows, texts=2)
    return [f"## {GROUPS[group]}", "", *lines] if rows else []


WAYS = {"tcp": "TCP", "ws": "WebSocket", "server": "TCP, raw client"}


def latency_lines(cases: Sequence[Case], stacks: Sequence[Stack], results: Results) -> list[str]:
    """Return the section with p50 and p99 of one request at a time."""
    rows = []
    for case in cases:
        if case.group not in WAYS:
            continue
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
    """Return the section with the memory per idle connection and stream."""
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
    cases: Sequence[Case],
    stacks: Sequence[Stack],
    results: Results,
    memory: Memory,
    others: Sequence[str],
) -> list[str]:
    """Return the section with the cases that were not measured, and the reasons."""
    titles = {stack.name: stack.title for stack in stacks}
    lines = list(others)
    for case in cases:
        if (reason := case.missing()) is not None:
            lines.append(f"* {case.group}, {case.heading}: {reason}")
            continue
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


def update(old: str, new: str, command: str) -> str:
    """Return an old report with the tables of a new one in the place of its own.

    Args:
        old: The old report.
        new: A report of some cases only.
        command: The command that made the new one. It stands above each of its tables.
    """
    tables = _sections(new)
    result = _sections(old)
    order = ["", *GROUPS.values(), *SPARK_GROUPS.values()]
    for heading in order[1:]:
        if lines := tables.get(heading):
            result[heading] = f"\nMade by `{command}`.\n{lines}"
    result[_HOW_TO_READ] = tables[_HOW_TO_READ]
    first = [heading for heading in order if heading in result]
    rest = [heading for heading in result if heading not in order]
    return "\n## ".join(f"{heading}\n{result[heading]}" for heading in [*first, *rest])[1:]


def _sections(report: str) -> dict[str, str]:
    """Return the texts of a report by their headings; that of its beginning is empty."""
    parts = f"\n{report}".split("\n## ")
    return {heading: text for heading, _, text in (part.partition("\n") for part in parts)}


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
    more: Sequence[str] = (),
    absent: Sequence[str] = (),
) -> str:
    """Return the whole report.

    Args:
        command: The command that made it.
        machine: What to say about the machine.
        rounds: The rounds of each case.
        seconds: The length of a measurement.
        cases: The cases.
        stacks: The stacks.
        results: Their results.
        memory: The results about memory.
        more: Further sections.
        absent: Further lines about what was not measured.
    """
    present = [stack for stack in stacks if stack.missing() is None]
    lines = [
        "# Benchmark results",
        "",
        f"Made by `{command}`. Figures are medians of {rounds} rounds. In each round every stack",
        f"runs for {seconds:g} s, after a warm-up. The smallest and the largest round follow in",
        "brackets. The column after a figure of another stack is our figure divided by it: for a",
        "rate more is better, for processor time less.",
        "Messages carry 128 bytes of data unless the case says otherwise. Client and server are",
        "separate processes on one machine, connected over the loopback interface.",
        "",
        *(f"* {line}" for line in machine),
        "",
    ]
    for group in GROUPS:
        lines += group_lines(group, cases, present, results)
    lines += more
    lines += latency_lines(cases, present, results)
    lines += memory_lines(present, memory)
    lines += absent_lines(cases, stacks, results, memory, absent)
    lines += [f"## {_HOW_TO_READ}", "", *NOTES]
    return "\n".join(lines).rstrip() + "\n"
