"""The reader of a stream, as Spark calls it: `LumberjackStreamReader`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from .offsets import Offsets
from .ranges import Limit, ranges_between

if TYPE_CHECKING:
    from ..columns import Layout
    from .driver import SourceDriver
    from .settings import SourceSettings

__all__ = ["LumberjackStreamReader", "read_partition"]


class LumberjackStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the events of collectors in micro-batches.

    Spark makes one of these in a process of its own for the time of a query, and sends copies to
    the tasks, which call `read` only. So nothing is opened before the first question of Spark.

    Args:
        settings: The options.
        layout: The columns.
    """

    def __init__(self, settings: SourceSettings, layout: Layout) -> None:
        self._settings = settings
        self._layout = layout
        self._driver: SourceDriver | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_driver": None}

    def _running(self) -> SourceDriver:
        if self._driver is None:
            # The tasks import this module too, and need neither clients nor servers. Who makes a
            # reader only to send it to them needs nothing at all.
            from .driver import SourceDriver, stop_on_sigterm

            stop_on_sigterm()
            self._driver = SourceDriver(self._settings)
        return self._driver

    def initialOffset(self) -> dict[str, Any]:
        """Return that a new query has no places yet; its first batch gives them."""
        return Offsets().as_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return how far the next batch reads."""
        driver = self._running()
        begin = Offsets.from_json(start)
        return driver.thread.run(driver.fleet.latest, begin, self._limit(limit)).as_json()

    def _limit(self, limit: ReadLimit) -> Limit:
        if isinstance(limit, ReadAllAvailable):
            return Limit()
        # Spark hands back one limit only, and `ReadAllAvailable` for a run that is to read all.
        rows, size = self._settings.max_rows, self._settings.max_bytes
        if isinstance(limit, ReadMaxRows):
            rows = limit.max_rows
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        return Limit(rows=rows, size=size, least=self._settings.min_rows)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options set."""
        if self._settings.max_rows is not None:
            return ReadMaxRows(self._settings.max_rows)
        if self._settings.max_bytes is not None:
            return ReadMaxBytes(self._settings.max_bytes)
        if self._settings.min_rows is not None:
            return ReadMinRows(self._settings.min_rows)
        return ReadAllAvailable()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return how far the spools go, for the progress of the query."""
        return None if self._driver is None else self._driver.fleet.progress()

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what there is now: this run of the query ends there."""
        driver = self._running()
        driver.thread.run(driver.fleet.prepare_available_now)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what each task of a batch reads."""
        ranges = ranges_between(Offsets.from_json(start), Offsets.from_json(end))
        if not ranges:
            return []
        from .planning import plan

        driver = self._running()
        spools = {each.spool_id for each in ranges}
        return plan(ranges, driver.thread.run(driver.fleet.locate, spools), self._settings)

    def commit(self, end: dict[str, Any]) -> None:
        """Tell the collectors that Spark does not need the events before ``end`` any more."""
        driver = self._running()
        driver.thread.run(driver.fleet.commit, Offsets.from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a range, in a task."""
        return read_partition(partition, self._layout)

    def stop(self) -> None:
        """Close the connections, and the embedded collector."""
        if self._driver is not None:
            self._driver.close()


def read_partition(partition: InputPartition, layout: Layout) -> Iterator[pa.RecordBatch]:
    """Iterate over the record batches of a partition."""
    from ..columns import record_batches
    from .planning import RangePartition
    from .reading import read_stored

    if not isinstance(partition, RangePartition):  # Spark makes one if there are none.
        return iter(())
    place = partition.place
    return record_batches(read_stored(place), layout, collector=place.spool_id)
