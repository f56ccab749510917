"""The writers of ``format("lumberjack")``: `lumberjack_writer`, `lumberjack_stream_writer`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import attrs
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ..running import run
from .events import EventMaker
from .sending import ship_rows
from .settings import LumberjackSinkSettings

__all__ = [
    "LumberjackBatchWriter",
    "LumberjackStreamWriter",
    "ShippedRows",
    "lumberjack_stream_writer",
    "lumberjack_writer",
]

Messages = Sequence[WriterCommitMessage | None]


@attrs.frozen
class ShippedRows(WriterCommitMessage):
    """What a task tells the driver.

    Attributes:
        rows: The rows that were acknowledged.
    """

    rows: int


class _Writer:
    """What the two writers have in common. Spark pickles it for the tasks."""

    def __init__(self, settings: LumberjackSinkSettings) -> None:
        self._settings = settings

    def _ship(self, batches: Iterator[pa.RecordBatch]) -> ShippedRows:
        return ShippedRows(run(partial(ship_rows, self._settings, batches, _converter())))


class LumberjackBatchWriter(_Writer, DataSourceArrowWriter):
    """Ships the rows of a DataFrame. `lumberjack_writer` makes it."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ShippedRows:
        """Ship the rows of a partition, and return when all are acknowledged."""
        return self._ship(iterator)

    def commit(self, messages: Messages) -> None:
        """Do nothing: the events have arrived."""

    def abort(self, messages: Messages) -> None:
        """Do nothing: events that have arrived cannot be taken back."""


class LumberjackStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Ships the rows of the microbatches of a stream. `lumberjack_stream_writer` makes it."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ShippedRows:
        """Ship the rows of a partition, and return when all are acknowledged."""
        return self._ship(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:
        """Do nothing: the events have arrived."""

    def abort(self, messages: Messages, batchId: int) -> None:
        """Do nothing: events that have arrived cannot be taken back."""


def lumberjack_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> LumberjackBatchWriter:
    """Return the writer for ``df.write.format("lumberjack")``.

    Raises:
        ValueError: An option is wrong, missing or unknown.
    """
    return LumberjackBatchWriter(LumberjackSinkSettings.read(options, overwrite=overwrite))


def lumberjack_stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> LumberjackStreamWriter:
    """Return the writer for ``df.writeStream.format("lumberjack")``.

    Raises:
        ValueError: An option is wrong, missing or unknown.
    """
    return LumberjackStreamWriter(LumberjackSinkSettings.read(options, overwrite=overwrite))


def _converter() -> Callable[[pa.RecordBatch], list[bytes]]:
    maker: EventMaker | None = None

    def convert(batch: pa.RecordBatch) -> list[bytes]:
        nonlocal maker
        if maker is None:
            maker = EventMaker(batch.schema)
        return maker.events(batch)

    return convert
