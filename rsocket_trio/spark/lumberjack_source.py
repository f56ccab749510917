"""``format("lumberjack")``: `LumberjackDataSource`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from .columns import Layout
    from .spool_source.settings import SourceSettings

__all__ = ["LumberjackDataSource"]


class LumberjackDataSource(DataSource):
    """Log events: read from collectors, and shipped to receivers of Lumberjack.

    ``spark.readStream.format("lumberjack").option("collectors", "host:7878").load()``
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lumberjack"

    # Each of Spark's processes calls one method, and imports what this needs.

    def schema(self) -> StructType:
        """Return the columns of a read without a schema of the user."""
        return _default_schema(self._settings())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        from .spool_source.batch_reader import LumberjackBatchReader

        settings = self._settings()
        return LumberjackBatchReader(settings, _layout(schema, settings))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        from .spool_source.stream_reader import LumberjackStreamReader

        settings = self._settings()
        return LumberjackStreamReader(settings, _layout(schema, settings))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch."""
        from .sinks.lumberjack_sink.writer import lumberjack_writer

        return lumberjack_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a stream."""
        from .sinks.lumberjack_sink.writer import lumberjack_stream_writer

        return lumberjack_stream_writer(self.options, schema, overwrite)

    def _settings(self) -> SourceSettings:
        from .spool_source.settings import SourceSettings

        return SourceSettings.read(self.options)


def _default_schema(settings: SourceSettings) -> StructType:
    from .columns import default_schema

    return default_schema(
        include_raw=settings.include_raw, include_metadata=settings.include_metadata
    )


def _layout(schema: StructType, settings: SourceSettings) -> Layout:
    from .columns import default_layout, layout_for

    if schema == _default_schema(settings):
        return default_layout(schema)
    return layout_for(schema, mode=settings.mode, corrupt_column=settings.corrupt_column)
