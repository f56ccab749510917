"""Readers and senders that stall, flood or lie: bounded, and others go on."""

from __future__ import annotations

import json
from math import inf, nan

import pytest
import trio

from rsocket_trio import Invalid, Payload, Rejected, connect
from rsocket_trio.codecs import DEFAULT_CODECS
from rsocket_trio.collector import (
    EVENTS,
    INFO,
    POSITION,
    READ,
    CollectorLimits,
    IngestConfig,
    ReadRequest,
    connect_collector,
)
from rsocket_trio.collector.messages import (
    BatchHead,
    ForgetRequest,
    InfoRequest,
    InstanceInfo,
    PositionRequest,
    SpoolInfo,
)
from rsocket_trio.errors import StreamError
from rsocket_trio.metadata import MIME
from rsocket_trio.spool import WrongSpool
from tests.collector.running import data, running
from tests.spool.helpers import sized
from tests.waiting import until

JSON = {"data_mime_type": "application/json"}


def request(spool, **changes):
    fields = {"spool_id": spool.spool_id, "start": 0, "stop": spool.head} | changes
    return Payload(DEFAULT_CODECS.encode(ReadRequest(**fields), ReadRequest, MIME.CBOR))


def test_what_a_request_may_leave_out():
    """A request of few words asks for little, and forces nothing."""
    for text, meant in (
        (
            "{}",
            InfoRequest(
                reach_from=None,
                reach_size=None,
                since=None,
                lag_from=None,
                epoch=None,
                instances=False,
            ),
        ),
        (
            '{"spool_id":"s","consumer":"c"}',
            ForgetRequest(spool_id="s", consumer="c", instance=None, force=False),
        ),
    ):
        assert DEFAULT_CODECS.decoder(type(meant), MIME.JSON)(text.encode()) == meant


async def test_readers_that_give_no_demand(directory):
    """Each has one batch at most on the way; those who read are served at once."""
    limits = CollectorLimits(max_reads=20, max_reads_per_connection=10, stall_time=0.05)
    async with running(directory, limits=limits) as collector:
        await collector.spool.commit("q", 0)
        for _ in range(50):
            await collector.spool.append(sized(50_000))
        async with trio.open_nursery() as nursery:

            async def stall():
                async with connect(collector.uris[0]) as requester, trio.open_nursery() as streams:

                    async def one():
                        async with requester.request_stream(
                            request(collector.spool), route=READ, prefetch=0, initial_request_n=1
                        ) as items:
                            await items.receive()
                            await trio.sleep_forever()

                    for _ in range(10):
                        streams.start_soon(one)

            for _ in range(3):
                nursery.start_soon(stall)
                await trio.sleep(0.1)
            async with connect_collector(collector.uris[0]) as client:
                async with client.read(0, 50, spool_id=collector.spool.spool_id) as batches:
                    assert len([each async for each in batches]) == 50
            nursery.cancel_scope.cancel()


@pytest.mark.limits_row("collector: ranges whose batches are not taken")
async def test_a_reader_that_does_not_read_its_socket(directory):
    """The collector stores events meanwhile, and other readers get theirs."""
    async with running(directory) as collector:
        await collector.spool.commit("q", 0)
        for _ in range(40):
            await collector.spool.append(sized(500_000))
        port = int(collector.uris[0].rpartition(":")[2])
        mute = await trio.open_tcp_stream("127.0.0.1", port)
        async with mute:
            seen = []
            async with connect(collector.uris[0]) as requester:
                # The frames of a real client, sent by one that never reads.
                transport = requester._connection.transport
                send = transport.send_frames

                async def tee(frames):
                    seen.extend(frames)
                    await send(frames)

                transport.send_frames = tee
                async with requester.request_stream(
                    request(collector.spool), route=READ, prefetch=64
                ) as items:
                    await items.receive()
            setup = (
                b"\0\0\0\0\4\0\0\1\0\0\0\0\x4e\x20\0\1\x5f\x90"
                b"\x27message/x.rsocket.composite-metadata.v0\x10application/cbor"
            )
            for frame in [setup, *seen[:1]]:
                await mute.send_all(len(frame).to_bytes(3, "big") + frame)
            await trio.sleep(0.1)
            async with connect_collector(collector.uris[0]) as client:
                assert collector.statistics().connections == 2
                head = collector.spool.head
                async with client.read(0, head, spool_id=collector.spool.spool_id) as batches:
                    assert len([each async for each in batches]) == 40
            await collector.spool.append(sized(500))


