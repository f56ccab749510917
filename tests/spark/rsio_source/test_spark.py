"""A real Spark reads publishers over rsio."""

from __future__ import annotations

import struct
import time

import pytest

from rsocket_trio import rsio
from rsocket_trio.spark.rsio_source.rsio_source import RsioDataSource
from tests.waiting import PATIENCE, wait_until


@pytest.fixture(scope="module")
def session(spark):
    spark.dataSource.register(RsioDataSource)
    return spark


def test_packed_records_are_read_in_parallel(session, publishing):
    """Each partition subscribes; whole blocks become columns."""

    def find(name: str, _connection: rsio.Connection):
        part = int(name.partition("part=")[2])
        records = [struct.pack(">qd", n, n / 2) for n in range(part, 30_000, 3)]
        return rsio.fixed_size(records, 16)

    table = (
        session.read.format("rsio")
        .options(uri=publishing(find), publisher="prices?part={partition}", numPartitions="3")
        .option("payloadFormat", "fixed")
        .schema("id BIGINT, price DOUBLE, _partition INT")
        .load()
    )
    found = table.selectExpr("count(*)", "sum(id)", "sum(price)", "max(_partition)").first()
    total = sum(range(30_000))
    assert tuple(found) == (30_000, total, total / 2, 2)


def test_a_limit_ends_the_subscription(session, numbers):
    """LIMIT takes some rows. The subscription is cancelled."""
    facts, uri = numbers
    facts.count = 10**9
    table = (
        session.read.format("rsio")
        .options(uri=uri, publisher="numbers", payloadFormat="utf8", prefetch="100")
        .load()
    )
    assert [row.data for row in table.limit(5).collect()] == ["0", "1", "2", "3", "4"]
    wait_until(lambda: facts.ended == 1)
    assert facts.sent < 100_000


def test_a_stream_goes_through_a_spool(session, publishing, tmp_path):
    """Each element once, in a table in memory."""
    records = [struct.pack(">qd", n, n / 2) for n in range(5000)]
    uri = publishing({"prices": rsio.fixed_size(records, 16)})
    query = (
        session.readStream.format("rsio")
        .options(uri=uri, publisher="prices", spool=str(tmp_path / "spool"))
        .option("payloadFormat", "fixed")
        .schema("id BIGINT, price DOUBLE")
        .load()
        .writeStream.format("memory")
        .queryName("rsio_prices")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        end = time.monotonic() + 2 * PATIENCE
        while session.table("rsio_prices").count() < 5000:
            assert time.monotonic() < end
            assert query.exception() is None
            time.sleep(0.2)
    finally:
        query.stop()
    found = session.sql("select count(*), sum(id), sum(price) from rsio_prices").first()
    total = sum(range(5000))
    assert tuple(found) == (5000, total, total / 2)
