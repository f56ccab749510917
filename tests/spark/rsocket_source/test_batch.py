"""Batch reads, by the engine of the tests and real responders."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import AsyncIterator

import pytest
import trio
import trustme
from pyspark.sql.types import StructType

from rsocket_trio import (
    ApplicationError,
    BearerAuthentication,
    Payload,
    RejectedSetup,
    Router,
    SimpleAuthentication,
)
from rsocket_trio.spark.failures import ReadFailed
from rsocket_trio.spark.rows.decoded import MalformedElement
from rsocket_trio.spark.rsocket_source.rsocket_source import RSocketDataSource
from tests.spark.engine import make_source, read_batch
from tests.waiting import wait_until

NUMBERS = StructType().add("number", "long").add("_partition", "integer").add("_offset", "long")


def read(uri: str, schema: StructType | None = None, **options: str):
    return read_batch(RSocketDataSource, {"uri": uri, **options}, schema=schema)


def open_read(uri: str, **options: str):
    """The iterator of the only partition."""
    made, schema = make_source(RSocketDataSource, {"uri": uri, **options}, None)
    reader = made.reader(schema)
    (partition,) = reader.partitions()
    return reader.read(partition)


def test_all_elements_with_their_offsets(numbers):
    """The default columns."""
    facts, uri = numbers
    facts.count = 3
    assert read(uri, route="numbers") == [
        {"data": b"%d" % n, "metadata": None, "partition": 0, "offset": n} for n in range(3)
    ]


def test_many_elements_in_small_windows(numbers):
    """Credit is granted again and again."""
    facts, uri = numbers
    facts.count = 5000
    found = read(uri, route="numbers", payloadFormat="utf8", initialRequestN="7")
    assert [row["data"] for row in found] == [str(n) for n in range(5000)]
    found = read(uri, route="numbers", payloadFormat="utf8", maxUnreadBytes="1")
    assert [row["data"] for row in found] == [str(n) for n in range(5000)]


@pytest.mark.parametrize("window", [1, 10, 64])
def test_a_slow_consumer_slows_down_the_responder(numbers, window):
    """Spark takes one batch after the other. The responder is never ahead by more than a window."""
    facts, uri = numbers
    facts.count = 400
    taken = 0
    for batch in open_read(uri, route="numbers", initialRequestN=str(window)):
        time.sleep(0.002)
        assert facts.sent <= taken + window
        taken += batch.num_rows
        assert facts.sent <= taken + window
    assert taken == 400


def test_a_read_that_is_left_cancels_the_stream(numbers):
    """As LIMIT does."""
    facts, uri = numbers
    facts.count = 10**9
    rows = open_read(uri, route="numbers", initialRequestN="10")
    next(rows)
    rows.close()
    wait_until(lambda: facts.ended == 1)
    assert facts.sent <= 10


def test_a_limit_is_credit(numbers):
    """The responder gets no credit for more, and its stream is cancelled then."""
    facts, uri = numbers
    facts.count = 10**9
    for limit in (1, 25, 5000):
        facts.sent = 0
        assert len(read(uri, route="numbers", limit=str(limit))) == limit
        assert facts.sent <= limit
    wait_until(lambda: facts.ended == 3)


def test_a_limit_beyond_the_end(numbers):
    """The read ends with the stream."""
    _, uri = numbers
    assert len(read(uri, route="numbers", limit="50")) == 10


def test_each_partition_is_a_request(serving):
    """A handler with parameters gets its share."""
    router = Router()

    @router.request_stream("rows")
    async def rows(share: dict[str, int]) -> AsyncIterator[dict[str, int]]:
        for number in range(share["partition"], 10, share["partitions"]):
            yield {"number": number}

    for payload_format in ("cbor", "json"):
        found = read(
            serving(router), NUMBERS, route="rows", numPartitions="4", payloadFormat=payload_format
        )
        assert [tuple(row.values()) for row in found] == [
            (number, partition, offset)
            for partition in range(4)
            for offset, number in enumerate(range(partition, 10, 4))
        ]


def test_request_response(serving):
    """One row for each partition, or none if the response has no value."""
    router = Router()

    @router.request_response("square.0")
    async def zero() -> bytes:
        return b"0"

    @router.request_response("square.1")
    async def one() -> None:
        return None

    @router.request_response("square.2")
    async def two() -> bytes:
        return b"4"

    found = read(
        serving(router),
        route="square.{partition}",
        numPartitions="3",
        interaction="request_response",
    )
    assert [(row["data"], row["partition"], row["offset"]) for row in found] == [
        (b"0", 0, 0),
        (b"4", 2, 0),
    ]


def failing(when: int) -> Router:
    router = Router()

    @router.request_stream("bad")
    async def bad() -> AsyncIterator[Payload]:
        for _ in range(when):
            yield Payload(b"1")
        raise ApplicationError("the disk is full")

    @router.request_response("bad")
    async def bad_answer() -> bytes:
        raise ApplicationError("the disk is full")

    return router


@pytest.mark.parametrize("when", [0, 1, 100])
@pytest.mark.parametrize("interaction", ["request_stream", "request_response"])
def test_errors_of_the_responder(serving, when, interaction):
    """The task fails with code and reason."""
    with pytest.raises(
        ReadFailed, match="route bad, partition 0 with APPLICATION_ERROR: the disk is full"
    ):
        read(serving(failing(when)), route="bad", interaction=interaction, initialRequestN="10")


def test_a_route_that_is_not_there(serving):
    """INVALID, with the text of the router."""
    with pytest.raises(ReadFailed, match="INVALID"):
        read(serving(Router()), route="nothing")


@pytest.mark.parametrize("interaction", ["request_stream", "request_response"])
def test_an_idle_publisher(serving, interaction):
    """The task does not wait for ever, and the request is cancelled."""
    router, ended = Router(), []

    async def idle() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(1)

    @router.request_stream("idle")
    async def stream() -> AsyncIterator[bytes]:
        await idle()
        yield b""

    @router.request_response("idle")
    async def response() -> bytes:
        await idle()
        return b""

    with pytest.raises(ReadFailed, match=r"option\s+timeoutMs"):
        read(serving(router), route="idle", interaction=interaction, timeoutMs="2000")
    wait_until(lambda: bool(ended))


def test_a_slow_consumer_is_no_idle_publisher(numbers):
    """Without credit, the responder cannot send. So Spark's time does not count."""
    facts, uri = numbers
    facts.count = 3
    taken = 0
    for batch in open_read(uri, route="numbers", initialRequestN="1", timeoutMs="2000"):
        time.sleep(2.2)
        taken += batch.num_rows
    assert taken == 3