async def test_requests_that_make_no_sense(directory):
    """Each is answered with INVALID, and the connection goes on."""
    async with running(directory) as collector:
        await collector.spool.append(sized(100, count=5))
        async with connect(collector.uris[0]) as requester:
            for data_ in (b"", b"\xff", b"\xa0", b"\xa1\x61a\x01", b"\x9f" * 1000):
                for route in (INFO, POSITION):
                    if route == INFO and data_ in (b"\xa0", b"\xa1\x61a\x01"):
                        continue  # All of its fields may be absent.
                    with pytest.raises(Invalid):
                        await requester.request_response(Payload(data_), route=route)
                async with requester.request_stream(Payload(data_), route=READ) as items:
                    with pytest.raises(Invalid):
                        await items.receive()
            for changes in (
                {"start": -1},
                {"start": 3, "stop": 2},
                {"start": 2**70, "stop": 2**70},
                {"stop": 2**64},
                {"spool_id": "x" * 10_000},
            ):
                async with requester.request_stream(
                    request(collector.spool, **changes), route=READ
                ) as items:
                    with pytest.raises(StreamError):
                        await items.receive()
            assert await requester.request_response(Payload(b"\xa0"), route=INFO)


async def test_a_flood_of_positions(directory):
    """New names are refused beyond the limits, and nothing grows."""
    async with running(directory) as collector, connect_collector(collector.uris[0]) as client:
        mine = collector.spool.spool_id
        refused = 0
        for number in range(200):
            try:
                await client.commit(f"q{number % 3}", 0, instance=str(number), spool_id=mine)
            except Rejected:
                refused += 1
            try:
                await client.commit(f"c{number}", 0, instance="a", spool_id=mine)
            except Rejected:
                refused += 1
        assert refused >= 400 - 16
        assert len(collector.spool.positions()) <= 8


async def test_a_channel_without_demand_for_receipts(directory):
    """Its events are stored up to a window; others go on."""
    async with running(directory, ingest=IngestConfig(linger=0)) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            sent = 0

            async def source():
                nonlocal sent
                while True:
                    yield Payload(b"1")
                    sent += 1

            async with requester.request_channel(
                source(), route=EVENTS, prefetch=0, initial_request_n=1
            ) as replies:
                await replies.receive()
                await trio.sleep(0.2)
                before = sent
                await trio.sleep(0.1)
                assert sent == before < 10_000
                async with requester.request_channel([Payload(b"2")], route=EVENTS) as others:
                    assert json.loads((await others.receive()).data)["count"] == 1
    assert data(directory)[-1] == b"2"


async def test_an_event_beyond_the_limit(directory):
    """It ends its stream; the connection goes on."""
    async with running(directory) as collector:
        async with connect(collector.uris[0], **JSON) as requester:
            items = [Payload(b"1"), Payload(bytes(17 * 2**20))]
            async with requester.request_channel(items, route=EVENTS) as replies:
                with pytest.raises(StreamError):
                    async for _ in replies:
                        pass
            await requester.fire_and_forget(Payload(b"1"), route=EVENTS)
            await until(lambda: collector.spool.head >= 1)


async def test_a_long_identity_is_not_sent_back(directory):
    """JSON would make it six times as long, and the client would not know the error."""
    async with running(directory) as collector, connect_collector(collector.uris[0]) as client:
        with pytest.raises(WrongSpool) as caught:
            await client.commit("q", 0, instance="a", spool_id="\1" * 1_000_000)
        assert len(str(caught.value)) < 1000


async def test_channels_of_one_connection_are_limited(directory):
    """Each holds a batch in memory while the spool is full; 16384 streams may be open."""
    ingest = IngestConfig(max_channels_per_connection=2, linger=0)
    async with running(directory, max_size=4000, ingest=ingest) as collector:
        async with connect(collector.uris[0], **JSON) as requester, trio.open_nursery() as nursery:

            async def flood(task_status):
                items = [Payload(b"1" * 1500)] * 3
                async with requester.request_channel(items, route=EVENTS) as replies:
                    task_status.started()
                    async for _ in replies:
                        pass

            for _ in range(2):
                await nursery.start(flood)
            await until(lambda: collector.spool.full)
            async with requester.request_channel([Payload(b"2")], route=EVENTS) as replies:
                with pytest.raises(Rejected, match="max_channels_per_connection"):
                    await replies.receive()
            async with connect(collector.uris[0], **JSON) as another:
                async with another.request_channel([Payload(b"3")], route=EVENTS) as replies:
                    with trio.move_on_after(0.05):
                        await replies.receive()  # No error: it waits for room.
            nursery.cancel_scope.cancel()
        async with connect(collector.uris[0], **JSON) as requester:
            await collector.spool.commit("q", collector.spool.head)
            for _ in range(5):  # A channel that has ended does not count.
                async with requester.request_channel([Payload(b"4")], route=EVENTS) as replies:
                    assert [json.loads(each.data)["count"] async for each in replies] == [1]

            async def staying():
                yield Payload(b"5")
                await trio.sleep_forever()

            async with requester.request_channel(staying(), route=EVENTS) as one:
                await one.receive()
                for _ in range(2):  # What has ended leaves its own place, and no other.
                    async with requester.request_channel([Payload(b"6")], route=EVENTS) as replies:
                        assert len([each async for each in replies]) == 1
                async with requester.request_channel(staying(), route=EVENTS) as two:
                    await two.receive()
                    async with requester.request_channel([Payload(b"7")], route=EVENTS) as replies:
                        with pytest.raises(Rejected, match="max_channels_per_connection"):
                            await replies.receive()


