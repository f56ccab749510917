"""A source of numbers that writes each call to a file; ``head`` is a file with their count."""

from __future__ import annotations

import json
import time
from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StructType


class TracingDataSource(DataSource):
    """The option ``directory`` has the files ``head`` and ``calls``; ``fail`` makes reads fail."""

    @classmethod
    def name(cls):
        return "tracing"

    def schema(self):
        return StructType().add("number", LongType())

    def streamReader(self, schema):
        return TracingReader(Path(self.options["directory"]))


class Range(InputPartition):
    def __init__(self, start, stop):
        self.start = start
        self.stop = stop


class TracingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, directory):
        self.directory = directory
        self.target = None
        self.log("__init__")

    def log(self, *call):
        with (self.directory / "calls").open("a") as file:
            file.write(json.dumps(call) + "\n")

    def __getstate__(self):
        self.log("__getstate__")
        return vars(self)

    def head(self):
        return int((self.directory / "head").read_text())

    def getDefaultReadLimit(self):
        self.log("getDefaultReadLimit")
        return ReadMaxRows(10)

    def prepareForTriggerAvailableNow(self):
        self.log("prepareForTriggerAvailableNow")
        self.target = self.head()

    def initialOffset(self):
        self.log("initialOffset")
        return {"offset": 0}

    def latestOffset(self, start, limit):
        head = self.head() if self.target is None else self.target
        end = {"offset": min(head, start["offset"] + limit.max_rows)}
        self.log("latestOffset", start, end)
        time.sleep(0.02)  # Spark asks again at once.
        return end

    def reportLatestOffset(self):
        self.log("reportLatestOffset")
        return {"offset": self.head()}

    def partitions(self, start, end):
        self.log("partitions", start, end)
        return [Range(start["offset"], end["offset"])]

    def read(self, partition):
        self.log("read", partition.start, partition.stop)
        if (self.directory / "fail").exists():
            raise LookupError("asked for")
        for number in range(partition.start, partition.stop):
            yield (number,)

    def commit(self, end):
        self.log("commit", end)

    def stop(self):
        self.log("stop")
