"""A Spark application, as a user writes one, that does what a test tells it.

Usage: ``python application.py MASTER DIRECTORY``. Commands come as lines of JSON on standard input,
``{"id": 1, "do": "start", ...}``, and each is answered by a line ``{"id": 1, "result": ...}`` or
``{"id": 1, "error": ...}``. Commands that take their time run in threads of their own, so that
another one can cancel them. The application ends with its standard input.

A *gate* is a file. While the file is there, the code behind the gate waits, and the names of those
that wait are in ``<file>.waiting``.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from rsocket_trio.spark import session


def pass_gate(gate: str) -> None:
    """Wait while the gate is there."""
    if os.path.exists(gate):
        with open(f"{gate}.waiting", "a") as file:
            file.write(f"{os.getpid()}\n")
        while os.path.exists(gate):
            time.sleep(0.01)


IN_THREADS = {"collect", "process", "wait"}
"""The other commands run in the main thread: in others the JVM does not know the session, and Spark
does not find sinks in Python."""


class Application:
    """The commands.

    Args:
        spark: The session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._queries: dict[str, Any] = {}

    def start(
        self,
        name: str,
        sources: list[dict[str, Any]],
        checkpoint: str,
        sink: dict[str, Any],
        trigger: dict[str, Any],
        gate: str | None = None,
        after: int = 0,
        column: str = "value",
        select: list[str] | None = None,
        identity: list[str] | None = None,
    ) -> str:
        """Start a query, with the union of its sources.

        Args:
            name: What the test calls it.
            sources: For each, its ``format`` and its ``options``.
            checkpoint: The directory.
            sink: ``format``, ``path`` and ``options``; the format ``batches`` is `_write_batch`.
            trigger: As for ``DataStreamWriter.trigger``.
            gate: A file. Rows wait for it behind the source, in a Python worker of its own.
            after: The rows of a partition that pass before the gate.
            column: The column whose values pass the gate.
            select: Expressions of SQL for the columns of the sink.
            identity: Expressions of SQL. Rows that have come with the same values are dropped.
        """
        frames = [
            self._spark.readStream.format(each["format"]).options(**each["options"]).load()
            for each in sources
        ]
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.union(other)
        if gate is not None:
            frame = gated(frame, gate, after, column)
        if identity is not None:
            frame = without_doubles(frame, identity)
        if select is not None:
            frame = frame.selectExpr(*select)
        writer = frame.writeStream.trigger(**trigger).option("checkpointLocation", checkpoint)
        writer = writer.options(**sink.get("options", {}))
        if sink["format"] == "batches":
            writer = writer.foreachBatch(batch_writer(sink["path"]))
        else:
            writer = writer.format(sink["format"])
            if "path" in sink:
                writer = writer.option("path", sink["path"])
        query = self._queries[name] = writer.start()
        return str(query.id)

    def state(self, name: str) -> dict[str, Any]:
        """Return whether a query runs, its error, and its last progress."""
        query = self._queries[name]
        error = query.exception()
        return {
            "active": query.isActive,
            "error": None if error is None else str(error),
            "progress": json.loads(query.lastProgress.json) if query.lastProgress else None,
        }

    def wait(self, name: str, seconds: float) -> bool:
        """Wait until a query ends; an error is not raised. Return whether it has ended."""
        with contextlib.suppress(Exception):  # `state` has it.
            return bool(self._queries[name].awaitTermination(seconds))
        return True

    def process(self, name: str) -> None:
        """Wait until a query has read all that there is now; an error of it is raised."""
        self._queries[name].processAllAvailable()

    def stop(self, name: str) -> None:
        """Stop a query."""
        self._queries[name].stop()

    def stop_all(self) -> None:
        """Stop all queries."""
        for query in self._spark.streams.active:
            query.stop()

    def collect(
        self,
        format: str,  # noqa: A002 - as Spark calls it
        options: dict[str, str],
        limit: int | None = None,
        gate: str | None = None,
        column: str = "value",
        keep: int | None = None,
        group: str = "read",
    ) -> list[dict[str, Any]]:
        """Read once, and return the rows.

        Args:
            format: The format.
            options: Its options.
            limit: How many rows Spark takes.
            gate: As for `start`.
            column: The column whose values pass the gate.
            keep: The characters of it that are returned.
            group: A name for `cancel`.
        """
        context = self._spark.sparkContext
        context.setJobGroup(group, group)
        frame = self._spark.read.format(format).options(**options).load()
        if gate is not None:
            frame = gated(frame, gate, 0, column)
        if keep is not None:
            frame = frame.withColumn(column, frame[column].substr(1, keep))
        if limit is not None:
            frame = frame.limit(limit)
        return [json.loads(row) for row in frame.toJSON().collect()]

    def cancel(self, group: str = "read") -> None:
        """Cancel what `collect` does."""
        self._spark.sparkContext.cancelJobGroup(group)


