"""A real Spark reads from responders."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import pytest
import trio

from rsocket_trio import ApplicationError, Payload, Router
from rsocket_trio.spark.replay import ReplayList, replay_router
from rsocket_trio.spark.rsocket_source.rsocket_source import RSocketDataSource
from rsocket_trio.spool import NotASpool, describe_spool
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def session(spark):
    spark.dataSource.register(RSocketDataSource)
    return spark


def test_partitions_are_read_in_parallel(session, serving):
    """Each partition is a request, with its number in the data."""
    router = Router()

    @router.request_stream("rows")
    async def rows(share: dict[str, int]) -> AsyncIterator[dict[str, int]]:
        for number in range(share["partition"], 1000, share["partitions"]):
            yield {"number": number}

    table = (
        session.read.format("rsocket")
        .options(uri=serving(router), route="rows", payloadFormat="cbor", numPartitions="3")
        .schema("number BIGINT, _partition INT")
        .load()
    )
    found = table.collect()
    assert sorted(row.number for row in found) == list(range(1000))
    assert all(row.number % 3 == row._partition for row in found)


def test_a_limit_ends_the_stream_at_the_responder(session, numbers):
    """LIMIT takes some rows. The stream of the responder is cancelled."""
    facts, uri = numbers
    facts.count = 10**9
    table = (
        session.read.format("rsocket")
        .options(uri=uri, route="numbers", payloadFormat="utf8", initialRequestN="100")
        .load()
    )
    assert [row.data for row in table.limit(5).collect()] == ["0", "1", "2", "3", "4"]
    wait_until(lambda: facts.ended == 1)
    assert facts.sent < 100_000


def test_an_error_of_the_responder_fails_the_query(session, serving):
    """The text has the code and the reason."""
    router = Router()

    @router.request_stream("bad")
    async def bad() -> AsyncIterator[Payload]:
        yield Payload(b"1")
        raise ApplicationError("the disk is full")

    table = session.read.format("rsocket").options(uri=serving(router), route="bad").load()
    with pytest.raises(Exception, match="APPLICATION_ERROR: the disk is full"):
        table.collect()


def test_a_cancelled_job_ends_the_stream_at_the_responder(session, serving):
    """The publisher is idle, so the task waits for an element when its job is cancelled."""
    router = Router()
    began, ended = threading.Event(), threading.Event()

    @router.request_stream("idle")
    async def idle() -> AsyncIterator[Payload]:
        try:
            yield Payload(b"1")
            began.set()
            await trio.sleep_forever()
        finally:
            ended.set()

    uri = serving(router)
    errors = []

    def read() -> None:
        session.sparkContext.setJobGroup("idle", "an idle publisher", interruptOnCancel=True)
        try:
            session.read.format("rsocket").options(uri=uri, route="idle").load().collect()
        except Exception as error:  # the error of a cancelled job is Spark's own
            errors.append(str(error))

    reading = threading.Thread(target=read)
    reading.start()
    assert began.wait(30)
    session.sparkContext.cancelJobGroup("idle")
    assert ended.wait(30)
    reading.join(30)
    assert "cancelled" in errors[0]


def test_each_element_is_read_once_over_restarts(session, serving, tmp_path):
    """A stream with AvailableNow, three times with one checkpoint, while elements are added."""
    elements: list[list[bytes]] = [[], []]
    uri = serving(replay_router("rows", ReplayList(*elements)))

    def run() -> None:
        query = (
            session.readStream.format("rsocket")
            .options(uri=uri, route="rows", payloadFormat="json", maxRowsPerTrigger="100")
            .schema("number BIGINT, _partition INT, _offset BIGINT")
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    for _ in range(3):
        for part in elements:
            begin = len(part)
            part += [b'{"number": %d}' % number for number in range(begin, begin + 170)]
        run()
    run()
    rows = session.read.parquet(str(tmp_path / "rows")).collect()
    found = sorted((row._partition, row._offset, row.number) for row in rows)
    assert found == [(part, number, number) for part in (0, 1) for number in range(510)]


def test_a_spool_in_the_query(session, serving, tmp_path):
    """An ordinary publisher. It goes on over a restart of the query, and is idle at its end."""
    router, here, left = Router(), [0, 50], []

    @router.request_stream("numbers")
    async def numbers() -> AsyncIterator[dict[str, int]]:
        try:
            while True:
                while here[0] == here[1]:
                    await trio.sleep(0.01)
                here[0] += 1
                yield {"number": here[0] - 1}
        finally:
            left.append(1)

    uri = serving(router)
    for run, end in enumerate((50, 80), 1):
        here[1] = end
        query = (
            session.readStream.format("rsocket")
            .options(uri=uri, route="numbers", delivery="spool", spool=str(tmp_path / "spool"))
            .options(payloadFormat="cbor", pollTimeoutMs="100")
            .schema("number BIGINT, _offset BIGINT")
            .load()
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "rows"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        wait_until(lambda: stored(query, tmp_path / "spool") == end)  # noqa: B023 - called here
        query.processAllAvailable()
        query.stop()
        wait_until(lambda: len(left) == run)  # noqa: B023 - called here only
    rows = session.read.parquet(str(tmp_path / "rows")).collect()
    assert sorted((row._offset, row.number) for row in rows) == [(n, n) for n in range(80)]


def stored(query, spool) -> int:
    """The elements in the spool."""
    if query.exception() is not None:
        raise query.exception()
    try:
        return describe_spool(spool).head
    except NotASpool:
        return 0
