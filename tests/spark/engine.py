"""Drives a source like Spark's engine does, without a JVM: `Query`, `read_batch`.

The order of the calls, and what is pickled, are those of Spark 4.3; test_engine.py compares them
with a real Spark. All runs in this process and this thread, but with separate objects, as the
processes of Spark have them:

- the reader of the driver, one for the whole run of a query;
- a second one, which is made with the first batch, pickled, and unpickled for each task.

A restart is a new `Query` with the same `Checkpoint`::

    checkpoint = Checkpoint()
    query = Query(LumberjackDataSource, options, checkpoint)
    query.process_all()
    query.trigger(crash="before commit")    # raises Crash, as after kill -9
    query = Query(LumberjackDataSource, options, checkpoint)    # repeats the batch
    query.process_all()
    assert checkpoint.rows == [...]
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import Any, Literal

import attrs
import pyarrow as pa
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches
from pyspark.worker_util import pickleSer

__all__ = ["Checkpoint", "Crash", "CrashAt", "Query", "make_source", "read_batch"]

CrashAt = Literal["before log", "after log", "after partitions", "before commit"]
"""Where a query can be killed:

- before the offsets of the batch are in the offset log;
- with them in the log, before ``commit`` of the batch before;
- before any task has begun;
- with all rows in the sink, before the batch is in the commit log.
"""

Dies = Callable[[int, int, int], int | None]
"""Called with the batch, the index of the partition and the attempt: the number of Arrow batches
after which the worker dies, or None."""


class Crash(Exception):
    """The query was killed, as asked for."""


@attrs.define
class Checkpoint:
    """The directory of a checkpoint, and an idempotent sink.

    Attributes:
        offsets: The offset log: for each batch the JSON text of its end.
        committed: The number of batches in the commit log.
        sink: The rows of each batch. A batch that is repeated must have the same rows.
    """

    offsets: list[str] = attrs.field(factory=list)
    committed: int = 0
    sink: dict[int, list[dict[str, Any]]] = attrs.field(factory=dict)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows of the sink, in the order of the batches and partitions."""
        return [row for _, rows in sorted(self.sink.items()) for row in rows]

    def write(self, batch_id: int, rows: list[dict[str, Any]]) -> None:
        """Write the rows of a batch."""
        before = self.sink.setdefault(batch_id, rows)
        assert before == rows, f"batch {batch_id} is repeated with other rows"


class Query:
    """One run of a streaming query.

    Args:
        source: The data source.
        options: Its options.
        checkpoint: The checkpoint, of an earlier run or a new one.
        schema: The schema that the program gives, if it does.
        available_now: Whether the trigger is AvailableNow.
        dies: Makes workers die; their tasks are repeated up to three times.
    """

    def __init__(
        self,
        source: type[DataSource],
        options: Mapping[str, str],
        checkpoint: Checkpoint,
        *,
        schema: StructType | None = None,
        available_now: bool = False,
        dies: Dies = lambda batch, partition, attempt: None,
    ) -> None:
        self.checkpoint = checkpoint
        self.dies = dies
        self.ended = False
        self.reported: Any = None
        """What ``reportLatestOffset`` has returned."""
        made, self.schema = make_source(source, options, schema)
        # The JVM has the data source in bytes, and gives it to the process of each reader.
        self._source = pickleSer.dumps(made)
        self.reader = self._make_reader()
        self._reading: bytes | None = None
        self._limit: Any = None
        self._end = checkpoint.offsets[-1] if checkpoint.offsets else None
        self._repeats = len(checkpoint.offsets) > checkpoint.committed
        if self._repeats:
            self._start = checkpoint.offsets[-2] if len(checkpoint.offsets) > 1 else None
        else:
            self._start = self._end
        if available_now:
            assert isinstance(self.reader, SupportsTriggerAvailableNow)
            self.reader.prepareForTriggerAvailableNow()
        assert inspect.signature(self.reader.latestOffset).parameters
        self._limit = self.reader.getDefaultReadLimit()

    def _make_reader(self) -> DataSourceStreamReader:
        reader = pickleSer.loads(self._source).streamReader(schema=self.schema)
        assert isinstance(reader, DataSourceStreamReader)
        return reader

    def trigger(self, crash: CrashAt | None = None) -> list[dict[str, Any]] | None:
        """Run a batch, if there is new data; return its rows.

        Args:
            crash: Where the query is killed.

        Raises:
            Crash: It was.
        """
        assert not self.ended, "this run of the query has ended"
        try:
            return self._trigger(crash)
        except BaseException:  # also one of the source: it is the end of the run
            self.ended = True
            raise

    def _trigger(self, crash: CrashAt | None) -> list[dict[str, Any]] | None:
        log = self.checkpoint.offsets
        if not self._repeats:
            self._end = self._plan()
            if self._end == self._start:
                return None
            self._crash("before log", crash)
            log.append(self._end)
            self._crash("after log", crash)
            if len(log) > 1:
                self.reader.commit(json.loads(log[-2]))
        batch_id = len(log) - 1
        self._repeats = False
        # Spark asks once more: it has not kept the first answer.
        start = self._first() if self._start is None else self._start
        partitions = self.reader.partitions(json.loads(start), json.loads(log[-1]))
        self._crash("after partitions", crash)
        rows = self._read(batch_id, _pickled(partitions))
        self.checkpoint.write(batch_id, rows)
        self._crash("before commit", crash)
        self.checkpoint.committed = len(log)
        self._start = log[-1]
        return rows

    def _first(self) -> str:
        return json.dumps(self.reader.initialOffset())

    def _plan(self) -> str:
        start = self._first() if self._start is None else self._start
        end = json.dumps(self.reader.latestOffset(json.loads(start), self._limit))
        self.reported = self.reader.reportLatestOffset()
        json.dumps(self.reported)
        return end

    def _crash(self, place: CrashAt, crash: CrashAt | None) -> None:
        if place == crash:
            raise Crash(place)

    def _read(self, batch_id: int, partitions: list[bytes]) -> list[dict[str, Any]]:
        if self._reading is None:
            self._reading = pickleSer.dumps(self._make_reader())
        rows: list[dict[str, Any]] = []
        for index, partition in enumerate(partitions):
            for attempt in range(4):
                dies = self.dies(batch_id, index, attempt)
                batches = run_task(self._reading, partition, self.schema, dies)
                if dies is None:
                    rows += pa.Table.from_batches(batches, _arrow(self.schema)).to_pylist()
                    break
            else:
                raise AssertionError(f"batch {batch_id}: all attempts of task {index} died")
        return rows

    def process_all(self, most: int = 1000) -> int:
        """Run batches until there is no new data; return their number.

        Args:
            most: The most batches that there may be.
        """
        for done in range(most):
            if self.trigger() is None:
                return done
        raise AssertionError(f"there is new data after {most} batches")

    def stop(self, *, handler: bool = False) -> None:
        """End the run between two batches.

        Args:
            handler: Whether the process of the reader has a handler for SIGTERM that raises. Only
                then Spark calls ``stop``.
        """
        self.ended = True
        if handler:
            self.reader.stop()


