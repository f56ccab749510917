"""The Spark application of the benchmark: one session, which obeys commands.

``start`` starts a streaming query, ``rows`` waits until it has committed so many rows, and ``stop``
stops it. ``batch`` runs a batch query to its end. The argument is the master.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.control import read_command, ready, write_outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

_POLL: Final = 0.05
_PATIENCE: Final = 240.0


def keep_standard_output() -> None:
    """Send all that Spark prints to standard error: standard output is for outcomes only."""
    sys.stdout = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)


def make_session(master: str) -> SparkSession:
    """Start Spark."""
    from rsocket_trio.spark import session as start

    session = start(
        "benchmark",
        config={
            "spark.master": master,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.memory": "1g",
            "spark.sql.streaming.numRecentProgressUpdates": "10000",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def selected(frame: DataFrame, steps: Sequence[Sequence[str]]) -> DataFrame:
    """Return what a chain of SQL expressions selects."""
    for step in steps:
        frame = frame.selectExpr(*step)
    return frame


class Application:
    """Runs one query at a time."""

    def __init__(self, session: SparkSession) -> None:
        self._session: Final = session
        self._query: StreamingQuery | None = None

    def start(
        self,
        *,
        source: str,
        options: Mapping[str, str],
        sink: str,
        directory: str,
        schema: str | None = None,
        select: Sequence[Sequence[str]] = (),
        sink_options: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Start a streaming query."""
        writer = self._writer(source, options, sink, directory, schema, select, sink_options)
        self._query = writer.start()
        return {}

    def once(
        self,
        *,
        source: str,
        options: Mapping[str, str],
        sink: str,
        directory: str,
        schema: str | None = None,
        select: Sequence[Sequence[str]] = (),
        sink_options: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Run a streaming query over what there is; tell when its first trigger was."""
        begun = time.time()
        writer = self._writer(source, options, sink, directory, schema, select, sink_options)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        elapsed = time.time() - begun
        progress = query.recentProgress
        first = datetime.fromisoformat(progress[0].timestamp).timestamp() - begun
        count = sum(each.numInputRows for each in progress)
        return {"elapsed": elapsed, "first": first, "count": count}

    def _writer(
        self,
        source: str,
        options: Mapping[str, str],
        sink: str,
        directory: str,
        schema: str | None,
        select: Sequence[Sequence[str]],
        sink_options: Mapping[str, str] | None,
    ) -> DataStreamWriter:
        reader = self._session.readStream.format(source).options(**options)
        if schema is not None:
            reader = reader.schema(schema)
        writer = selected(reader.load(), select).writeStream.format(sink)
        writer = writer.options(**(sink_options or {}))
        writer = writer.option("checkpointLocation", str(Path(directory) / "checkpoint"))
        if sink == "parquet":
            writer = writer.option("path", str(Path(directory) / "table"))
        return writer

    def rows(self, *, count: int) -> dict[str, Any]:
        """Wait until the query has committed so many rows; return their number, and the time."""
        query = self._query
        assert query is not None
        deadline = time.monotonic() + _PATIENCE
        while True:
            progress = query.recentProgress
            done = sum(each.numInputRows for each in progress)
            if done >= count:
                last = [each for each in progress if each.numInputRows][-1]
                ended = datetime.fromisoformat(last.timestamp).timestamp()
                ended += last.durationMs["triggerExecution"] / 1000
                return {"count": done, "ended": ended}
            if (error := query.exception()) is not None:
                raise RuntimeError(str(error)[:2000])
            if time.monotonic() > deadline:
                raise TimeoutError(f"{done} of {count} rows after {_PATIENCE:g} s")
            time.sleep(_POLL)  # Spark has to be asked for the progress of a query.

    def stop(self) -> dict[str, Any]:
        """Stop the query."""
        assert self._query is not None
        self._query.stop()
        self._query = None
        return {}

    def batch(
        self,
        *,
        source: str,
        options: Mapping[str, str],
        sink: str,
        schema: str | None = None,
        select: Sequence[Sequence[str]] = (),
        sink_options: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Run a batch query to its end."""
        frame = selected(self._batch_of(source, options, schema), select)
        begun = time.perf_counter()
        writer = frame.write.format(sink).options(**(sink_options or {}))
        writer.mode("overwrite" if sink == "noop" else "append").save()
        return {"elapsed": time.perf_counter() - begun}

    def count(
        self, *, source: str, options: Mapping[str, str], schema: str | None = None
    ) -> dict[str, Any]:
        """Return how many rows a batch has."""
        return {"count": self._batch_of(source, options, schema).count()}

    def _batch_of(self, source: str, options: Mapping[str, str], schema: str | None) -> DataFrame:
        if source == "range":
            return self._session.range(0, int(options["rows"]), 1, 2).toDF("number")
        reader = self._session.read.format(source).options(**options)
        return (reader if schema is None else reader.schema(schema)).load()


def main() -> None:
    """Obey commands until there are no more."""
    keep_standard_output()
    session = make_session(sys.argv[1])
    from benchmarks.spark.trivial_source import TrivialSource

    session.dataSource.register(TrivialSource)
    application = Application(session)
    ready(session.version)
    while (command := read_command()) is not None:
        operation = getattr(application, command.pop("operation"))
        try:
            write_outcome(operation(**command))
        except Exception as error:  # The harness prints each failure beside its case.
            write_outcome({"error": f"{type(error).__name__}: {error}"[:3000]})
    session.stop()


if __name__ == "__main__":
    main()
