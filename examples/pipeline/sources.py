"""Where the tables of the pipeline come from, and where its results go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .tables import EVENT, SAMPLE

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.types import StructType


POLL: Final = 500
"""Milliseconds for which a collector is asked for more; then the trigger decides again."""


def log_events(spark: SparkSession, collector: str) -> DataFrame:
    """Return the lines that the shipper has sent to a collector."""
    return (
        spark.readStream.format("lumberjack")
        .schema(EVENT)
        .option("collectors", collector)
        .option("consumer", "rows")
        .option("pollTimeoutMs", POLL)
        .load()
    )


def samples(spark: SparkSession, collector: str) -> DataFrame:
    """Return the samples that a collector has got from its subscription."""
    return (
        spark.readStream.format("rsocket")
        .schema(SAMPLE)
        .option("delivery", "spool")
        .option("collectors", collector)
        .option("payloadFormat", "json")
        .option("consumer", "machine")
        .option("pollTimeoutMs", POLL)
        .load()
    )


def growing_table(spark: SparkSession, directory: Path, schema: StructType) -> DataFrame:
    """Return the rows that another query adds to a table of Parquet files."""
    directory.mkdir(exist_ok=True)
    return spark.readStream.schema(schema).parquet(str(directory))


def send(rows: DataFrame, server: str, checkpoint: str, every: str) -> StreamingQuery:
    """Start a query that sends rows to the alerts server, each batch once."""
    return (
        rows.writeStream.queryName("results")
        .format("rsocket")
        .option("uri", server)
        .option("route", "results")
        .option("payloadFormat", "json")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=every)
        .start()
    )
