"""Runs of a stream with ``availableNow``: over nothing, a window of events, or a backlog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from benchmarks.lumberjack.lines import WINDOW
from benchmarks.spark.measuring import Clock, Measurement, Query
from benchmarks.spark.sources import Prepared

if TYPE_CHECKING:
    from benchmarks.spark.bench import Bench

__all__ = ["measure_backlog", "measure_short", "measure_trivial"]

_RAW = Query()


def _run(
    bench: Bench,
    master: str,
    source: str,
    options: Mapping[str, str],
    directory: object,
    query: Query = _RAW,
) -> tuple[Measurement, int]:
    spark = bench.spark(master)
    clock = Clock(spark, {})
    outcome = spark.ask(
        "once", source=source, options=dict(options), directory=str(directory), **query.command()
    )
    ended = clock.begun + outcome["elapsed"]
    return clock.measured(1, ended, latencies=[outcome["first"], outcome["elapsed"]]), outcome[
        "count"
    ]


def measure_short(bench: Bench, master: str, windows: int) -> Measurement:
    """Measure a run over so many new windows of events, after two others."""
    with bench.directory() as directory, Prepared().opened(bench) as opened:
        for new in (1, 1, windows):
            sent = opened.send(new * WINDOW) if new else 0
            measured, rows = _run(bench, master, opened.source, opened.options, directory)
            if rows != sent:
                raise AssertionError(f"there are {rows} rows of {sent} events")
    return measured


def measure_trivial(bench: Bench, master: str, windows: int) -> Measurement:
    """Measure the same of a source that asks nobody."""
    with bench.directory() as directory:
        for total in (1, 2, 2 + windows):
            options = {"events": str(total * WINDOW)}
            measured, _ = _run(bench, master, "trivial", options, directory)
    return measured


def measure_backlog(
    bench: Bench, master: str, query: Query, level: int, events: int
) -> Measurement:
    """Measure a run over a backlog, with its start and its end, after one over a window."""
    with bench.directory() as directory, Prepared(level=level).opened(bench) as opened:
        for wanted in (WINDOW, events):
            sent = opened.send(wanted)
            measured, rows = _run(bench, master, opened.source, opened.options, directory, query)
            if rows != sent:
                raise AssertionError(f"there are {rows} rows of {sent} events")
    return attrs.evolve(measured, count=sent, latencies=())
