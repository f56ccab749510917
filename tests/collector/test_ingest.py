"""Events that peers send by RSocket: fire_and_forget and request_channel."""

from __future__ import annotations

import json
import tracemalloc
from collections import deque

import attrs
import cbor2
import pytest
import trio
import trio.testing

from rsocket_trio import ConnectionConfig, Invalid, Limits, Metadata, Payload, connect
from rsocket_trio.collector import EVENTS, IngestConfig
from rsocket_trio.collector.client import READER_CONFIG
from rsocket_trio.collector.gathering import ITEM_COST, Gathering, size_of
from rsocket_trio.collector.ingest import drain
from rsocket_trio.collector.ingest_config import COLLECTOR_CONFIG
from rsocket_trio.collector.own_metadata import own_metadata
from rsocket_trio.errors import ApplicationError, ConnectionClosed
from rsocket_trio.metadata import (
    MIME,
    BearerAuthentication,
    CompositeMetadata,
    DataMimeType,
    MetadataEntry,
)
from tests.collector.running import data, payloads, running, stored
from tests.waiting import until

MIB = 2**20
JSON = {"data_mime_type": "application/json"}


def numbers(count, first=0):
    return [Payload(b"%d" % number) for number in range(first, first + count)]


async def test_fire_and_forget(directory):
    """Events are stored in their order, in batches, with facts about where they came from."""
    async with running(directory) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            for each in numbers(500):
                await requester.fire_and_forget(each, route=EVENTS)
            await until(lambda: collector.spool.head == 500)
            assert collector.statistics().connections == 1
        batches = stored(directory)
        assert b"".join(each.data for each in batches) == b"".join(b"%d\n" % n for n in range(500))
        assert len(batches) < 50
        for batch in batches:
            assert batch.encoding == "json-lines"
            assert batch.facts.keys() == {"source", "route", "peer", "mime"}
            assert batch.facts["source"] == "rsocket"
            assert batch.facts["route"] == "events"
            assert batch.facts["mime"] == "application/json"
            assert batch.facts["peer"].startswith("127.0.0.1:")
        numbers_now = collector.statistics()
        assert (numbers_now.stored, numbers_now.dropped, numbers_now.pending_size) == (500, 0, 0)


@pytest.mark.parametrize(
    "limit",
    [{"max_batch_events": 2}, {"max_batch_size": 2 * (1 + ITEM_COST)}],
    ids=lambda limit: str(*limit),
)
async def test_enough_events_do_not_linger(directory, limit):
    """A batch that is exactly as large as it may be is stored at once, and the next one begins."""
    async with running(directory, ingest=IngestConfig(linger=1000, **limit)) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            for number in range(4):
                await requester.fire_and_forget(Payload(b"%d" % number), route=EVENTS)
            await until(lambda: collector.spool.head == 4)
    assert [each.count for each in stored(directory)] == [2, 2]


async def test_fire_and_forget_into_a_full_spool(directory, caplog):
    """What fits into the bounds waits; the rest is dropped, counted, and never crashes anything."""
    ingest = IngestConfig(max_pending_size=10_000, linger=0)
    async with running(directory, max_size=5000, ingest=ingest) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            for _ in range(100):
                await requester.fire_and_forget(Payload(b"1" * 500), route=EVENTS)
            await until(lambda: collector.statistics().dropped > 50)
            assert collector.statistics().pending_size <= 10_000
            assert "is dropped" in caplog.text
            head = collector.spool.head
            await collector.spool.commit("q", head)
            await until(lambda: collector.spool.head > head)
            for _ in range(20):
                await collector.spool.commit("q", collector.spool.head)
                await trio.sleep(0.002)
            numbers_now = collector.statistics()
            assert numbers_now.stored + numbers_now.dropped == 100


@pytest.mark.parametrize("stays", [True, False])
async def test_a_flood_beyond_the_limits_of_a_connection(directory, stays):
    """Events that the connection drops are counted as well, also when it is over."""
    limits = attrs.evolve(COLLECTOR_CONFIG.limits, max_active_requests=3)
    config = attrs.evolve(COLLECTOR_CONFIG, limits=limits)
    async with running(directory, rsocket=config) as collector:

        def counted():
            numbers_now = collector.statistics()
            return numbers_now.stored + numbers_now.dropped

        async with connect(collector.uris[0], **JSON) as requester:
            for each in numbers(5000):
                await requester.fire_and_forget(each, route=EVENTS)
            if stays:
                await until(lambda: counted() == 5000)
        await until(lambda: counted() == 5000)
        assert collector.statistics().dropped > 0
        await until(lambda: collector.statistics().connections == 0)
        assert counted() == 5000