async def test_connections_that_leave_an_event_and_go(directory):
    """Each costs more memory than its event, so their number is bounded."""
    ingest = IngestConfig(max_pending_connections=3, linger=100)
    async with running(directory, ingest=ingest) as collector:
        for _ in range(8):
            async with connect(collector.uris[0], **JSON) as requester:
                await requester.fire_and_forget(Payload(b"1"), route=EVENTS)
                await requester.fire_and_forget(Payload(b"2"), route=EVENTS)
        await until(lambda: collector.statistics().dropped == 10)
        await collector.aclose()
    assert sorted(data(directory)) == [b"1"] * 3 + [b"2"] * 3


def head(**changes):
    fields = {"first": 0, "count": 1, "start": 0, "stop": 1, "encoding": "", "facts": {}}
    return BatchHead(**fields | {"stored_at": 0} | changes)


def info(**changes):
    fields = {"spool_id": "a", "oldest": 0, "head": 0, "size": 0, "max_size": 1, "full": False}
    return SpoolInfo(**fields | {"trouble": None, "positions": {}} | changes)


def instance(**changes):
    fields = {"consumer": "c", "instance": "", "offset": 0, "lag": 0, "age": 0.0, "lease": 1.0}
    return InstanceInfo(**fields | {"lease_left": 1.0, "connected": False} | changes)


YEARS = (-62_135_596_800, 253_402_300_799)
"""The first second of the year 1, and the last one of 9999."""


def position(lease):
    return PositionRequest(spool_id="a", consumer="q", instance="i", offset=0, lease=lease)


@pytest.mark.parametrize(
    ("made", "right", "wrong"),
    [
        (lambda n: head(first=n), (0, 2**63 - 1), (-1, 2**63)),
        (lambda n: head(count=n), (1, 2**31 - 1), (0, 2**31)),
        (lambda n: head(start=n), (0, 2**63 - 1), (-1, 2**63)),
        (lambda n: head(stop=n), (0, 2**63 - 1), (-1, 2**63)),
        (lambda n: head(encoding="x" * n), (0, 64), (65,)),
        (lambda n: head(facts={"xy": "z" * (n - 2)}), (65536,), (65537,)),
        (lambda n: head(stored_at=n), YEARS, (inf, nan, YEARS[0] - 1, YEARS[1] + 1)),
        (lambda n: info(spool_id="x" * n), (1, 100), (0, 101)),
        (lambda n: info(oldest=n, head=2**63 - 1), (0, 2**63 - 1), (-1,)),
        (lambda n: info(head=n, oldest=3), (3, 2**63 - 1), (2, 2**63)),
        (lambda n: info(epoch="x" * n), (1, 100), (0, 101)),
        (lambda n: info(epoch_end=n), (0, 2**63 - 1), (-1, 2**63)),
        (lambda n: info(reach=n, head=9), (0, 9), (-1, 10)),
        (lambda n: info(since=n, head=9), (0, 9), (-1, 10)),
        (lambda n: info(lag_seconds=n), (0, 1e9), (-1, nan, inf, 1e300)),
        (lambda n: info(oldest_at=n, newest_at=n), YEARS, (inf, nan, YEARS[0] - 1, YEARS[1] + 1)),
        # `collect --status --json` writes them, and JSON has no infinity.
        (lambda n: instance(age=n, lag_seconds=n), (0, 1e9), (-1, nan, inf, 1e300)),
        (lambda n: instance(lease=n, lease_left=n), (0, 1e300), (-1, nan, inf)),
        (lambda n: instance(lag=n, offset=n), (0, 2**63 - 1), (-1, 2**63)),
        (position, (0, 100 * 365 * 86400), (-1, 100 * 365 * 86400 + 1, inf, nan)),
    ],
)
def test_limits_of_what_a_peer_may_say(made, right, wrong):
    """They are exact: what a spool can hold goes through, and nothing that it cannot."""
    for value in right:
        made(value)
    for value in wrong:
        with pytest.raises(ValueError):
            made(value)
