"""``format("trivial")``: what a source in Python costs Spark that has next to nothing to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

__all__ = ["TrivialSource"]


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, events: int) -> None:
        self._events = events

    def initialOffset(self) -> dict[str, Any]:
        return {"n": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"n": self._events}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(end["n"] - start["n"])] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"value": ["x" * 200] * partition.value})


class TrivialSource(DataSource):
    """Has as many rows as the option ``events`` says."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "trivial"

    def schema(self) -> str:
        """Return the one column."""
        return "value STRING"

    def streamReader(self, schema: object) -> DataSourceStreamReader:
        """Return the reader."""
        return _Reader(int(self.options["events"]))
