"""The queries of the pipeline: started, watched, finished."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from . import sources, tables
from .service_log import SERVICES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

EVERY: Final = "1 second"
"""A query starts its next batch so long after the start of the last one."""
BATCHES: Final = 4
"""So many batches of a query are enough for lines that wait: the end of one that does not have them
yet, one that reads them, and two behind the watermark that moves with them."""


class QueryFailed(Exception):
    """A query failed. The text is for the user."""


@attrs.frozen
class Settings:
    """What the Spark program is told.

    Attributes:
        logs: The address of the collector of log files.
        telemetry: The address of the collector of samples of the host.
        results: The address of the alerts server.
        directory: An empty directory for tables and checkpoints.
    """

    logs: str
    telemetry: str
    results: str
    directory: str


class Queries:
    """Four queries. Each goes on from the table of the one before, and can be started again.

    collector -> rows -> minutes -> results -> alerts server
                 rows, samples -> machine
    """

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._directory = Path(settings.directory)
        self._counted: dict[int, int] = {}  # rows that the first query has read, by its batches
        self._all: list[StreamingQuery] = []
        read = tables.rows(sources.log_events(spark, settings.logs))
        self._table("rows", read)
        rows = sources.growing_table(spark, self._directory / "rows", read.schema)
        services = spark.createDataFrame(
            [(each.name, each.team) for each in SERVICES],
            "service STRING, team STRING",
        )
        minutes = tables.minutes(rows.where(tables.OF_SERVICES), services)
        self._table("minutes", minutes)
        samples = sources.samples(spark, settings.telemetry)
        self._table("machine", tables.machine(rows, samples), tables.INTERVAL)
        final = sources.growing_table(spark, self._directory / "minutes", minutes.schema)
        checkpoint = str(self._directory / "checkpoints" / "results")
        self._all.append(sources.send(tables.results(final), settings.results, checkpoint, EVERY))

    def _table(self, name: str, rows: DataFrame, every: str = EVERY) -> None:
        """Start a query that writes a table of Parquet files."""
        query = (
            rows.writeStream.queryName(name)
            .format("parquet")
            .option("path", str(self._directory / name))
            .option("checkpointLocation", str(self._directory / "checkpoints" / name))
            .trigger(processingTime=every)
            .start()
        )
        self._all.append(query)

    def lines_read(self) -> int:
        """Return the number of lines of log files that were read.

        Raises:
            QueryFailed: A query has failed.
        """
        for query in self._all:
            if not query.isActive:
                error = query.exception()
                reason = "it has ended" if error is None else str(error).strip().splitlines()[0]
                raise QueryFailed(f"the query {query.name!r} failed: {reason}") from error
        for progress in self._all[0].recentProgress:
            self._counted[progress.batchId] = progress.numInputRows
        return sum(self._counted.values())

    def finish(self) -> None:
        """Wait until all lines that the collector has have gone through the queries.

        The query `machine` has no end: there are new samples all the time. It is through when it
        has had some batches with all lines in its source.
        """
        rows, *others = (each for each in self._all if each.name != "machine")
        [machine] = (each for each in self._all if each.name == "machine")
        self._drain(rows)
        through = _batches(machine) + BATCHES
        for query in others:
            self._drain(query)
        while _batches(machine) < through:
            time.sleep(0.1)  # without trio; Spark has no call that waits for a batch
            self.lines_read()

    def _drain(self, query: StreamingQuery) -> None:
        # Twice: the first call also returns if a look for new lines has begun before it.
        query.processAllAvailable()
        query.processAllAvailable()
        self.lines_read()

    def stop(self) -> None:
        """Stop all queries."""
        for query in self._all:
            query.stop()


def _batches(query: StreamingQuery) -> int:
    """Return how many batches a query has ended."""
    progress = query.lastProgress
    return 0 if progress is None else progress.batchId + 1
