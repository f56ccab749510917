"""The Spark application beside Kafka: it reads what there is, and ends; by either source.

``produce`` writes events to a topic. ``read`` runs a query with the trigger ``availableNow``, and
its outcome has the time from its start to its end. The argument is the directory with the jars of
the connector.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.control import read_command, write_outcome
from benchmarks.spark.processor import SPARK, processor_times, spent
from benchmarks.spark.spark_app import keep_standard_output, selected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def make_session(connector: Path) -> SparkSession:
    """Start Spark with the connector."""
    import pyspark

    from rsocket_trio.spark import session as start

    own = {jar.name for jar in Path(pyspark.__file__).parent.glob("jars/*.jar")}
    jars = ",".join(str(jar) for jar in connector.glob("*.jar") if jar.name not in own)
    session = start(
        "beside Kafka",
        config={
            "spark.jars": jars,
            "spark.ui.enabled": "false",
            "spark.driver.memory": "2g",
        },
        master="local[2]",
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


class Application:
    """Obeys the commands."""

    def __init__(self, session: SparkSession) -> None:
        self._session: Final = session

    def produce(self, *, files: str, options: Mapping[str, str]) -> dict[str, Any]:
        """Write the lines of files to a topic."""
        self._session.read.text(files).write.format("kafka").options(**options).save()
        return {}

    def read(
        self,
        *,
        source: str,
        options: Mapping[str, str],
        schema: str | None,
        select: Sequence[Sequence[str]],
        sink: str,
        directory: str,
        roots: Mapping[str, Sequence[int]],
    ) -> dict[str, Any]:
        """Run a query to its end."""
        parts = {SPARK: [_OWN], **roots}
        reader = self._session.readStream.format(source).options(**options)
        if schema is not None:
            reader = reader.schema(schema)
        before, begun = processor_times(parts), time.perf_counter()
        writer = selected(reader.load(), select).writeStream.format(sink)
        if sink != "noop":
            writer = writer.option("path", f"{directory}/table")
        query = (
            writer.option("checkpointLocation", f"{directory}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        elapsed = time.perf_counter() - begun
        used = spent(before, processor_times(parts))
        rows = sum(each.numInputRows for each in query.recentProgress)
        in_batches = sum(each.batchDuration for each in query.recentProgress if each.numInputRows)
        return {
            "rows": rows,
            "seconds": elapsed,
            "in batches": in_batches / 1000,
            "source": sum(used.get(name, 0.0) for name in roots),
            "Spark": sum(value for name, value in used.items() if name not in roots),
        }


def main() -> None:
    """Obey commands until there are no more."""
    keep_standard_output()
    application = Application(make_session(Path(sys.argv[1])))
    write_outcome({"ready": True})
    while (command := read_command()) is not None:
        try:
            outcome = getattr(application, command.pop("operation"))(**command)
        except Exception as error:  # The harness gets it, whatever it is.
            outcome = {"error": f"{type(error).__name__}: {error}"}
        write_outcome(outcome)


if __name__ == "__main__":
    import os

    _OWN: Final = os.getpid()
    main()
