"""``format("lumberjack")``: `LumberjackDataSource`."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from .columns import Layout, default_layout, default_schema, layout_for
from .sinks.lumberjack_sink.writer import lumberjack_stream_writer, lumberjack_writer
from .spool_source.batch_reader import LumberjackBatchReader
from .spool_source.settings import SourceSettings
from .spool_source.stream_reader import LumberjackStreamReader

__all__ = ["LumberjackDataSource"]


class LumberjackDataSource(DataSource):
    """Log events: read from collectors, and shipped to receivers of Lumberjack.

    ``spark.readStream.format("lumberjack").option("collectors", "host:7878").load()``
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lumberjack"

    def schema(self) -> StructType:
        """Return the columns of a read without a schema of the user."""
        return default_schema(include_raw=SourceSettings.read(self.options).include_raw)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        settings = SourceSettings.read(self.options)
        return LumberjackBatchReader(settings, _layout(schema, settings))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        settings = SourceSettings.read(self.options)
        return LumberjackStreamReader(settings, _layout(schema, settings))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch."""
        return lumberjack_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a stream."""
        return lumberjack_stream_writer(self.options, schema, overwrite)


def _layout(schema: StructType, settings: SourceSettings) -> Layout:
    if schema == default_schema(include_raw=settings.include_raw):
        return default_layout(schema)
    return layout_for(schema, mode=settings.mode, corrupt_column=settings.corrupt_column)
