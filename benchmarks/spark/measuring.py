"""Measures one query: its rate, and the processor time of each part."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from benchmarks.spark.latency import latencies
from benchmarks.spark.processor import SPARK, processor_times, spent

if TYPE_CHECKING:
    from benchmarks.harness import Program
    from benchmarks.spark.bench import Bench
    from benchmarks.spark.sources import Feed, Opened, PacedFeed

__all__ = ["Clock", "Measurement", "Query", "run_batch", "run_drain", "run_paced", "run_stream"]


@attrs.frozen(kw_only=True)
class Measurement:
    """What one run gave.

    Attributes:
        count: The rows or events.
        seconds: How long they took.
        processor: Seconds of processor time, by part.
        latencies: [p50, p99] in seconds, if they were measured; of a short run the times to its
            first trigger and to its end.
    """

    count: int
    seconds: float
    processor: Mapping[str, float]
    latencies: Sequence[float] = ()


@attrs.frozen(kw_only=True)
class Query:
    """What Spark does with the rows of a source.

    Attributes:
        schema: The schema that the reader is given.
        select: SQL expressions behind it, step by step.
        sink: The format of the sink.
        sink_options: Options of the sink.
    """

    schema: str | None = None
    select: Sequence[Sequence[str]] = ()
    sink: str = "noop"
    sink_options: Mapping[str, str] = attrs.field(factory=dict)

    def command(self) -> dict[str, Any]:
        """Return its part of a command for the Spark application."""
        return attrs.asdict(self)


def _start(spark: Program, opened: Opened, query: Query, directory: object) -> None:
    spark.ask(
        "start",
        source=opened.source,
        options=dict(opened.options),
        directory=str(directory),
        **query.command(),
    )


class Clock:
    """Measures from now on."""

    def __init__(self, spark: Program, roots: Mapping[str, Sequence[int]]) -> None:
        self._roots: Final = {SPARK: [spark.process.pid], **roots}
        self._before: Final = processor_times(self._roots)
        self.begun: Final = time.time()

    def measured(
        self,
        count: int,
        ended: float,
        begun: float | None = None,
        latencies: Sequence[float] = (),
    ) -> Measurement:
        """Return what was measured."""
        begun = self.begun if begun is None else begun
        used = spent(self._before, processor_times(self._roots))
        return Measurement(count=count, seconds=ended - begun, processor=used, latencies=latencies)


def _check(rows: int, events: int) -> None:
    if rows != events:
        raise AssertionError(f"there are {rows} rows of {events} events")


def run_stream(bench: Bench, master: str, feed: Feed, query: Query, events: int) -> Measurement:
    """Start a query, let it read some events, and measure how long it needs for many.

    The clock starts before the first event is sent, and ends when Spark has committed the batch
    with the last one.
    """
    spark = bench.spark(master)
    with bench.directory() as directory, feed.opened(bench) as opened:
        _start(spark, opened, query, directory)
        try:
            opened.begin()
            sent = opened.send(min(events, bench.first))
            spark.ask("rows", count=sent)
            clock, warm = Clock(spark, opened.roots), sent
            while sent < warm + events:
                sent += opened.send(min(warm + events - sent, opened.most))
                outcome = spark.ask("rows", count=sent)
            measured = clock.measured(sent - warm, outcome["ended"])
        finally:
            spark.ask("stop")
    _check(outcome["count"], sent)
    return measured


def run_drain(bench: Bench, master: str, feed: Feed, query: Query, events: int) -> Measurement:
    """Measure how fast Spark reads what is there already, after its first batch with rows."""
    spark = bench.spark(master)
    with bench.directory() as directory, feed.opened(bench) as opened:
        opened.begin()
        sent = sum(opened.send(opened.most) for _ in range(max(2, -(-events // opened.most))))
        _start(spark, opened, query, directory)
        try:
            first = spark.ask("rows", count=1)
            clock = Clock(spark, opened.roots)
            outcome = spark.ask("rows", count=sent)
            count = sent - first["count"]
            if not count:
                raise AssertionError("the first batch had all events: there is nothing to measure")
            measured = clock.measured(count, outcome["ended"], first["ended"])
        finally:
            spark.ask("stop")
    _check(outcome["count"], sent)
    return measured


def run_paced(
    bench: Bench, master: str, feed: PacedFeed, query: Query, rate: int, seconds: float
) -> Measurement:
    """Send events at a steady rate, and measure when they are in a Parquet table.

    The latency of an event is the time of the commit of its batch in the table, without the time
    when the event was made.
    """
    spark = bench.spark(master)
    with bench.directory() as directory, feed.opened(bench) as opened:
        _start(spark, opened, attrs.evolve(query, sink="parquet"), directory)
        try:
            opened.begin()
            sent = opened.pace(rate, min(seconds, 2.0))
            spark.ask("rows", count=sent)
            clock, warm = Clock(spark, opened.roots), sent
            sent += opened.pace(rate, seconds)
            outcome = spark.ask("rows", count=sent)
            measured = clock.measured(sent - warm, outcome["ended"])
        finally:
            spark.ask("stop")
        found = latencies(directory / "table", clock.begun)
    _check(found.rows, sent - warm)
    return attrs.evolve(measured, latencies=[found.p50, found.p99])


def run_batch(
    spark: Program, command: Mapping[str, Any], rows: int, roots: Mapping[str, Sequence[int]]
) -> Measurement:
    """Measure a batch query with so many rows."""
    clock = Clock(spark, roots)
    outcome = spark.ask("batch", **command)
    return clock.measured(rows, clock.begun + outcome["elapsed"])