def test_no_responder(dead_port):
    """The error says how long it was tried, and why it failed."""
    with pytest.raises(ReadFailed, match=r"within 0\.4 s .option timeoutMs.: "):
        read(f"tcp://127.0.0.1:{dead_port}", route="a", timeoutMs="400")


def test_another_responder_is_tried(dead_port, numbers):
    """The second address, if there is nothing at the first."""
    _, uri = numbers
    found = read_batch(
        RSocketDataSource,
        {"uris": f"tcp://127.0.0.1:{dead_port}, {uri}", "route": "numbers"},
    )
    assert len(found) == 10


def test_a_silent_address_leaves_time_for_the_others(numbers):
    """It takes connections, and does not answer."""
    _, uri = numbers
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        found = read_batch(
            RSocketDataSource,
            {"uris": f"tcp://127.0.0.1:{port},{uri}", "route": "numbers", "timeoutMs": "4000"},
        )
    assert len(found) == 10


def test_partitions_begin_with_different_responders(serving):
    """Load is spread over the addresses."""
    uris = []
    for name in (b"a", b"b"):
        router = Router()

        def add(router: Router, name: bytes) -> None:
            @router.request_stream("who")
            async def who() -> AsyncIterator[bytes]:
                yield name

        add(router, name)
        uris.append(serving(router))
    found = read_batch(
        RSocketDataSource, {"uris": ",".join(uris), "route": "who", "numPartitions": "4"}
    )
    assert [row["data"] for row in found] == [b"a", b"b", b"a", b"b"]


def test_a_refused_connection(serving):
    """It is not tried again."""

    async def refuse(setup, requester):
        raise RejectedSetup("not you")

    with pytest.raises(ReadFailed, match="refused the connection: REJECTED_SETUP: not you"):
        read(serving(refuse), route="a", timeoutMs="600000")


def test_authentication(serving):
    """The SETUP has the credentials."""
    seen = []

    async def authenticate(authentication, facts):
        if authentication is not None:
            seen.append(authentication)
        return "me"

    router = Router(authenticate=authenticate)

    @router.request_stream("rows")
    async def rows() -> AsyncIterator[bytes]:
        yield b"a"

    uri = serving(router)
    assert read(uri, route="rows", **{"auth.token": "t"})
    assert read(uri, route="rows", **{"auth.username": "me", "auth.password": "p"})
    assert BearerAuthentication("t") in seen
    assert SimpleAuthentication("me", "p") in seen


def test_websocket_and_tls(serving, tmp_path):
    """Addresses of all kinds."""
    authority = trustme.CA()
    cert = authority.issue_cert("127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    cert.configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    router = Router()

    @router.request_stream("rows")
    async def rows() -> AsyncIterator[bytes]:
        yield b"a"

    plain = serving(router, "ws://127.0.0.1:0/rsocket")
    assert [row["data"] for row in read(plain, route="rows")] == [b"a"]
    for uri in ("tls://127.0.0.1:0", "wss://127.0.0.1:0/rsocket"):
        safe = serving(router, uri, ssl_context=context)
        found = read(safe, route="rows", **{"tls.ca": str(tmp_path / "ca.pem")})
        assert [row["data"] for row in found] == [b"a"]
        with pytest.raises(ReadFailed, match="certificate"):
            read(safe, route="rows", timeoutMs="3000")


def test_malformed_elements_fail_the_task(numbers):
    """With FAILFAST; the text says which element it is."""
    _, uri = numbers
    with pytest.raises(MalformedElement, match="offset 0 of partition 0"):
        read(uri, NUMBERS, route="numbers", payloadFormat="json", mode="FAILFAST")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initialRequestn": "1", "initialReqestN": "1"}, "did you mean initialRequestN"),
        ({"payloadFormat": "json"}, "give one, e.g. .schema"),
    ],
)
def test_wrong_reads(options, message):
    """They are an error before anything is read."""
    with pytest.raises(ValueError, match=message):
        read("tcp://127.0.0.1:1", **options)


def test_options_of_streams_may_stay():
    """A program can read the same source both ways."""
    made, schema = make_source(
        RSocketDataSource, {"uri": "tcp://127.0.0.1:1", "startingOffsets": "latest"}, None
    )
    assert made.reader(schema).partitions()
