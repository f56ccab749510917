"""``format("rsocket")``: `RSocketDataSource`."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from ..columns.schemas import exact_schema
from ..options import Options
from ..rows.settings import RowSettings, read_row_settings
from ..spool_source.settings import SourceSettings as SpoolSettings
from ..stored_elements import SpoolBatchReader, SpoolStreamReader, read_spool_settings
from .batch_reader import BatchReader
from .replay_reader import ReplayBatchReader, ReplayStreamReader, read_replay_settings
from .settings import SourceSettings, read_settings, read_subscription

__all__ = ["RSocketDataSource"]

_OF_STREAMS: Final = (
    "startingOffsets",
    "endingOffsets",
    "maxRowsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "pollTimeoutMs",
)
_OF_REQUESTS: Final = ("limit", "numPartitions", "data", "dataBase64", "interaction")


class RSocketDataSource(DataSource):
    """Spark reads elements of RSocket responders, and sends rows to them.

    ``spark.read.format("rsocket").option("uri", "tcp://host:7878").option("route", "rows").load()``
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rsocket"

    def schema(self) -> StructType:
        """Return the columns of a read without a schema of the user.

        Raises:
            ValueError: The format of the payloads needs a schema.
        """
        options = Options(self.options)
        payload_format = read_row_settings(options).payload_format
        if payload_format not in {"binary", "utf8"}:
            raise ValueError(
                f"payloadFormat={payload_format} decodes elements into the columns of a schema: "
                'give one, e.g. .schema("id BIGINT, name STRING")'
            )
        data = BinaryType() if payload_format == "binary" else StringType()
        schema = StructType().add("data", data).add("metadata", BinaryType())
        if _delivery(options, "request") == "spool":
            schema.add("collector", StringType()).add("offset", LongType())
            return schema.add("received_at", TimestampType())
        return schema.add("partition", IntegerType()).add("offset", LongType())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        options = Options(self.options)
        match _delivery(options, "request"):
            case "replay":
                settings = read_settings(options)
                replay = read_replay_settings(options)
                _finish_replay(options, settings)
                return ReplayBatchReader(settings, replay, exact_schema(schema))
            case "spool":
                spool, rows = _read_spool(options, is_stream=False)
                return SpoolBatchReader(spool, rows, exact_schema(schema))
        settings = read_settings(options)
        # So a program can read the same options both ways.
        options.know(*_OF_STREAMS)
        options.finish()
        return BatchReader(settings, exact_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        options = Options(self.options)
        if _delivery(options, "replay") == "spool":
            spool, rows = _read_spool(options, is_stream=True)
            return SpoolStreamReader(spool, rows, exact_schema(schema))
        settings = read_settings(options)
        replay = read_replay_settings(options)
        _finish_replay(options, settings)
        return ReplayStreamReader(settings, replay, exact_schema(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch."""
        from ..sinks.rsocket_sink.writer import rsocket_writer  # a read needs none

        return rsocket_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a stream."""
        from ..sinks.rsocket_sink.writer import rsocket_stream_writer

        return rsocket_stream_writer(self.options, schema, overwrite)


def _delivery(options: Options, default: str) -> str:
    choices = ("replay", "spool") if default == "replay" else ("request", "replay", "spool")
    return options.choice("delivery", choices, default)


def _finish_replay(options: Options, settings: SourceSettings) -> None:
    """Check that all options have a meaning with ``delivery=replay``.

    Raises:
        ValueError: One has none.
    """
    options.finish()
    if settings.route is None:
        raise ValueError('delivery=replay needs the option route, e.g. .option("route", "orders")')
    for name in _OF_REQUESTS:
        if options.has(name):
            raise ValueError(
                f"the option {name} has no meaning with delivery=replay: Spark asks for ranges of "
                "offsets"
            )


def _read_spool(options: Options, *, is_stream: bool) -> tuple[SpoolSettings, RowSettings]:
    rows = read_row_settings(options)
    named = read_subscription(options, rows)
    return read_spool_settings(options, named, "uri and route", is_stream=is_stream), rows