def make_source(
    source: type[DataSource], options: Mapping[str, str], schema: StructType | None
) -> tuple[DataSource, StructType]:
    """Make a data source, and its schema, which must not be a text: parsing one needs a JVM."""
    assert inspect.ismethod(source.name)
    given = CaseInsensitiveDict()
    for name, value in options.items():
        assert isinstance(value, str), f"Spark gives texts only: {name} is {value!r}"
        given[name] = value
    made = source(options=given)
    if schema is None:
        found = made.schema()
        assert isinstance(found, StructType), "the engine of the tests cannot parse a schema"
        schema = found
    return pickleSer.loads(pickleSer.dumps(made)), schema


def read_batch(
    source: type[DataSource],
    options: Mapping[str, str],
    *,
    schema: StructType | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """Read a source once, not as a stream, and return the rows.

    Args:
        source: The data source.
        options: Its options.
        schema: The schema that the program gives, if it does.
        limit: Take this many Arrow batches of each partition and close its iterator, as for LIMIT.
    """
    made, schema = make_source(source, options, schema)
    reader = made.reader(schema=schema)
    assert isinstance(reader, DataSourceReader)
    reading = pickleSer.dumps(reader)
    partitions = _pickled(reader.partitions()) or _pickled([InputPartition(None)])
    tasks = [run_task(reading, partition, schema, limit) for partition in partitions]
    batches = [batch for found in tasks for batch in found]
    return pa.Table.from_batches(batches, _arrow(schema)).to_pylist()


def _pickled(partitions: object) -> list[bytes]:
    assert isinstance(partitions, list)
    assert all(isinstance(each, InputPartition) for each in partitions)
    return [pickleSer.dumps(each) for each in partitions]


def run_task(
    reader: bytes, partition: bytes, schema: StructType, most: int | None = None
) -> list[pa.RecordBatch]:
    """Run the task of a partition in a worker.

    Args:
        reader: The pickled reader.
        partition: The pickled partition.
        schema: The schema of the rows. PySpark compares it with that of the Arrow batches.
        most: Close the iterator after so many Arrow batches.
    """
    rows = pickleSer.loads(reader).read(pickleSer.loads(partition))
    assert isinstance(rows, Iterator)
    with closing(records_to_arrow_batches(rows, 10_000, schema, None)) as batches:
        found = list(islice(batches, most))
    # Dropping the generator of PySpark drops the iterator of the source, and so closes a generator.
    del batches
    for batch in found:
        assert batch.schema == _arrow(schema), f"{batch.schema} is not {_arrow(schema)}"
    return found


def _arrow(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
