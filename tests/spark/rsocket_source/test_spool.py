"""Streams with ``delivery=spool``: what a publisher sends is stored first, and read by offset."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator

import attrs
import cbor2
import pytest
import trio
from pyspark.sql.types import StructType

from rsocket_trio import Payload, Router
from rsocket_trio.collector import payloads_to_store
from rsocket_trio.spark.failures import ReadFailed
from rsocket_trio.spark.rsocket_source.rsocket_source import RSocketDataSource
from tests.spark.collectors import LocalCollector, received
from tests.spark.engine import Checkpoint, Query, read_batch
from tests.waiting import PATIENCE, wait_until

NUMBERS = StructType().add("number", "long").add("_offset", "long")


@attrs.define
class Publisher:
    """An endless stream, whose numbers go on for each subscriber. It never sends one again."""

    count: int = 0
    size: int = 1
    available: int = 10
    subscribers: int = 0
    left: int = 0
    data: list[bytes] = attrs.field(factory=list)

    def router(self) -> Router:
        router = Router()

        @router.request_stream("numbers")
        async def numbers(payload: Payload) -> AsyncIterator[dict[str, object]]:
            self.subscribers += 1
            self.data.append(payload.data)
            try:
                while True:
                    while self.count >= self.available:
                        await trio.sleep(0.005)
                    number = self.count
                    self.count += 1
                    yield {"number": number, "text": "x" * self.size}
            finally:
                self.left += 1

        return router


def query(options: dict[str, str], checkpoint: Checkpoint, schema=NUMBERS) -> Query:
    return Query(
        RSocketDataSource,
        {"delivery": "spool", "payloadFormat": "json", "pollTimeoutMs": "50", **options},
        checkpoint,
        schema=schema,
    )


def run_until(running: Query, rows: int, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while len(running.checkpoint.rows) < rows:
        running.trigger()
        assert time.monotonic() < end, f"{len(running.checkpoint.rows)} rows only"


@pytest.mark.parametrize("payload_format", ["json", "cbor"])
def test_elements_are_stored_and_read(serving, tmp_path, payload_format):
    """The publisher is asked for data of this format. The query leaves it when it stops."""
    publisher, checkpoint = Publisher(), Checkpoint()
    options = {
        "uri": serving(publisher.router()),
        "route": "numbers",
        "spool": str(tmp_path / "spool"),
        "payloadFormat": payload_format,
        "data": '{"from": 1}',
    }
    running = query(options, checkpoint)
    run_until(running, 10)
    publisher.available = 25
    run_until(running, 25)
    assert [(row["_offset"], row["number"]) for row in checkpoint.rows] == [
        (n, n) for n in range(25)
    ]
    assert running.trigger() is None
    running.stop(handler=True)
    wait_until(lambda: publisher.left == 1)
    sent = (
        json.loads(publisher.data[0])
        if payload_format == "json"
        else cbor2.loads(publisher.data[0])
    )
    assert sent == {"from": 1}


def test_restarts_read_each_stored_element_once(serving, tmp_path):
    """What came to the spool before the end is read after it. The publisher goes on."""
    publisher, checkpoint = Publisher(), Checkpoint()
    options = {
        "uri": serving(publisher.router()),
        "route": "numbers",
        "spool": str(tmp_path / "spool"),
    }
    for end in (10, 30, 60):
        publisher.available = end
        running = query(options, checkpoint)
        run_until(running, end)
        running.stop(handler=True)
        left = publisher.subscribers
        wait_until(lambda left=left: publisher.left == left)
    assert [row["number"] for row in checkpoint.rows] == list(range(60))
    assert publisher.subscribers == 3


def test_a_full_spool_stops_the_publisher(serving, tmp_path):
    """No credit is granted for elements that cannot be stored. With room, all of them come."""
    publisher, checkpoint = Publisher(size=10_000, available=10**9), Checkpoint()
    options = {
        "uri": serving(publisher.router()),
        "route": "numbers",
        "spool": str(tmp_path / "spool"),
        "maxSpoolSize": str(2**20),
    }
    running = query(options, checkpoint)
    running.trigger()  # It begins the collector, and has no rows.
    wait_until(lambda: publisher.count > 50)
    counts = [-1, publisher.count]
    while counts[-1] != counts[-2]:
        time.sleep(0.3)
        counts.append(publisher.count)
    # A megabyte is stored. Others are on the way: those of the window, 1024 at most.
    assert 100 <= publisher.count <= 105 + 1024 + 1
    run_until(running, 3000)
    assert [row["number"] for row in checkpoint.rows[:3000]] == list(range(3000))
    running.stop(handler=True)


def test_collectors_keep_payloads(tmp_path):
    """A production collector has subscribed by itself. Data and metadata are as they came."""
    collector, checkpoint = LocalCollector(tmp_path / "spool"), Checkpoint()
    payloads = [Payload(b"\xff", b"m"), Payload(b""), Payload(b"c")]
    collector.append(payloads_to_store(payloads, mime_type="application/octet-stream"))
    options = {
        "delivery": "spool",
        "collectors": str(collector.uri).removeprefix("tcp://"),
        "pollTimeoutMs": "50",
    }
    running = Query(RSocketDataSource, options, checkpoint)
    run_until(running, 3)
    rows = checkpoint.rows
    assert [(row["offset"], row["data"], row["metadata"]) for row in rows] == [
        (0, b"\xff", b"m"),
        (1, b"", None),
        (2, b"c", None),
    ]
    assert {row["collector"] for row in rows} == {collector.spool_id}
    assert abs(rows[0]["received_at"].timestamp() - time.time()) < 600
    running.stop(handler=True)
    again = read_batch(RSocketDataSource, options | {"startingOffsets": "earliest"})
    # The query has read the first batch, and the collector may have deleted it.
    assert again in ([], rows)
    collector.stop()


def test_a_batch_reads_what_is_kept(serving, tmp_path):
    """It subscribes to nothing. Malformed elements follow the mode."""
    collector = LocalCollector(tmp_path / "spool")
    texts = [b'{"number": 1}', b"no", b'{"number": 3}']
    collector.append(payloads_to_store([Payload(each) for each in texts], mime_type="text/plain"))
    collector.stop()
    options = {"delivery": "spool", "spool": str(tmp_path / "spool"), "payloadFormat": "json"}
    found = read_batch(RSocketDataSource, options, schema=NUMBERS)
    assert [row["number"] for row in found] == [1, None, 3]
    found = read_batch(RSocketDataSource, options | {"mode": "DROPMALFORMED"}, schema=NUMBERS)
    assert [row["number"] for row in found] == [1, 3]
    yesterday = {"endingTimestamp": str(round(time.time() * 1000) - 86_400_000)}
    assert read_batch(RSocketDataSource, options | yesterday, schema=NUMBERS) == []


def test_events_of_lumberjack_senders(tmp_path):
    """They are no payloads. The error says how to read them."""
    collector = LocalCollector(tmp_path / "spool")
    collector.append(received([b'{"number": 1}']))
    collector.stop()
    options = {"delivery": "spool", "spool": str(tmp_path / "spool")}
    with pytest.raises(ReadFailed, match=r'read by format\("lumberjack"\)'):
        read_batch(RSocketDataSource, options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "delivery=spool needs the option spool"),
        ({"spool": "x"}, "needs the options uri and route"),
        ({"spool": "x", "uri": "tcp://h:1"}, "needs the options uri and route"),
        ({"collectors": "h", "uri": "tcp://h:1"}, "uri and collectors exclude each other"),
        ({"spool": "x", "uri": "h", "route": "r"}, "scheme"),
        (
            {"spool": "x", "uri": "tcp://h:1", "route": "r", "limit": "5"},
            "there is no option limit",
        ),
    ],
)
def test_wrong_options(options, message):
    """They are an error before anything is read."""
    with pytest.raises(ValueError, match=message):
        query(options, Checkpoint())
