"""``format("rsio")``: `RsioDataSource`."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
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
from .settings import read_settings, read_subscription

__all__ = ["RsioDataSource"]

_OF_STREAMS: Final = (
    "startingOffsets",
    "endingOffsets",
    "maxRowsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "pollTimeoutMs",
)


class RsioDataSource(DataSource):
    """Spark reads elements of publishers over rsio.

    ``spark.read.format("rsio").options(uri="rsio://host:7980", publisher="rows").load()``
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rsio"

    def schema(self) -> StructType:
        """Return the columns of a read without a schema of the user.

        Raises:
            ValueError: The format of the elements needs a schema.
        """
        options = Options(self.options)
        payload_format = read_row_settings(options).payload_format
        if payload_format not in {"binary", "utf8"}:
            raise ValueError(
                f"payloadFormat={payload_format} decodes elements into the columns of a schema: "
                'give one, e.g. .schema("id BIGINT, price DOUBLE")'
            )
        data = BinaryType() if payload_format == "binary" else StringType()
        schema = StructType().add("data", data)
        if _delivery(options, "subscribe") == "spool":
            schema.add("metadata", BinaryType()).add("collector", StringType())
            return schema.add("offset", LongType()).add("received_at", TimestampType())
        return schema.add("partition", IntegerType()).add("offset", LongType())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        options = Options(self.options)
        if _delivery(options, "subscribe") == "spool":
            spool, rows = _read_spool(options, is_stream=False)
            return SpoolBatchReader(spool, rows, exact_schema(schema))
        settings = read_settings(options, read_row_settings(options))
        # So a program can read the same options both ways.
        options.know(*_OF_STREAMS)
        options.finish()
        return BatchReader(settings, exact_schema(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a stream."""
        options = Options(self.options)
        _delivery(options, "spool")
        spool, rows = _read_spool(options, is_stream=True)
        return SpoolStreamReader(spool, rows, exact_schema(schema))


def _delivery(options: Options, default: str) -> str:
    choices = ("spool",) if default == "spool" else ("subscribe", "spool")
    return options.choice("delivery", choices, default)


def _read_spool(options: Options, *, is_stream: bool) -> tuple[SpoolSettings, RowSettings]:
    rows = read_row_settings(options)
    named = read_subscription(options, rows)
    return read_spool_settings(options, named, "uri and publisher", is_stream=is_stream), rows