def gated(frame: DataFrame, gate: str, after: int, column: str = "value") -> DataFrame:
    """Let the rows of each partition pass a gate, some of them before it."""
    passed: dict[int, int] = {}  # by the attempt of a task, in a worker

    def wait(value: str) -> str:
        task = TaskContext.get()
        assert task is not None
        attempt = task.taskAttemptId()
        passed[attempt] = passed.get(attempt, 0) + 1
        if passed[attempt] > after:
            pass_gate(gate)
        return value

    return frame.withColumn(column, udf(wait, "string")(frame[column]))


def without_doubles(frame: DataFrame, identity: list[str]) -> DataFrame:
    """Drop the rows whose events have come before, as docs/howto/spark-guarantees.md advises."""
    names = [f"identity{number}" for number in range(len(identity))]
    named = [f"{each} as {name}" for each, name in zip(identity, names, strict=True)]
    frame = frame.selectExpr("*", *named).withWatermark("received_at", "1 hour")
    return frame.dropDuplicatesWithinWatermark(names)


class SinkFailed(Exception):
    """A sink has a batch, and fails, as a test wants."""


def batch_writer(path: str) -> Callable[[DataFrame, int], None]:
    """Return a sink that keeps each attempt to write a batch, and then waits for a gate.

    The gate is ``hold`` in the directory. So a test can end the application after the sink has a
    batch, and before Spark has noted that. With a file ``fail`` there, only the query ends then.
    """

    def write(frame: DataFrame, batch: int) -> None:
        frame.write.json(f"{path}/batch-{batch}/{uuid.uuid4()}")
        pass_gate(f"{path}/hold")
        if os.path.exists(f"{path}/fail"):
            raise SinkFailed("as the test wants")

    return write


def main() -> None:
    """Answer commands until standard input ends."""
    master, directory = sys.argv[1:]
    Path(directory).mkdir(exist_ok=True)
    spark = session(
        "bad days",
        config={
            "spark.ui.enabled": "false",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.sql.warehouse.dir": f"{directory}/warehouse",
            "spark.local.dir": f"{directory}/local",
            # The function that waits at a gate gets the rows one by one.
            "spark.sql.execution.pythonUDF.arrow.enabled": "false",
            # Sinks in Python get rows so many at a time: some before a gate, and some behind it.
            "spark.sql.execution.arrow.maxRecordsPerBatch": "250",
            "spark.sql.shuffle.partitions": "2",
        },
        master=master,
    )
    spark.sparkContext.setLogLevel("ERROR")
    application = Application(spark)
    answers = threading.Lock()

    def say(**answer: Any) -> None:
        with answers:
            print(json.dumps(answer), flush=True)

    def do(number: int, command: str, arguments: dict[str, Any]) -> None:
        try:
            result = getattr(application, command)(**arguments)
        except Exception as error:  # The test gets it, whatever it is.
            say(id=number, error=f"{type(error).__name__}: {error}")
        else:
            say(id=number, result=result)

    say(id=0, result="ready")
    for line in sys.stdin:
        command = json.loads(line)
        number, name = command.pop("id"), command.pop("do")
        if name in IN_THREADS:
            threading.Thread(target=do, args=(number, name, command), daemon=True).start()
        else:
            do(number, name, command)
    # The JVM ends with this process.
    os._exit(0)


if __name__ == "__main__":
    main()
