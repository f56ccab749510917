"""Batch reads of publishers, by the engine of the tests and real servers."""

from __future__ import annotations

import ssl
import struct
import time
from collections.abc import AsyncIterator

import pytest
import trustme
from pyspark.sql.types import StructType

from rsocket_trio import Router, rsio
from rsocket_trio.reactive_streams import failed, from_iterable, never
from rsocket_trio.spark.failures import ReadFailed
from rsocket_trio.spark.rsio_source.rsio_source import RsioDataSource
from tests.spark.engine import make_source, read_batch
from tests.waiting import wait_until

RECORDS = StructType().add("id", "long").add("price", "double")


def read(uri: str, schema: StructType | None = None, **options: str):
    return read_batch(RsioDataSource, {"uri": uri, **options}, schema=schema)


def open_read(uri: str, **options: str):
    """The iterator of the only partition."""
    made, schema = make_source(RsioDataSource, {"uri": uri, **options}, None)
    reader = made.reader(schema)
    (partition,) = reader.partitions()
    return reader.read(partition)


def records(count: int):
    return [struct.pack(">qd", number, number / 2) for number in range(count)]


def test_all_elements_with_their_offsets(numbers):
    """The default columns."""
    facts, uri = numbers
    facts.count = 3
    assert read(uri, publisher="numbers") == [
        {"data": b"%d" % n, "partition": 0, "offset": n} for n in range(3)
    ]


@pytest.mark.parametrize("options", [{"prefetch": "7"}, {"maxUnreadBytes": "1"}])
def test_many_elements_in_small_windows(numbers, options):
    """They are requested again and again."""
    facts, uri = numbers
    facts.count = 3000
    found = read(uri, publisher="numbers", payloadFormat="utf8", **options)
    assert [row["data"] for row in found] == [str(n) for n in range(3000)]


def test_a_slow_consumer_slows_down_the_publisher(numbers):
    """The publisher is never further ahead than the window and what waits in the sockets."""
    facts, uri = numbers
    facts.count = 400
    taken = 0
    for batch in open_read(uri, publisher="numbers", prefetch="10"):
        time.sleep(0.002)
        assert facts.sent <= taken + 10
        taken += batch.num_rows
    assert taken == 400


def test_a_read_that_is_left_cancels_the_subscription(numbers):
    """As LIMIT does."""
    facts, uri = numbers
    facts.count = 10**9
    rows = open_read(uri, publisher="numbers", prefetch="10")
    next(rows)
    rows.close()
    wait_until(lambda: facts.ended == 1)
    assert facts.sent <= 20


@pytest.mark.parametrize("limit", [1, 25, 3000])
def test_a_limit_is_demand(numbers, limit):
    """The publisher is asked for no more, and its subscription is cancelled then."""
    facts, uri = numbers
    facts.count = 10**9
    assert len(read(uri, publisher="numbers", limit=str(limit))) == limit
    wait_until(lambda: facts.ended == 1)
    assert facts.sent == limit


def test_each_partition_is_a_subscription(numbers):
    """Its number has a place in the name of the publisher."""
    facts, uri = numbers
    found = read(uri, publisher="numbers?part={partition}&of={partitions}", numPartitions="3")
    assert len(found) == 30
    assert facts.names == [f"numbers?part={n}&of=3" for n in range(3)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("count", [0, 1, 20_000])
def test_packed_records_become_columns(publishing, count, packed):
    """Elements of a fixed size, also where the publisher has them in blocks already."""
    elements = records(count)
    source = [b"".join(elements)] if packed and count else elements
    target = {"records": rsio.fixed_size(source, 16, packed=packed)}
    found = read(publishing(target), RECORDS, publisher="records", payloadFormat="fixed")
    assert [(row["id"], row["price"]) for row in found] == [(n, n / 2) for n in range(count)]


def test_a_limit_of_packed_records(publishing):
    """An endless publisher gives as many as are asked for."""
    target = {"records": rsio.fixed_size(lambda: iter(lambda: b"\0" * 16, None), 16)}
    uri = publishing(target)
    found = read(uri, RECORDS, publisher="records", payloadFormat="fixed", limit="12345")
    assert len(found) == 12345


def test_fixed_records_of_a_publisher_without_a_fixed_size(publishing):
    """They are decoded one by one; those of another size are malformed."""
    target = {"records": from_iterable([*records(2), b"short"])}
    found = read(publishing(target), RECORDS, publisher="records", payloadFormat="fixed")
    assert [row["id"] for row in found] == [0, 1, None]


def test_a_router_is_a_server_of_publishers(publishing):
    """Its streams are publishers."""
    router = Router()

    @router.request_stream("rows")
    async def rows(count: int) -> AsyncIterator[dict[str, int]]:
        for number in range(count):
            yield {"number": number}

    schema = StructType().add("number", "long")
    for payload_format in ("json", "cbor"):
        mime_type = f"application/{payload_format}"
        uri = publishing(router, data_mime_type=mime_type)
        found = read(uri, schema, publisher="rows?count=5", payloadFormat=payload_format)
        assert [row["number"] for row in found] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("payload_format", ["binary", "fixed"])
def test_errors_of_the_publisher(publishing, payload_format):
    """The task fails with its text."""
    uri = publishing({"bad": failed(rsio.PublisherError("the disk is full"))})
    schema = RECORDS if payload_format == "fixed" else None
    with pytest.raises(ReadFailed, match=r"publisher bad .*the disk is full"):
        read(uri, schema, publisher="bad", payloadFormat=payload_format)


def test_a_publisher_that_is_not_there(numbers):
    """The text says so."""
    _, uri = numbers
    with pytest.raises(ReadFailed, match=r"publisher nothing .*unknown publisher"):
        read(uri, publisher="nothing")


@pytest.mark.parametrize("payload_format", ["binary", "fixed"])
def test_an_idle_publisher(publishing, payload_format):
    """The task does not wait for ever."""
    uri = publishing({"idle": never()})
    schema = RECORDS if payload_format == "fixed" else None
    with pytest.raises(ReadFailed, match=r"no element of the publisher idle for 0\.2 s"):
        read(uri, schema, publisher="idle", payloadFormat=payload_format, timeoutMs="200")


def test_no_server(dead_port):
    """The address and the reason are named."""
    with pytest.raises(ReadFailed, match=f"no connection to rsio://127.0.0.1:{dead_port} within"):
        read(f"rsio://127.0.0.1:{dead_port}", publisher="x", timeoutMs="300")


def test_another_server_is_tried(numbers, dead_port):
    """The options ``uris``."""
    facts, uri = numbers
    facts.count = 2
    uris = f"rsio://127.0.0.1:{dead_port}, {uri}"
    found = read_batch(RsioDataSource, {"uris": uris, "publisher": "numbers"})
    assert len(found) == 2


def test_tls(publishing, tmp_path):
    """With the authority that the options name."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    target = {"numbers": from_iterable([b"1", b"2"])}
    uri = publishing(target, "rsios://127.0.0.1:0", ssl_context=context)
    found = read(uri, publisher="numbers", **{"tls.ca": str(tmp_path / "ca.pem")})
    assert [row["data"] for row in found] == [b"1", b"2"]
