"""The cases of ``format("rsocket")``, and those of the sinks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.spark.elements import SCHEMA, rows_of
from benchmarks.spark.measuring import Measurement, Query, run_batch, run_stream

if TYPE_CHECKING:
    from benchmarks.harness import Program
    from benchmarks.spark.bench import Bench
    from benchmarks.spark.sources import Opened

__all__ = ["measure_batch", "measure_replay", "measure_sink"]

_PARTITIONS: Final = 2
_DECODED: Final = ("json", "cbor", "arrow")
_ROWS: Final = [
    "number",
    "concat('host-', number % 1000) AS name",
    "number / 7 AS share",
    "rpad(cast(number AS STRING), 64, 'x') AS note",
]
"""Rows as those of the sources, and cheap to make."""


def _schema(name: str) -> str | None:
    return SCHEMA if name in _DECODED else None


def _options(name: str, uri: str, route: str) -> dict[str, str]:
    return {"uri": uri, "route": route, "payloadFormat": name}


def measure_batch(bench: Bench, master: str, name: str, rows: int) -> Measurement:
    """Measure a batch read of two partitions."""
    spark = bench.spark(master)
    responder, uri = bench.responder
    roots = {"responder": [responder.process.pid]}

    def command(wanted: int) -> tuple[dict[str, object], int]:
        limit = max(1, wanted // rows_of(name) // _PARTITIONS)
        options = _options(name, uri, f"batch.{name}") | {
            "numPartitions": str(_PARTITIONS),
            "limit": str(limit),
        }
        read = {"source": "rsocket", "options": options, "schema": _schema(name)}
        return read, limit * rows_of(name) * _PARTITIONS

    first, expected = command(min(rows, bench.first))
    if (count := spark.ask("count", **first)["count"]) != expected:
        raise AssertionError(f"{count} rows instead of {expected}")
    read, expected = command(rows)
    return run_batch(spark, {**read, "sink": "noop"}, expected, roots)


class _OpenReplay:
    source = "rsocket"
    most = 10**9

    def __init__(self, responder: Program, uri: str, name: str) -> None:
        options = {"delivery": "replay", "minPartitions": str(_PARTITIONS)}
        self.options: Final[Mapping[str, str]] = _options(name, uri, f"replay.{name}") | options
        self.roots: Final = {"responder": [responder.process.pid]}
        self._responder: Final = responder
        self._name: Final = name

    def begin(self) -> None:
        """Nothing is to be done."""

    def send(self, events: int) -> int:
        """Let the responder have more elements."""
        outcome = self._responder.ask("grow", format=self._name, rows=events)
        return int(outcome["count"])


@attrs.frozen
class _Replay:
    name: str

    @contextmanager
    def opened(self, bench: Bench) -> Iterator[Opened]:
        """Begin without elements."""
        responder, uri = bench.responder
        responder.ask("empty", format=self.name)
        yield _OpenReplay(responder, uri, self.name)


def measure_replay(bench: Bench, master: str, name: str, rows: int) -> Measurement:
    """Measure a stream of elements by offset."""
    return run_stream(bench, master, _Replay(name), Query(schema=_schema(name)), rows)


def measure_sink(bench: Bench, master: str, name: str, rows: int) -> Measurement:
    """Measure a batch write of two partitions, with its commit.

    Args:
        bench: The programs.
        master: The master of Spark.
        name: A format of payloads, or ``fire_and_forget``, ``lumberjack``, ``json files``.
        rows: The number of rows.
    """
    spark = bench.spark(master)
    responder, uri = bench.responder
    roots = {"responder": [responder.process.pid]}
    options = _options(name, uri, f"sink.{name}")
    sink = "rsocket"
    if name == "fire_and_forget":
        options = {**_options("cbor", uri, "count"), "interaction": name}
    elif name == "lumberjack":
        server, address = bench.sink
        roots = {"responder": [server.process.pid]}
        sink, options = name, {"hosts": address.rpartition("/")[2], "compression": "0"}
    with bench.directory() as directory:
        if name == "json files":
            sink, options, roots = "json", {"path": str(directory / "table")}, {}
        write = {"source": "range", "select": [_ROWS], "sink": sink, "sink_options": options}
        for wanted in (min(rows, bench.first), rows):
            responder.ask("received")
            measured = run_batch(spark, {**write, "options": {"rows": str(wanted)}}, wanted, roots)
            received = responder.ask("received")["count"]
            if sink == "rsocket" and received != wanted:
                raise AssertionError(f"the responder has {received} rows of {wanted}")
    return measured
