"""The tables of the pipeline, each as a function from DataFrames to a DataFrame.

    events of the shipper -> rows      one row for each line of a log file
    rows -> minutes                    one row per minute and service, with its baseline and alert
    minutes -> results                 the same rows for people
    rows, samples -> machine           lines per interval, and how busy the machine was meanwhile

They know neither sources nor sinks: a test can give them any DataFrame. They use only functions of
Spark, so no Python runs for a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EVENT: Final = (
    "message STRING, log STRUCT<file: STRUCT<id: STRING, path: STRING>, offset: BIGINT>,"
    " _received_at TIMESTAMP"
)
"""The fields of a shipped event that the pipeline reads, and when its collector got it."""
RECORD: Final = "at TIMESTAMP, service STRING, level STRING, ms DECIMAL(9, 1)"
"""The fields of a line of the service log."""
SAMPLE: Final = "at DOUBLE, busy DOUBLE, tasks INT"
"""The fields of a sample of host_telemetry.py."""

LATE: Final = "30 seconds"
"""How far behind the newest line another one may be. Minutes are written that much later."""
OF_SERVICES: Final = "log IN ('services.log', 'end.log')"
"""The rows of the service log, and of the line behind its end (`inputs.write_end`)."""
INTERVAL: Final = "2 seconds"
"""The interval of the table of the machine."""

BEFORE: Final = 10
"""The baseline of a minute: so many minutes before it."""
ENOUGH: Final = 5
"""There is no alert before the baseline has so many minutes."""


def rows(events: DataFrame) -> DataFrame:
    """Return a row for each shipped line; of the service log or of dpkg.log, by its first byte.

    A line that is neither has no ``at``, and keeps its text in ``unread``.
    """
    record = f.from_json("message", RECORD)
    words = f.split("message", " ")
    is_json = f.col("message").startswith("{")
    dpkg_time = f.try_to_timestamp(f.substring("message", 1, 19), f.lit("yyyy-MM-dd HH:mm:ss"))
    read = events.select(
        f.element_at(f.split("log.file.path", "/"), -1).alias("log"),
        f.col("log.file.id").alias("file_id"),
        f.col("log.offset").alias("at_byte"),
        f.when(is_json, record["at"]).otherwise(dpkg_time).alias("at"),
        f.when(is_json, record["service"]).otherwise(f.get(words, f.lit(2))).alias("service"),
        f.when(is_json, record["level"]).alias("level"),
        f.when(is_json, record["ms"]).alias("ms"),
        f.col("_received_at").alias("received_at"),
        f.col("message"),
    )
    unread = f.when(f.col("at").isNull(), f.col("message")).alias("unread")
    return read.select("*", unread).drop("message")


def minutes(rows: DataFrame, services: DataFrame) -> DataFrame:
    """Return a row per minute and service: its figures, its baseline, and an alert or NULL.

    A window of eleven minutes ends with each minute. Its last minute is compared with those before
    it. So a minute without a line is a row too, while its service has a baseline. Rows are final:
    they come when the watermark has passed the minute.
    """
    once = rows.withWatermark("at", LATE).dropDuplicatesWithinWatermark(["file_id", "at_byte"])
    per_minute = once.groupBy(f.window("at", "1 minute"), "service").agg(
        f.count("*").alias("lines"),
        f.count_if(f.col("level") == "ERROR").alias("errors"),
        f.sum("ms").alias("sum_ms"),
    )
    now = f.col("minute") == f.col("reach.end") - f.expr("INTERVAL 1 MINUTE")
    width = f"{BEFORE + 1} minutes"
    compared = (
        per_minute.withColumn("minute", f.col("window.start"))
        .withColumn("reach", f.window(f.window_time("window"), width, "1 minute"))
        .groupBy("reach", "service")
        .agg(
            *(_newest(name, now) for name in ("lines", "errors", "sum_ms")),
            f.count_if(~now).alias("before"),
            f.avg(f.when(~now, f.col("lines"))).alias("usual_lines"),
            f.avg(f.when(~now, f.col("errors"))).alias("usual_errors"),
            (
                f.sum(f.when(~now, f.col("sum_ms").cast("double")))
                / f.sum(f.when(~now, f.col("lines")))
            ).alias("usual_ms"),
        )
        .withColumn("minute", f.col("reach.end") - f.expr("INTERVAL 1 MINUTE"))
        .withColumn(
            "mean_ms", f.when(f.col("lines") > 0, f.col("sum_ms").cast("double") / f.col("lines"))
        )
    )
    known = compared.join(f.broadcast(services), "service", "left")
    return known.select(
        "minute", "service", "team", "lines", "errors", "sum_ms", "mean_ms",
        "before", "usual_lines", "usual_errors", "usual_ms", _alert().alias("alert"),
    )  # fmt: skip


def _newest(name: str, now: Column) -> Column:
    return f.coalesce(f.sum(f.when(now, f.col(name))), f.lit(0)).alias(name)


def _alert() -> Column:
    """Say what is unusual in a minute, or nothing.

    Counts spread like those of chance arrivals: four times the square root of the usual number is
    far out. Means of latencies spread less, so twice the usual mean is far out.
    """

    def far_above(value: str, usual: str) -> Column:
        return f.col(value) > f.col(usual) + 4 * f.sqrt(f.col(usual) + 1)

    slow = f.col("mean_ms") > 2 * f.col("usual_ms")
    silent = (f.col("lines") == 0) & (f.col("usual_lines") >= 10)
    found = f.concat_ws(
        ", ",
        f.when(silent, f.format_string("silent, usually %.0f lines", "usual_lines")),
        f.when(
            far_above("errors", "usual_errors"),
            f.format_string("%d errors, usually %.1f", "errors", "usual_errors"),
        ),
        f.when(slow, f.format_string("%.0f ms, usually %.0f", "mean_ms", "usual_ms")),
        f.when(
            far_above("lines", "usual_lines"),
            f.format_string("%d lines, usually %.0f", "lines", "usual_lines"),
        ),
    )
    return f.when((f.col("before") >= ENOUGH) & (found != ""), found)


def results(minutes: DataFrame) -> DataFrame:
    """Return what clients see of a minute (`Minute`)."""
    return minutes.select(
        f.date_format("minute", "yyyy-MM-dd'T'HH:mm:ss'Z'").alias("minute"),
        "service",
        "team",
        "lines",
        "errors",
        f.round("mean_ms", 1).alias("mean_ms"),
        "alert",
    )


def machine(rows: DataFrame, samples: DataFrame) -> DataFrame:
    """Return a row per interval: the lines received in it, and how busy the machine was in it."""
    received = (
        rows.withWatermark("received_at", INTERVAL)
        .groupBy(f.window("received_at", INTERVAL).alias("interval"))
        .agg(f.count("*").alias("lines"))
    )
    busy = (
        samples.withColumn("sampled_at", f.timestamp_micros((f.col("at") * 1e6).cast("bigint")))
        .withWatermark("sampled_at", INTERVAL)
        .groupBy(f.window("sampled_at", INTERVAL).alias("interval"))
        .agg(
            f.avg("busy").alias("busy"),
            f.max("tasks").alias("tasks"),
            f.count("*").alias("samples"),
        )
    )
    return received.join(busy, "interval").select(
        f.col("interval.start").alias("since"), "lines", "busy", "tasks", "samples"
    )
