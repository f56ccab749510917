"""A Spark application of the tests: it writes the rows of files to a sink, batch by batch.

``python -m tests.spark.sinks.driver URI INPUT CHECKPOINT MARKER``

Each file is a batch. The first task that has sent rows kills its own process, once: it leaves the
file MARKER. Spark runs the task again.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql.datasource import DataSource

from rsocket_trio.spark.sinks.rsocket_sink.settings import RSocketSinkSettings
from rsocket_trio.spark.sinks.rsocket_sink.writer import RSocketStreamWriter
from rsocket_trio.spark.spark_session import start


class KilledWriter(RSocketStreamWriter):
    """A writer whose process is killed once."""

    marker = ""

    def write(self, iterator):
        return super().write(self._killed(iterator))

    def _killed(self, iterator):
        for number, batch in enumerate(iterator):
            if number == 2 and not Path(self.marker).exists():
                Path(self.marker).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch


class KilledSink(DataSource):
    """``format("rsocket-sink")``, whose first task is killed."""

    @classmethod
    def name(cls):
        return "rsocket-sink"

    def streamWriter(self, schema, overwrite):
        options = dict(self.options)
        marker = options.pop("marker")
        settings = RSocketSinkSettings.read(options, overwrite=overwrite)
        writer = KilledWriter(settings, schema)
        writer.marker = marker
        return writer


def main(uri: str, source: str, checkpoint: str, marker: str) -> None:
    """Write all files that there are, and end."""
    config = {
        "spark.driver.memory": "512m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.ui.enabled": "false",
    }
    spark = start("sink", config=config, master="local[2,4]")
    spark.dataSource.register(KilledSink)
    lines = (
        spark.readStream.format("text")
        .option("maxFilesPerTrigger", "1")
        .load(source)
        .selectExpr("cast(value as long) as v")
        .repartition(2)
    )
    query = (
        lines.writeStream.format("rsocket-sink")
        .option("uri", uri)
        .option("route", "alerts")
        .option("marker", marker)
        .option("timeoutMs", "20000")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
