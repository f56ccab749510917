"""``spark.read.format("rsio")``: each partition is one subscription to a publisher."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..pulling import BUFFER
from ..rows.maker import PUBLISHER_FACTS, RowMaker
from ..trio_thread import TrioThread
from .pulling import open_chunks
from .settings import SourceSettings

__all__ = ["THREAD", "BatchReader"]

THREAD: Final = TrioThread("rsio source")
"""All reads of a process use one thread. It starts with the first read."""


class BatchReader(DataSourceReader):
    """Reads the elements that a publisher sends for each partition.

    Args:
        settings: What to subscribe to.
        schema: The columns that Spark wants, exactly.
    """

    def __init__(self, settings: SourceSettings, schema: pa.Schema) -> None:
        self._settings = settings
        self._schema = schema
        # An error here is better than one on each executor.
        RowMaker(settings.rows, schema, PUBLISHER_FACTS)

    def partitions(self) -> list[InputPartition]:
        """See `DataSourceReader.partitions`."""
        return [InputPartition(index) for index in range(self._settings.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceReader.read`."""
        settings, number = self._settings, partition.value
        maker = RowMaker(settings.rows, self._schema, PUBLISHER_FACTS)
        offset = 0
        with THREAD.iterate(partial(open_chunks, settings, number), buffer=BUFFER) as chunks:
            for chunk in chunks:
                yield from maker.rows(chunk.payloads, offset, partition=number)
                # Spark asks for more, so it has taken these.
                offset += len(chunk.payloads)
                chunk.done()
