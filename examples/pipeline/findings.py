"""What the tables contain at the end, read by Spark and written as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


MACHINE: Final = "since TIMESTAMP, lines BIGINT, busy DOUBLE, tasks INT"


def findings(spark: SparkSession, directory: Path) -> dict[str, Any]:
    """Return counts and rows of the tables, for `report`."""
    rows = spark.read.parquet(str(directory / "rows")).where("log != 'end.log'").cache()
    minute = f.date_format("at", "yyyy-MM-dd HH:mm")
    files = rows.groupBy("log").agg(
        f.count("*").alias("events"),
        f.count_distinct("file_id", "at_byte").alias("lines"),
        f.count("unread").alias("unread"),
    )
    of_machine = rows.where("log = 'dpkg.log'").dropDuplicates(["file_id", "at_byte"])
    actions = of_machine.groupBy(minute.alias("minute"), "service").count()
    minutes = spark.read.parquet(str(directory / "minutes"))
    minutes = minutes.withColumn("minute", f.date_format("minute", "yyyy-MM-dd HH:mm"))
    machine = spark.read.schema(MACHINE).parquet(str(directory / "machine"))  # may be empty
    machine = machine.withColumn("since", f.date_format("since", "HH:mm:ss"))
    return {
        "files": _rows(files.orderBy("log")),
        "actions": _rows(actions.orderBy("minute", "service")),
        "minutes": _rows(minutes.orderBy("minute", "service")),
        "machine": _rows(machine.orderBy("since")),
    }


def _rows(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.collect()]
