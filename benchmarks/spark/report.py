"""The tables of the Spark cases, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import Final

from benchmarks.report import cell, microseconds, ratio, table
from benchmarks.spark.bench import LOCAL
from benchmarks.spark.cases import Run, SparkCase
from benchmarks.spark.groups import LATENCY, ROWS, SCALE, SHORT, SINKS, SPARK_GROUPS, STREAMS
from benchmarks.spark.measuring import Measurement
from benchmarks.spark.processor import DRIVER, JVM, WORKERS
from benchmarks.spark.running import SparkResults
from benchmarks.stacks import package_version

__all__ = ["absent_lines", "spark_lines"]

_SPARK: Final = (JVM, WORKERS, DRIVER)
_PYTHON: Final = (WORKERS, DRIVER)

NOTES: Final = {
    STREAMS: """
        Events of 221 bytes as JSON. The clock starts before the first event is sent and stops when
        Spark has committed the batch with the last one. The query runs before, and has read some
        events. The agent sends prepared windows of 2048 events. Processor time is in µs per event,
        which is also seconds per million events. Spark's is that of all its processes; the part of
        it that is not the JVM's is Python's. A ratio is that of the first row of its case to this
        row. The `socket` source gets 16384 events at a time, because its time grows with the
        square of the size of a batch. A full spool: from the end of the first batch to the end of
        the last one. A backlog: a whole run of a query, from its start to its end.""",
    SCALE: "As above. The events are spread evenly over the collectors.",
    LATENCY: """
        The latency of an event is the time of the commit of its batch in a Parquet table, minus
        the time that the agent wrote into the event when it made it. The first one is the change
        time of the batch's file in the log of the table, `_spark_metadata`: it makes the rows
        visible to readers. The agent sends 100 events each 10 ms on one connection, compressed to
        the collector, as lines to the `socket` source.""",
    SHORT: """
        A query with `availableNow` that runs for the third time with its checkpoint: from its start
        to its end, and to its first trigger, in ms. The session is warm, the sink is `noop`, the
        events are read as they came. The trivial source asks nobody, and makes its rows.""",
    ROWS: """
        Elements have four columns and about 128 bytes as JSON. An element in Arrow has 4096 of
        these rows. `binary` and `utf8` give the bytes as one column. Two partitions, one
        responder, no sink. A batch is measured with its planning, a stream as above.""",
    SINKS: """
        A batch of such rows from two tasks, with its planning and its commit. The responder stages
        the rows on the disk.""",
}
"""What stands above each table."""


def spark_lines(cases: Sequence[SparkCase], results: SparkResults) -> list[str]:
    """Return the sections with all tables of Spark."""
    lines: list[str] = []
    for group, heading in SPARK_GROUPS.items():
        rows = [
            row
            for case in cases
            if case.group == group
            for row in _rows(case, results.get(case.name, {}))
        ]
        if rows:
            about = [_versions(), NOTES[group]] if not lines else [NOTES[group]]
            lines += [
                f"## {heading}",
                "",
                *fill(" ".join(" ".join(about).split()), 100).splitlines(),
                "",
            ]
            lines += table(_header(group), rows, texts=2)
    return lines


def _versions() -> str:
    versions = [f"{name} {package_version(name)}" for name in ("pyspark", "pyarrow")]
    return f"With {versions[0]} and {versions[1]}; the master is `{LOCAL}` if the row names none."


def absent_lines(cases: Sequence[SparkCase], results: SparkResults) -> list[str]:
    """Return a line for each run that was not measured, with the reason."""
    return [
        f"* {case.title}, {run.title}: {reason.splitlines()[0]}"
        for case in cases
        for run in case.runs
        if isinstance(reason := results.get(case.name, {}).get(run.title), str)
    ]


def _header(group: str) -> list[str]:
    if group == SHORT:
        return ["case", "stack", "run, ms", "first trigger, ms", "Spark, ms", "of it Python, ms"]
    header = ["case", "stack", "rows" if group in (ROWS, SINKS) else "events", "first ÷ it"]
    if group == LATENCY:
        header += ["p50, ms", "p99, ms"]
    if group in (ROWS, SINKS):
        header.append("responder, µs")
    else:
        header += ["agents, µs", "collectors, µs"]
    return [*header, "Spark, µs", "of it Python, µs", "first ÷ it"]


def _rows(case: SparkCase, results: Mapping[str, Sequence[Measurement] | str]) -> list[list[str]]:
    rows: list[list[str]] = []
    first: Sequence[Measurement] | None = None
    for run in case.runs:
        measured = results.get(run.title)
        if not measured or isinstance(measured, str):
            continue
        title = "" if rows else case.title
        rows.append([title, *_cells(case.group, run, measured, first)])
        first = first or (measured if run is case.runs[0] else None)
    return rows


def _cells(
    group: str, run: Run, measured: Sequence[Measurement], first: Sequence[Measurement] | None
) -> list[str]:
    def compare(value: Callable[[Measurement], float]) -> str:
        return (
            ratio([value(each) for each in first], [value(each) for each in measured])
            if first
            else ""
        )

    if group == SHORT:
        spent = [
            [sum(each.processor.get(name, 0.0) for name in names) for each in measured]
            for names in (_SPARK, _PYTHON)
        ]
        times = [[each.seconds for each in measured], [each.latencies[0] for each in measured]]
        return [run.title, *map(_milliseconds, [*times, *spent])]
    cells = [run.title, cell([_rate(each) for each in measured], "/s"), compare(_rate)]
    if group == LATENCY:
        cells += [_milliseconds([each.latencies[n] for each in measured]) for n in (0, 1)]
    others = ("responder",) if group in (ROWS, SINKS) else ("agents", "collectors")
    for names in (*((each,) for each in others), _SPARK, _PYTHON):
        cells.append(_cost_cell(measured, names))
    return [*cells, compare(lambda each: _cost(each, _SPARK))]


def _rate(measured: Measurement) -> float:
    return measured.count / measured.seconds


def _cost(measured: Measurement, names: Sequence[str]) -> float:
    """Return seconds of processor time per row. The clock of the kernel has steps of 10 ms."""
    spent = sum(measured.processor.get(name, 0.0) for name in names)
    return max(spent, 1e-9) / measured.count


def _cost_cell(measured: Sequence[Measurement], names: Sequence[str]) -> str:
    if not any(name in each.processor for name in names for each in measured):
        return ""
    return microseconds([_cost(each, names) for each in measured])


def _milliseconds(values: Sequence[float]) -> str:
    ordered = sorted(value * 1000 for value in values)
    middle = ordered[len(ordered) // 2]
    return f"**{middle:.0f}** ({ordered[0]:.0f}..{ordered[-1]:.0f})"
