"""``spark.read.format("rsocket")``: each partition is one request to a responder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..pulling import BUFFER
from ..rows.maker import REQUEST_FACTS, RowMaker
from ..trio_thread import TrioThread
from .pulling import open_chunks
from .settings import SourceSettings

__all__ = ["THREAD", "BatchReader", "row_maker"]

THREAD: Final = TrioThread("rsocket source")
"""All reads of a process use one thread. It starts with the first read."""


class BatchReader(DataSourceReader):
    """Reads the elements that a responder sends for each partition.

    Args:
        settings: What to ask for.
        schema: The columns that Spark wants, exactly.
    """

    def __init__(self, settings: SourceSettings, schema: pa.Schema) -> None:
        self._settings = settings
        self._schema = schema
        row_maker(settings, schema)  # An error here is better than one on each executor.

    def partitions(self) -> list[InputPartition]:
        """See `DataSourceReader.partitions`."""
        return [InputPartition(index) for index in range(self._settings.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader.read`."""
        settings, number = self._settings, partition.value
        maker = row_maker(settings, self._schema)
        opened = partial(open_chunks, settings, settings.request(number), limit=settings.limit)
        offset = 0
        with THREAD.iterate(opened, buffer=BUFFER) as chunks:
            for chunk in chunks:
                yield from maker.rows(chunk.payloads, offset, partition=number)
                # Spark asks for more, so it has taken these.
                offset += len(chunk.payloads)
                chunk.done()


def row_maker(settings: SourceSettings, schema: pa.Schema) -> RowMaker:
    """Return what makes rows of payloads.

    Raises:
        ValueError: The schema does not fit the format of the payloads.
    """
    return RowMaker(settings.rows, schema, REQUEST_FACTS)
