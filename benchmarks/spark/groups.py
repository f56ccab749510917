"""The tables of the Spark cases: the name of each group, and its heading."""

from __future__ import annotations

from typing import Final

__all__ = ["LATENCY", "ROWS", "SCALE", "SHORT", "SINKS", "SPARK_GROUPS", "STREAMS"]

STREAMS: Final = "spark-streams"
SCALE: Final = "spark-scale"
LATENCY: Final = "spark-latency"
SHORT: Final = "spark-short"
ROWS: Final = "spark-rsocket"
SINKS: Final = "spark-sinks"

SPARK_GROUPS: Final = {
    STREAMS: "Spark: from agents to a sink",
    SCALE: "Spark: more collectors, and two executors",
    LATENCY: "Spark: latency from an agent to a table",
    SHORT: "Spark: short runs",
    ROWS: "Spark: the RSocket source",
    SINKS: "Spark: sinks",
}
