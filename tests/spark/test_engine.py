"""The engine of the tests calls a source like Spark does."""

from __future__ import annotations

import itertools
import json

import pytest

pytest.importorskip("pyspark")

from tests.spark.engine import Checkpoint, Crash, Query
from tests.spark.tracing_source import TracingDataSource


class Ours:
    """Runs queries by `Query`."""

    def __init__(self, directory):
        self.options = {"directory": str(directory)}
        self.checkpoint = Checkpoint()

    def start(self, *, available_now=False):
        self.query = Query(
            TracingDataSource, self.options, self.checkpoint, available_now=available_now
        )

    def process_all(self):
        self.query.process_all()

    def fail(self):
        with pytest.raises(LookupError):
            self.query.process_all()

    def stop(self):
        self.query.stop()

    def forget(self):
        self.checkpoint = Checkpoint()


class Sparks:
    """Runs them by Spark."""

    def __init__(self, directory, spark):
        self.directory = directory
        self.numbers = itertools.count()
        self.spark = spark
        spark.dataSource.register(TracingDataSource)
        self.forget()

    def start(self, *, available_now=False):
        self.available_now = available_now
        rows = self.spark.readStream.format("tracing").option("directory", str(self.directory))
        write = rows.load().writeStream.format("noop")
        write = write.option("checkpointLocation", str(self.checkpoint))
        trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
        self.query = write.trigger(**trigger).start()

    def process_all(self):
        if self.available_now:
            self.query.awaitTermination()
        else:
            self.query.processAllAvailable()

    def fail(self):
        from pyspark.errors import StreamingQueryException

        with pytest.raises(StreamingQueryException):
            self.query.processAllAvailable()

    def stop(self):
        self.query.stop()

    def forget(self):
        self.checkpoint = self.directory / f"checkpoint {next(self.numbers)}"


def scenes(queries, directory):
    """Yield the calls of several runs; repeated calls while there is no data count once."""

    def head(number):
        (directory / "head").write_text(str(number))

    def calls():
        lines = (directory / "calls").read_text().splitlines()
        (directory / "calls").unlink()
        found = [tuple(map(str, json.loads(line))) for line in lines]
        idle = []
        for call in found:
            if call[0] == "reportLatestOffset" or (call[0] == "latestOffset" and call in idle):
                continue
            idle = [call] if call[0] == "latestOffset" else []
            yield call

    head(25)
    queries.start()
    queries.process_all()
    head(27)
    queries.process_all()
    queries.stop()
    yield "a new query", [*calls()]
    head(30)
    queries.start()
    queries.process_all()
    queries.stop()
    yield "a restart", [*calls()]
    head(34)
    (directory / "fail").touch()
    queries.start()
    queries.fail()
    yield "a batch that fails", [*calls()]
    (directory / "fail").unlink()
    head(36)
    queries.start()
    queries.process_all()
    queries.stop()
    yield "a restart that repeats a batch", [*calls()]
    for name in ("AvailableNow", "AvailableNow without new data"):
        head(57)
        queries.start(available_now=True)
        queries.process_all()
        queries.stop()
        yield name, [*calls()]
    queries.forget()
    (directory / "fail").touch()
    queries.start()
    queries.fail()
    yield "a first batch that fails", [*calls()]
    (directory / "fail").unlink()
    head(15)
    queries.start()
    queries.process_all()
    queries.stop()
    yield "a restart that repeats the first batch", [*calls()]
    queries.forget()
    head(0)
    queries.start()
    queries.process_all()
    head(4)
    queries.process_all()
    queries.stop()
    yield "an empty first batch", [*calls()]


def test_the_calls_are_those_of_spark(spark, tmp_path):
    """In all these runs."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    found = dict(scenes(Ours(ours), ours))
    for name, calls in scenes(Sparks(theirs, spark), theirs):
        assert found[name] == calls, name


@pytest.fixture
def options(tmp_path):
    (tmp_path / "head").write_text("25")
    return {"directory": str(tmp_path)}


@pytest.mark.parametrize("place", ["before log", "after log", "after partitions", "before commit"])
@pytest.mark.parametrize("batch", [0, 1, 2])
def test_a_killed_query_goes_on(options, place, batch):
    """Each row is in the sink once."""
    checkpoint = Checkpoint()
    query = Query(TracingDataSource, options, checkpoint)
    for _ in range(batch):
        query.trigger()
    with pytest.raises(Crash):
        query.trigger(crash=place)
    assert query.ended
    Query(TracingDataSource, options, checkpoint).process_all()
    assert [row["number"] for row in checkpoint.rows] == [*range(25)]


def test_a_worker_that_dies_is_replaced(options):
    """Its task is run again."""
    checkpoint = Checkpoint()
    attempts = []

    def dies(batch, partition, attempt):
        attempts.append((batch, attempt))
        return 0 if batch == 1 and attempt < 2 else None

    assert Query(TracingDataSource, options, checkpoint, dies=dies).process_all() == 3
    assert attempts == [(0, 0), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert len(checkpoint.rows) == 25


def test_the_sink_notices_other_rows():
    """A batch that is repeated must be the same."""
    checkpoint = Checkpoint()
    checkpoint.write(0, [{"number": 1}])
    checkpoint.write(0, [{"number": 1}])
    with pytest.raises(AssertionError, match="repeated with other rows"):
        checkpoint.write(0, [{"number": 2}])
