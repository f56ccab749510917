"""``format("lumberjack")`` in a real Spark."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from rsocket_trio import lumberjack
from rsocket_trio.spark import lag
from rsocket_trio.spark.lumberjack_source import LumberjackDataSource
from rsocket_trio.spark.trio_thread import TrioThread
from tests.spark.collectors import LocalCollector, received

SCHEMA = (
    "n long, at timestamp, tags map<string,string>, o struct<d: date>, _offset long, bad string"
)


@pytest.fixture
def reads(spark):
    spark.dataSource.register(LumberjackDataSource)
    return lambda **options: spark.readStream.format("lumberjack").options(**options)


@pytest.fixture
def collector(tmp_path):
    made = LocalCollector(tmp_path / "spool")
    yield made
    made.stop()


@pytest.fixture
def to_parquet(spark, tmp_path):
    """Runs a query into files; returns it, or after its end with AvailableNow."""
    queries = []

    def begin(rows, *, name="one", available_now=True):
        write = (
            rows.writeStream.format("parquet")
            .option("path", str(tmp_path / name))
            .option("checkpointLocation", str(tmp_path / f"{name}-checkpoint"))
        )
        write = write.trigger(availableNow=True) if available_now else write
        query = write.start()
        queries.append(query)
        if available_now:
            query.awaitTermination(120)
        assert query.exception() is None
        return query

    yield begin
    for query in queries:
        query.stop()


@pytest.fixture
def written(spark, tmp_path):
    def read(name="one"):
        return spark.read.parquet(str(tmp_path / name))

    return read


def wait_for(condition, query):
    deadline = time.monotonic() + 90
    while not condition():
        assert query.exception() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_available_now_again_and_again(reads, collector, to_parquet, written):
    """The same checkpoint: each event comes once."""
    rows = reads(collectors=collector.uri, maxRowsPerTrigger="2000").load()
    for run in range(2):
        collector.ship(3000)
        to_parquet(rows)
        found = written().selectExpr(
            "count(*)", "count(distinct offset)", "sum(get_json_object(value, '$.n'))"
        )
        total = 3000 * (run + 1)
        assert tuple(found.first()) == (total, total, total * (total - 1) / 2)


def test_latest_and_a_restart(reads, collector, to_parquet, written):
    """With a trigger that goes on, and a stop between two batches."""
    collector.ship(5)
    rows = reads(collectors=collector.uri, startingOffsets="latest").schema("n long").load()
    query = to_parquet(rows, available_now=False)
    wait_for(lambda: query.lastProgress is not None, query)
    collector.ship(5)
    wait_for(lambda: collector.description.positions.get("spark") == 10, query)
    query.stop()
    collector.ship(5)
    query = to_parquet(rows, available_now=False)
    wait_for(lambda: collector.description.positions.get("spark") == 15, query)
    query.stop()
    assert sorted(row.n for row in written().collect()) == list(range(5, 15))


def test_from_a_time_on_and_the_lag(reads, collector, to_parquet, written):
    """What Spark hands on of the progress is what `lag` reads."""
    collector.ship(5)
    at = datetime.fromtimestamp(collector.description.newest_at, UTC) + timedelta(microseconds=1)
    collector.ship(3000)
    rows = reads(
        collectors=collector.uri, startingTimestamp=at.isoformat(), maxRowsPerTrigger="2000"
    ).load()
    query = to_parquet(rows)
    found = written().selectExpr("count(*)", "min(offset)").first()
    assert tuple(found) == (3000, 5)
    lags = [lag(SimpleNamespace(lastProgress=each)) for each in query.recentProgress]
    assert [each.rows for each in lags] == [3000, 1000, 0]
    assert lags[1].collectors[collector.spool_id].seconds > 0 == lags[2].seconds
    assert lag(query) == lags[-1]


def test_a_schema(spark, collector):
    """Nested columns, and a malformed event."""
    spark.dataSource.register(LumberjackDataSource)
    events = [
        {"n": 1, "at": "2026-11-22T10:00:00.5Z", "tags": {"a": "b"}, "o": {"d": "2026-11-22"}},
        {"n": 2},
        {"n": "x"},
    ]
    collector.append(received([json.dumps(event).encode() for event in events]))
    rows = (
        spark.read.format("lumberjack")
        .options(collectors=collector.uri, columnNameOfCorruptRecord="bad", minPartitions="2")
        .schema(SCHEMA)
        .load()
    )
    found = rows.selectExpr("n", "cast(at as string)", "tags['a']", "o.d", "_offset", "bad")
    one, two, three = sorted(found.collect(), key=lambda row: row["_offset"])
    assert tuple(one)[:3] == (1, "2026-11-22 10:00:00.5", "b")
    assert str(one.d) == "2026-11-22"
    assert tuple(two) == (2, None, None, None, 1, None)
    assert tuple(three) == (None, None, None, None, 2, '{"n": "x"}')
    assert rows.limit(1).count() == 1


def test_limit_in_the_middle_of_a_range(spark, collector):
    """The task closes its connection, and the collector is not held up."""
    spark.dataSource.register(LumberjackDataSource)
    for _ in range(50):
        collector.ship(2000)
    rows = spark.read.format("lumberjack").option("collectors", collector.uri).load()
    assert len(rows.limit(10).collect()) == 10
    assert rows.count() == 100_000


def test_a_union_of_two_reads(reads, tmp_path, to_parquet, written, dead_port):
    """Both reads share one embedded collector, also in the second run on the checkpoint."""
    uri = f"lumberjack://127.0.0.1:{dead_port}"
    rows = reads(listen=uri, spool=str(tmp_path / "spool")).schema("n long, _offset long").load()
    thread = TrioThread("sender")

    async def send(numbers):
        async with lumberjack.connect(uri) as shipper:
            await shipper.send([{"n": n} for n in numbers])

    query = to_parquet(rows.union(rows), available_now=False)
    thread.run(send, range(1000), timeout=90)
    wait_for(lambda: written_rows(written) == 2000, query)
    query.stop()
    # The port and the spool are free for the next run, on the same checkpoint.
    query = to_parquet(rows.union(rows), available_now=False)
    thread.run(send, range(1000, 1500), timeout=90)
    wait_for(lambda: written_rows(written) == 3000, query)
    query.stop()
    thread.close()
    counts = written().groupBy("n", "_offset").count()
    assert {row["count"] for row in counts.collect()} == {2}
    assert sorted(row.n for row in counts.collect()) == list(range(1500))


def written_rows(written):
    try:
        return written().count()
    except Exception as error:  # Spark has no class for a directory that is not there yet.
        if "PATH_NOT_FOUND" in str(error) or "UNABLE_TO_INFER_SCHEMA" in str(error):
            return 0
        raise