async def test_the_bound_of_all_connections(directory):
    """One connection leaves others their share, and all together are bounded, to the byte."""
    ingest = IngestConfig(max_all_pending_size=1500, max_pending_size=900, linger=100)
    async with running(directory, ingest=ingest) as collector:
        async with (
            connect(collector.uris[0], **JSON) as one,
            connect(collector.uris[0], **JSON) as two,
        ):
            for requester, dropped in ((one, 7), (two, 15)):
                for _ in range(10):
                    await requester.fire_and_forget(Payload(b"1" * (300 - ITEM_COST)), route=EVENTS)
                await until(lambda dropped=dropped: collector.statistics().dropped == dropped)
            assert collector.statistics().pending_size == 300 * 5
            await collector.aclose(grace=2)
    assert len(data(directory)) == 5


@pytest.mark.parametrize(
    ("config", "limits", "settings"),
    [
        (
            COLLECTOR_CONFIG,
            {
                "max_payload_size": 16 * MIB,
                "max_reassembly_size": 32 * MIB,
                "max_requests_size": 32 * MIB,
                "max_unread_size": 64 * MIB,
            },
            {"fragment_size": MIB // 4},
        ),
        (
            READER_CONFIG,
            {
                "max_payload_size": 1024 * MIB,
                "max_reassembly_size": 1152 * MIB,
                "max_unread_size": 1152 * MIB,
            },
            {"keepalive_interval": 5.0, "max_lifetime": 20.0},
        ),
    ],
    ids=["collector", "reader"],
)
def test_what_differs_from_any_connection(config, limits, settings):
    """These limits and times are told on the pages: nobody changes them by accident."""
    assert config == ConnectionConfig(limits=Limits(**limits), **settings)


def test_small_events_count_what_they_cost():
    """Millions of them stay within the bounds of the memory, in every version of Python."""
    tracemalloc.start()
    try:
        events = deque(
            own_metadata(Payload(bytes(bytearray(1))), "text/plain", "x/y") for _ in range(10_000)
        )
        memory, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert memory <= 1.02 * sum(size_of(each.payload) for each in events)


async def test_a_channel(directory):
    """Each run of events gets a receipt when it is durable."""
    async with running(directory) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            receipts = []
            async with requester.request_channel(numbers(5000), route=EVENTS) as replies:
                async for reply in replies:
                    receipts.append(json.loads(reply.data))
                    assert collector.spool.head >= sum(each["count"] for each in receipts)
            at = 0
            for each in receipts:
                assert each["first"] == at
                at += each["count"]
            assert at == 5000
            assert len(receipts) < 100
        assert data(directory) == [each.data for each in numbers(5000)]


async def test_receipts_in_cbor(directory):
    """They are CBOR if the data of the connection are."""
    async with running(directory) as collector, connect(collector.uris[0]) as requester:
        async with requester.request_channel(
            [Payload(cbor2.dumps({"a": 1}), b"")], route=EVENTS
        ) as replies:
            found = [cbor2.loads(each.data) async for each in replies]
        assert found == [{"first": 0, "count": 1}]
        [batch] = stored(directory)
        assert batch.encoding == "payloads"
        assert batch.facts["mime"] == "application/cbor"


async def test_a_sender_that_waits_for_each_receipt(directory):
    """It gets one soon: a batch waits for more events for a short time only."""
    async with running(directory) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            send, receive = trio.open_memory_channel(0)
            async with requester.request_channel(receive, route=EVENTS) as replies:
                for number in range(5):
                    await send.send(Payload(b"%d" % number))
                    with trio.fail_after(30):
                        assert json.loads((await replies.receive()).data)["first"] == number
                await send.aclose()
                with pytest.raises(trio.EndOfChannel):
                    await replies.receive()


async def test_a_full_spool_holds_a_channel_back(directory):
    """Its sender gets no more credit, and loses nothing."""
    sent = 0

    async def source():
        nonlocal sent
        for number in range(3000):
            yield Payload(b"%0500d" % number)
            sent += 1

    async with running(directory, max_size=50_000) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            async with requester.request_channel(source(), route=EVENTS) as replies:
                await until(lambda: collector.spool.full)
                await trio.sleep(0.05)
                before = sent
                await trio.sleep(0.1)
                assert sent == before < 1500
                assert requester.statistics().open_streams == 1
                count = 0
                async for reply in replies:
                    count += json.loads(reply.data)["count"]
                    await collector.spool.commit("q", collector.spool.head)
                assert count == 3000


async def test_what_is_kept_of_metadata(directory):
    """Route, authentication and the MIME type are not; other entries are."""
    entry = ("application/x.mine", b"\1")
    async with running(directory) as collector:
        async with connect(collector.uris[0]) as requester:
            for metadata in (
                Metadata(auth=BearerAuthentication("secret"), data_mime_type="application/json"),
                Metadata(auth=BearerAuthentication("secret"), extra=[entry]),
            ):
                await requester.fire_and_forget(Payload(b"{}"), route=EVENTS, metadata=metadata)
            await until(lambda: collector.spool.head == 2)
        one, two = stored(directory)
        assert (one.encoding, one.facts["mime"]) == ("json-lines", "application/json")
        assert (two.encoding, two.facts["mime"]) == ("payloads", "application/cbor")
        kept = CompositeMetadata([MetadataEntry(*entry)]).encode()
        assert payloads(directory) == [Payload(b"{}"), Payload(b"{}", kept)]
        assert b"secret" not in (directory / "spool.sqlite3").read_bytes()
        assert b"secret" not in (directory / "spool.sqlite3-wal").read_bytes()


async def test_types_of_metadata_in_capital_letters(directory):
    """They name the same types, also when they are not sent as numbers: the token is no event's."""
    entries = b"".join(
        bytes([len(name) - 1]) + name.title().encode() + len(content).to_bytes(3, "big") + content
        for name, content in (
            (MIME.ROUTING, bytes([len(EVENTS)]) + EVENTS.encode()),
            (MIME.AUTHENTICATION, BearerAuthentication("secret").encode()),
            ("Message/x.rsocket.authentication.bearer.v0", b"secret"),
            (MIME.MIME_TYPE, DataMimeType("application/json").encode()),
        )
    )
    async with running(directory) as collector:
        async with connect(collector.uris[0]) as requester:
            sent = [Payload(b"1", entries), Payload(b"2", entries)]
            async with requester.request_channel(sent) as replies:
                assert [each async for each in replies]
        assert {each.facts["mime"] for each in stored(directory)} == {"application/json"}
        assert payloads(directory) == [Payload(b"1"), Payload(b"2")]


async def test_damaged_metadata_are_dropped(directory):
    """They could hide a password."""
    async with running(directory) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            damaged = Payload(b"2", b"\xff\0\0\0secret")
            async with requester.request_channel([Payload(b"1"), damaged], route=EVENTS) as replies:
                await replies.receive()
        assert payloads(directory) == [Payload(b"1"), Payload(b"2")]


async def test_metadata_of_another_type(directory):
    """They are kept as they are, if they are no routes."""
    async with running(directory) as collector:
        for mime_type in (MIME.ROUTING, "application/x.mine"):
            async with connect(
                collector.uris[0], **JSON, metadata_mime_type=mime_type
            ) as requester:
                route = b"\6events"
                if mime_type == MIME.ROUTING:
                    await requester.fire_and_forget(Payload(b"1", route))
        await until(lambda: collector.spool.head == 1)
        assert payloads(directory) == [Payload(b"1")]


async def test_an_event_larger_than_the_spool(directory):
    """A channel is told; fire_and_forget drops it; others are stored."""
    async with running(directory, max_size=2000) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            await requester.fire_and_forget(Payload(bytes(3000)), route=EVENTS)
            await until(lambda: collector.statistics().dropped == 1)
            async with requester.request_channel([Payload(bytes(3000))], route=EVENTS) as replies:
                with pytest.raises(Invalid, match="does not fit"):
                    await replies.receive()
            await requester.fire_and_forget(Payload(b"1"), route=EVENTS)
            await until(lambda: collector.spool.head == 1)


async def test_a_channel_that_fails(directory):
    """It ends at once; what has no receipt may be stored or not, and others go on."""

    async def source():
        yield Payload(b"1")
        await trio.sleep(0.05)
        raise ApplicationError("no more")

    async with running(directory) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            with pytest.raises(ApplicationError):
                async with requester.request_channel(source(), route=EVENTS) as replies:
                    async for _ in replies:
                        pass
            async with requester.request_channel(numbers(3), route=EVENTS) as replies:
                assert sum([json.loads(each.data)["count"] async for each in replies]) == 3
        assert data(directory)[-3:] == [b"0", b"1", b"2"]


async def test_an_item_names_another_type(directory):
    """A batch has one MIME type."""
    async with running(directory) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            text = Metadata(data_mime_type="text/plain").encode(MIME.COMPOSITE_METADATA)
            items = [Payload(b"1"), Payload(b"x", text), Payload(b"y")]
            async with requester.request_channel(items, route=EVENTS) as replies:
                assert len([each async for each in replies]) == 2
        assert [each.facts["mime"] for each in stored(directory)] == [
            "application/json",
            "text/plain",
        ]
        assert payloads(directory) == [Payload(b"1"), Payload(b"x"), Payload(b"y")]


async def test_a_graceful_stop(directory):
    """Events that have been taken are stored and acknowledged; channels end."""
    async with running(directory, ingest=IngestConfig(linger=1000)) as collector:
        async with connect(collector.uris[0], **JSON) as requester, trio.open_nursery() as tasks:
            for each in numbers(10):
                await requester.fire_and_forget(each, route=EVENTS)
            send, receive = trio.open_memory_channel(0)
            async with requester.request_channel(receive, route=EVENTS) as replies:
                for each in numbers(5, 10):
                    await send.send(each)
                await until(lambda: collector.statistics().pending_size == 10 * (1 + ITEM_COST))
                await trio.sleep(0.05)
                tasks.start_soon(collector.aclose)
                with trio.fail_after(30):
                    [receipt] = [json.loads(each.data) async for each in replies]
                assert receipt["count"] == 5
    assert sorted(map(int, data(directory))) == list(range(15))


async def test_a_stop_does_not_wait_for_ever(directory):
    """Of a full spool, after the grace; what is not stored is not acknowledged."""
    async with running(directory, max_size=3000) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            async with requester.request_channel(
                [Payload(b"%0300d" % n) for n in range(100)], route=EVENTS
            ) as replies:
                await until(lambda: collector.spool.full)
                count = 0
                with trio.fail_after(30):
                    await collector.aclose(grace=0.2)
                with pytest.raises((ConnectionClosed, ApplicationError)):
                    async for reply in replies:
                        count += json.loads(reply.data)["count"]
    assert count <= len(data(directory)) < 100


async def test_a_batch_has_its_size_exactly(autojump_clock):
    """The event that reaches the size is the last one, although more have arrived."""
    event = Payload(b"1" * 100)
    config = IngestConfig(max_batch_size=2 * size_of(event), linger=5)
    send, receive = trio.open_memory_channel[Payload](3)
    for _ in range(3):
        send.send_nowait(event)
    gathering = Gathering(receive, config)
    await gathering.fill()
    assert gathering.full
    assert gathering.take() == [event] * 2


def test_what_has_come_of_a_stream_that_is_left():
    """It is taken, to the end or to the error, as far as there is room in the batch."""
    for more in (trio.EndOfChannel(), ApplicationError("no more"), trio.WouldBlock()):
        stream = Arrived([Payload(b"1"), Payload(b"2"), more])
        gathering = Gathering(stream, IngestConfig())
        drain(gathering)
        assert gathering.take() == [Payload(b"1"), Payload(b"2")]
    gathering = Gathering(Arrived(numbers(3)), IngestConfig(max_batch_events=2))
    drain(gathering)
    assert gathering.take() == numbers(2)


class Arrived:
    """A stream of which these events have arrived, and then this error."""

    def __init__(self, events):
        self.events = deque(events)

    def receive_nowait(self):
        event = self.events.popleft()
        if isinstance(event, Exception):
            raise event
        return event
