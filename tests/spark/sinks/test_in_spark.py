"""The sinks in Spark, with a JVM: few tests, because each needs a session or an application."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
import trio

pytest.importorskip("pyspark")


from rsocket_trio import Router, lumberjack, serve
from rsocket_trio.spark import register, sink_receiver
from tests.programs import ROOT, environment
from tests.spark.sinks.helpers import Application

BATCHES = 3
ROWS = 1000
PATIENCE = 200
"""Seconds for an application of Spark, which takes twenty on an idle machine."""


@pytest.fixture
def responder(background, tmp_path):
    """Start a sink in a directory with an application: returns its URI and its receiver."""

    def start(application):
        async def run(task_status=trio.TASK_STATUS_IGNORED):
            router = Router()
            async with (
                sink_receiver(
                    router, "alerts", application, directory=tmp_path / "staged"
                ) as receiver,
                trio.open_nursery() as nursery,
            ):
                server = await nursery.start(serve, router, "tcp://127.0.0.1:0")
                task_status.started((str(server.uris[0]), receiver))

        return background.start(run)

    return start


@pytest.fixture
def files(tmp_path):
    """Three files of numbers: a batch each."""
    directory = tmp_path / "input"
    directory.mkdir()
    for number in range(BATCHES):
        lines = "".join(f"{each}\n" for each in range(number * ROWS, (number + 1) * ROWS))
        path = directory / f"{number}.txt"
        path.write_text(lines)
        os.utime(path, (1e9 + number, 1e9 + number))  # Spark takes the oldest first
    return directory


def expected(application) -> None:
    """Each row of the files arrived once, in the batch of its file."""
    assert [batch for _, batch, _ in application.batches] == [*range(BATCHES)]
    for _, batch, values in application.batches:
        assert sorted(values) == [*range(batch * ROWS, (batch + 1) * ROWS)]
    assert len({query for query, _, _ in application.batches}) == 1


def test_batch_writes(spark, responder):
    """All formats and types come through Spark, and a failing task leaves nothing."""
    found = []

    async def on_commit(batch):
        found.append((batch.format, [row async for row in batch.rows()], json.loads(batch.schema)))

    uri, receiver = responder(on_commit)
    register(spark)
    frame = spark.range(0, 3000, 1, 3).selectExpr(
        "id as v",
        "cast(id as decimal(10,2)) as price",
        "timestamp_seconds(id) as at",
        "named_struct('a', array(id, null), 'm', map('k', cast(id as double))) as nested",
        "cast(cast(id as string) as binary) as raw",
        "date_from_unix_date(cast(id as int)) as day",
    )

    def write(frame, format_):
        options = {"uri": uri, "route": "alerts", "payloadFormat": format_}
        frame.write.format("rsocket").options(**options).mode("append").save()

    for format_ in ("cbor", "json", "arrow"):
        write(frame, format_)
    assert [format_ for format_, _, _ in found] == ["cbor", "json", "arrow"]
    for _, rows, schema in found:
        assert [row["v"] for row in rows] == [*range(3000)]
        assert [field["name"] for field in schema["fields"]] == frame.columns
    assert found[1][1][5] == {
        "v": 5,
        "price": "5.00",
        "at": "1970-01-01T00:00:05Z",
        "nested": {"a": [5, None], "m": {"k": 5.0}},
        "raw": "NQ==",
        "day": "1970-01-06",
    }
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        write(spark.range(0, 300, 1, 3).selectExpr("1 / (250 - id) as v"), "cbor")
    assert len(found) == 3
    assert receiver.statistics().attempts == 0  # the abort has dropped those of other tasks
    with pytest.raises(Exception, match="did you mean payloadFormat"):
        frame.write.format("rsocket").options(uri=uri, route="a", payloadFromat="x").mode(
            "append"
        ).save()


def test_stream_writes(spark, responder, files, tmp_path):
    """Microbatches arrive once each, also with a second run on the same checkpoint."""
    application = Application()
    uri, receiver = responder(application)
    register(spark)
    for _ in range(2):
        query = (
            spark.readStream.format("text")
            .option("maxFilesPerTrigger", "1")
            .load(str(files))
            .selectExpr("cast(value as long) as v")
            .repartition(2)
            .writeStream.format("rsocket")
            .options(uri=uri, route="alerts", payloadFormat="arrow")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE)
        assert application.batches[0][0] == query.id
    expected(application)
    assert receiver.statistics().attempts == 0


def test_events_are_shipped(spark, background):
    """Rows become events of Lumberjack; text of JSON stays as it is."""
    events: list[dict[str, object]] = []

    async def take(batch: lumberjack.Batch) -> None:
        events.extend(batch.events)

    async def run(task_status=trio.TASK_STATUS_IGNORED):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(lumberjack.serve, take, "lumberjack://127.0.0.1:0")
            task_status.started(str(server.uris[0]))

    host = background.start(run).removeprefix("lumberjack://")
    register(spark)
    frame = spark.range(0, 30_000, 1, 3)
    for each in (
        frame.selectExpr("id", "concat('line ', id) as message"),
        frame.selectExpr("to_json(struct(id)) as value"),
    ):
        events.clear()
        each.write.format("lumberjack").option("hosts", host).mode("append").save()
        assert sorted(event["id"] for event in events) == [*range(30_000)]


def start_driver(uri, files, tmp_path) -> subprocess.Popen:
    """Start the application of `tests.spark.sinks.driver`, with a process group of its own."""
    arguments = [uri, files, tmp_path / "checkpoint", tmp_path / "marker"]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.sinks.driver", *map(str, arguments)],
        cwd=ROOT,
        env=environment(SPARK_LOCAL_IP="127.0.0.1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.programs
@pytest.mark.chaos
@pytest.mark.jvm
def test_kills_of_a_worker_and_of_the_driver(responder, files, tmp_path):
    """The process of a task is killed while it writes; then the driver, between the two commits.

    The handler kills the driver when it has the rows of batch 1. So the responder has committed the
    batch, and Spark has not: the next application writes it again.
    """
    application = Application()
    drivers: list[subprocess.Popen] = []

    async def on_commit(batch):
        await application(batch)
        if batch.batch == 1:
            os.killpg(drivers[0].pid, signal.SIGKILL)

    uri, receiver = responder(on_commit)
    drivers.append(start_driver(uri, files, tmp_path))
    _, errors = drivers[0].communicate(timeout=PATIENCE)
    assert drivers[0].returncode == -signal.SIGKILL, errors[-3000:]
    assert (tmp_path / "marker").exists()
    log = tmp_path / "checkpoint" / "commits"
    assert sorted(path.name for path in log.iterdir() if path.name.isdigit()) == ["0"]
    assert [batch for _, batch, _ in application.batches] == [0, 1]
    drivers.append(start_driver(uri, files, tmp_path))
    _, errors = drivers[1].communicate(timeout=PATIENCE)
    assert drivers[1].returncode == 0, errors[-3000:]
    expected(application)
    assert receiver.statistics().attempts == 0
    assert receiver.statistics().committed_batches == BATCHES
