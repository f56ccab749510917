"""Ranges and numbers of a spool over RSocket: the routes of a collector and its client."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing

from rsocket_trio import CustomError, Invalid, Payload, Rejected, RemoteProtocolError, Router, serve
from rsocket_trio.codecs import DEFAULT_CODECS
from rsocket_trio.collector import (
    READ,
    BatchHead,
    CollectorBusy,
    CollectorLimits,
    ReadRequest,
    SpoolInfo,
    connect_collector,
    reading_router,
)
from rsocket_trio.collector import client as client_module
from rsocket_trio.collector.reads import Reads
from rsocket_trio.collector.refusals import (
    BUSY,
    TRIMMED,
    busy,
    has_stalled,
    refusal,
    refused,
    stalled,
    wrong_spool,
)
from rsocket_trio.metadata import MIME, CompositeMetadata, MetadataEntry
from rsocket_trio.spool import (
    Batch,
    OffsetNotStored,
    OffsetTrimmed,
    SpoolRestored,
    StoredBatch,
    WrongSpool,
    open_spool,
)
from tests.collector.conftest import connected
from tests.spool.helpers import collect, lines, offline, sized, spans


async def everything(client, start, stop, spool_id):
    async with client.read(start, stop, spool_id=spool_id) as batches:
        return await collect(batches)


async def test_over_a_socket(directory):
    """All routes over TCP, as `connect_collector` is used."""
    async with open_spool(directory) as spool, trio.open_nursery() as nursery:
        server = await nursery.start(serve, reading_router(spool), "tcp://127.0.0.1:0")
        facts = {"peer": "me", "ü": "☃"}
        await spool.append(Batch(2, b"1\n2\n", encoding="lines", facts=facts))
        async with connect_collector(server.uris[0]) as collector:
            info = await collector.info()
            assert info == SpoolInfo(
                spool_id=spool.spool_id,
                oldest=0,
                head=2,
                size=spool.statistics().size,
                max_size=2**30,
                full=False,
                trouble=None,
                positions={},
                epoch=spool.epoch,
                oldest_at=spool.statistics().oldest_at,
                newest_at=spool.statistics().newest_at,
            )
            [batch] = await everything(collector, 0, 2, info.spool_id)
            assert [batch] == await collect(spool.read(0))
            after = await collector.commit("q", 2, instance="a", spool_id=info.spool_id)
            assert (after.positions, after.oldest, after.size) == ({"q": 2}, 2, 0)
            assert spool.positions() == {"q": 2}
        nursery.cancel_scope.cancel()


async def test_a_spool_that_was_restored_from_an_older_copy(directory, tmp_path):
    """Once it is written on, its readers are told, before a position or an event is taken wrongly.

    The copy is written on beyond the offset that the reader has seen, so no offset looks wrong.
    """
    async with open_spool(directory) as spool:
        await spool.append(lines(10))
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    async with open_spool(directory) as spool:
        await spool.append(lines(5))
        async with connected(reading_router(spool)) as client:
            seen = await client.info()
            assert (seen.head, seen.epoch) == (15, spool.epoch)
            mine = {"spool_id": seen.spool_id, "epoch": seen.epoch}
            await client.commit("q", 15, instance="a", **mine)
            assert (await client.info(epoch=seen.epoch)).epoch_end == 15
    shutil.rmtree(directory)
    shutil.copytree(copy, directory)
    async with open_spool(directory) as spool:
        await spool.append(lines(20))
        async with connected(reading_router(spool)) as client:
            assert (await client.info(epoch=seen.epoch)).epoch_end is None
            with pytest.raises(SpoolRestored, match="from an older copy") as told:
                await client.commit("q", 15, instance="a", **mine)
            assert (told.value.offset, told.value.end) == (15, None)
            assert spool.positions() == {}
            async with client.read(10, 15, **mine) as batches:
                with pytest.raises(SpoolRestored):
                    await collect(batches)
            with pytest.raises(SpoolRestored):
                offline(directory, 10, 15, epoch=seen.epoch)
            now = await client.info()
            async with client.read(10, 15, spool_id=now.spool_id, epoch=now.epoch) as batches:
                assert len(await collect(batches)) == 1
            assert len(offline(directory, 10, 15, epoch=now.epoch)) == 1


async def test_a_copy_in_which_nothing_was_ever_stored(directory, tmp_path):
    """It has no epoch at all, and its readers are told, as with any other copy."""
    async with open_spool(directory):
        pass
    shutil.copytree(directory, tmp_path / "copy")
    async with open_spool(directory) as spool:
        await spool.append(lines(10))
        mine = {"spool_id": spool.spool_id, "epoch": spool.epoch}
    shutil.rmtree(directory)
    shutil.copytree(tmp_path / "copy", directory)
    async with open_spool(directory) as spool:
        async with connected(reading_router(spool)) as client:
            assert (await client.info(epoch=mine["epoch"])).epoch_end is None
            with pytest.raises(SpoolRestored):
                await client.commit("q", 10, instance="a", **mine)
            async with client.read(0, 10, **mine) as batches:
                with pytest.raises(SpoolRestored):
                    await collect(batches)
        with pytest.raises(SpoolRestored):
            offline(directory, 0, 10, epoch=mine["epoch"])


async def test_an_epoch_whose_events_are_deleted(directory):
    """A reader that comes too late is told that, and not that the spool was restored."""
    async with open_spool(directory) as spool:
        await spool.append(lines(10))
        mine = {"spool_id": spool.spool_id, "epoch": spool.epoch}
    for _ in range(2):
        async with open_spool(directory) as spool:
            await spool.append(lines(10))
    async with open_spool(directory) as spool:
        await spool.commit("others", 30)
        assert spool.epoch_end(mine["epoch"]) is None
        async with connected(reading_router(spool)) as client:
            with pytest.raises(OffsetTrimmed):
                await client.commit("q", 5, instance="a", **mine)
            async with client.read(5, 10, **mine) as batches:
                with pytest.raises(OffsetTrimmed):
                    await collect(batches)
        with pytest.raises(OffsetTrimmed):
            offline(directory, 5, 10, epoch=mine["epoch"])


async def test_a_reader_goes_on_after_a_restart(directory):
    """What it remembers is checked alone; with a range goes the epoch of its end.

    The remembered epoch with a later end is an error that names this reason too.
    """
    async with open_spool(directory) as spool:
        await spool.append(lines(10))
        kept = spool.epoch
    async with open_spool(directory) as spool:
        await spool.append(lines(5))
        assert offline(directory, 10, 10, epoch=kept) == []
        with pytest.raises(SpoolRestored):
            offline(directory, 11, 11, epoch=kept)
        async with connected(reading_router(spool)) as client:
            now = await client.info()
            await client.commit("q", 10, instance="a", spool_id=now.spool_id, epoch=kept)
            async with client.read(10, 15, spool_id=now.spool_id, epoch=now.epoch) as batches:
                assert len(await collect(batches)) == 1
            async with client.read(10, 15, spool_id=now.spool_id, epoch=kept) as batches:
                with pytest.raises(SpoolRestored, match="an epoch of before offset 15 was stored"):
                    await collect(batches)


async def test_mistakes_of_the_caller(directory):
    """They are not blamed on the collector; and a range that ends before it begins is no empty one.

    The position of a reader is beyond the head if the spool was restored from a copy.
    """
    async with open_spool(directory) as spool:
        await spool.append(lines(10))
        async with connected(reading_router(spool)) as client:
            for start, stop in ((11, 10), (-1, 10)):
                with pytest.raises(ValueError, match="is not a range of offsets"):
                    async with client.read(start, stop, spool_id=spool.spool_id):
                        pass
            for name in ({"consumer": "\ud800"}, {"instance": "\ud800"}):
                wanted = {"consumer": "q", "instance": "a", "spool_id": spool.spool_id} | name
                with pytest.raises(ValueError, match="is no text"):
                    await client.commit(offset=0, **wanted)
                with pytest.raises(ValueError, match="is no text"):
                    await client.forget(**wanted)
            assert spool.instances() == []


async def test_the_most_that_a_spool_takes_about_a_batch(directory):
    """A reader gets it: a batch that cannot be read would hold up its consumer for ever."""
    facts = {"a" * 2**15: "☃" * 2**15}
    async with open_spool(directory) as spool, trio.open_nursery() as nursery:
        server = await nursery.start(serve, reading_router(spool), "tcp://127.0.0.1:0")
        await spool.append(Batch(1, b"1\n", encoding="e" * 64, facts=facts))
        async with connect_collector(server.uris[0]) as collector:
            [batch] = await everything(collector, 0, 1, spool.spool_id)
        assert (batch.encoding, batch.facts) == ("e" * 64, facts)
        nursery.cancel_scope.cancel()


async def test_every_range(spool, reading, monkeypatch):
    """Each range has exactly its events, also if it takes many requests."""
    for count, name in zip((3, 1, 4, 2), "abcd", strict=True):
        await spool.append(lines(count, name))
    async with reading() as client:
        for size in (4 * 2**20, 20, 1):
            monkeypatch.setattr(client_module, "_PIECE_SIZE", size)
            for start in range(11):
                for stop in range(start, 11):
                    found = await everything(client, start, stop, spool.spool_id)
                    assert found == await collect(spool.read(start, stop))


async def test_the_errors_of_the_spool(spool, reading):
    """They arrive as those of the spool, with their numbers; the connection stays usable."""
    for _ in range(3):
        await spool.append(lines(10))
    await spool.commit("me", 20)
    mine = spool.spool_id
    async with reading() as client:
        with pytest.raises(OffsetTrimmed) as trimmed:
            await everything(client, 19, 30, mine)
        assert (trimmed.value.offset, trimmed.value.oldest) == (19, 20)
        with pytest.raises(OffsetNotStored) as absent:
            await everything(client, 20, 31, mine)
        assert (absent.value.offset, absent.value.head) == (31, 30)
        with pytest.raises(WrongSpool, match="other"):
            await everything(client, 20, 30, "other")
        with pytest.raises(OffsetTrimmed):
            await client.commit("q", 19, instance="a", spool_id=mine)
        with pytest.raises(OffsetNotStored):
            await client.commit("q", 31, instance="a", spool_id=mine)
        with pytest.raises(WrongSpool):
            await client.commit("q", 20, instance="a", spool_id="other")
        with pytest.raises(OffsetTrimmed):
            await client.info(reach_from=1, reach_size=1)
        with pytest.raises(Invalid):
            await client.info(reach_from=20, reach_size=-1)
        for name in ("", "x" * 201):
            with pytest.raises(Invalid, match="200 characters"):
                await client.commit("q", 20, instance=name, spool_id=mine)
            with pytest.raises(Invalid, match="200 characters"):
                await client.commit(name, 20, instance="a", spool_id=mine)
        with pytest.raises(Invalid):
            await client.commit("q", -1, instance="a", spool_id=mine)
        with pytest.raises(Invalid, match="there is no consumer 'q'"):
            await client.forget("q", spool_id=mine)
        assert len(await everything(client, 20, 30, mine)) == 1
        assert spool.positions() == {"me": 20}


async def test_a_wrong_size_of_a_piece(spool, reading):
    """A piece has at least one byte."""
    await spool.append(lines(1))
    async with reading() as client:
        request = ReadRequest(spool_id=spool.spool_id, start=0, stop=1, size=0)
        data = DEFAULT_CODECS.encode(request, ReadRequest, MIME.CBOR)
        async with client.requester.request_stream(Payload(data), route=READ) as items:
            with pytest.raises(Invalid):
                await items.receive()


async def test_reach(spool, reading):
    """The offset up to which some bytes reach, as the spool says."""
    for cost in (100, 200, 300):
        await spool.append(sized(cost))
    async with reading() as client:
        for start, size in ((0, 1), (0, 300), (1, 2**80), (3, 5)):
            found = await client.info(reach_from=start, reach_size=size)
            assert found.reach == await spool.reach(start, min(size, 2**60))
        with pytest.raises(ValueError, match="together"):
            await client.info(reach_from=1)


async def test_times(spool, reading, monkeypatch):
    """The first event of a time, and how long one was stored already."""
    clock = iter([1e9, 1e9 + 60, 1e9 + 30])
    with monkeypatch.context() as patched:
        patched.setattr("rsocket_trio.spool.ages.now", lambda: next(clock))
        for _ in range(3):
            await spool.append(lines(2))
    monkeypatch.setattr("time.time", lambda: 1e9 + 100)
    async with reading() as client:
        for seconds, offset in ((-1, 0), (1, 2), (30, 2), (61, 6)):
            found = await client.info(since=1e9 + seconds)
            assert (found.since, found.oldest_at, found.newest_at) == (offset, 1e9, 1e9 + 30)
        for offset, lag in ((0, 100), (3, 40), (4, 70), (6, 0), (7, None), (2**63, None)):
            assert (await client.info(lag_from=offset)).lag_seconds == lag
        for instance, offset in (("a", 3), ("b", 6)):
            await client.commit("q", offset, instance=instance, spool_id=spool.spool_id)
        kept = (await client.info(instances=True)).instances
        assert [(each.lag, each.lag_seconds) for each in kept] == [(3, 40), (0, 0)]
        for time in (1e13, float("nan")):
            with pytest.raises(Invalid, match="in seconds since 1970"):
                await client.info(since=time)


async def test_a_closed_spool(directory):
    """A collector that stops says so."""
    async with open_spool(directory) as spool:
        await spool.append(lines(1))
    async with connected(reading_router(spool)) as client:
        with pytest.raises(Rejected, match="stopping"):
            await client.commit("q", 1, instance="a", spool_id=spool.spool_id)


async def test_a_pause_holds_the_collector_back(spool, reading, monkeypatch):
    """The unread bytes of a reader that pauses are a piece and a batch at most."""
    for _ in range(40):
        await spool.append(sized(100_000))
    monkeypatch.setattr(client_module, "_PIECE_SIZE", 250_000)
    async with reading() as client:
        async with client.read(0, 40, spool_id=spool.spool_id) as batches:
            peak = 0
            async for _ in batches:
                await trio.sleep(0.002)
                peak = max(peak, client.requester.statistics().unread_size)
            assert 0 < peak < 350_000
            assert batches.offset == 40


async def test_a_huge_batch(spool, reading):
    """It is larger than the payloads that a connection accepts otherwise."""
    size = 70 * 2**20
    await spool.append(sized(size))
    await spool.append(sized(100))
    async with reading() as client:
        one, two = await everything(client, 0, 2, spool.spool_id)
        assert len(one.data) > 2**26
        assert len(one.data) + 64 + 7 == size
        assert spans([one, two]) == [(0, 1), (1, 2)]


async def test_leaving_early(spool, reading):
    """The rest of a range is cancelled; other ranges go on, on the same connection."""
    for _ in range(100):
        await spool.append(lines(10))
    async with reading(CollectorLimits(max_reads_per_connection=1)) as client:
        for _ in range(5):
            async with client.read(0, 1000, spool_id=spool.spool_id) as batches:
                assert (await anext(batches)).start == 0
            await trio.testing.wait_all_tasks_blocked()
        assert len(await everything(client, 0, 1000, spool.spool_id)) == 100


async def test_a_cancelled_step_loses_nothing(spool, reading):
    """A step that is cancelled at any moment can be made again."""
    for _ in range(5):
        await spool.append(lines(3))
    async with reading() as client:
        for delay in range(12):
            async with client.read(0, 15, spool_id=spool.spool_id) as batches:
                found = []
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:

                        async def soon(delay=delay, scope=scope):
                            for _ in range(delay):
                                await trio.lowlevel.checkpoint()
                            scope.cancel()

                        nursery.start_soon(soon)
                        found.extend([each async for each in batches])
                seen = batches.offset
                found = await collect(batches)
                assert spans(found)[0][0] == seen if found else seen == 15
                assert batches.offset == 15


async def test_two_tasks_do_not_share_a_range(spool, reading):
    """The second one is told so."""
    await spool.append(lines(1))
    outcomes = []

    async def step(batches):
        try:
            outcomes.append(await anext(batches))
        except trio.BusyResourceError as error:
            outcomes.append(error)

    async with reading() as client, client.read(0, 1, spool_id=spool.spool_id) as batches:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(step, batches)
            nursery.start_soon(step, batches)
    assert [type(each) for each in outcomes] == [trio.BusyResourceError, StoredBatch]


async def test_ranges_of_one_connection_are_limited(spool, reading):
    """One more is refused, and there is a place again when one has ended."""
    for _ in range(600):
        await spool.append(lines(1))
    async with reading(CollectorLimits(max_reads_per_connection=2)) as client:

        def read():
            return client.read(0, 600, spool_id=spool.spool_id)

        async with read() as one, read() as two:
            await anext(one)
            await anext(two)
            async with read() as three:
                with pytest.raises(Rejected, match="max_reads_per_connection"):
                    await anext(three)
            await collect(one)
            assert len(await everything(client, 0, 600, spool.spool_id)) == 600


async def test_who_has_stalled(spool, autojump_clock):
    """The reader that took a batch longest ago loses its place, after `stall_time`, not before."""
    reads = Reads(CollectorLimits(max_reads=2, stall_time=30))
    one = reads.begin(spool.read(0), None, object())
    await trio.sleep(20)
    two = reads.begin(spool.read(0), None, object())
    await trio.sleep(9)
    with pytest.raises(CustomError, match="max_reads"):
        reads.begin(spool.read(0), None, object())
    await trio.sleep(2)
    three = reads.begin(spool.read(0), None, object())
    with pytest.raises(CustomError) as error:
        await anext(one)
    assert has_stalled(error.value)
    with pytest.raises(CustomError, match="max_reads"):
        reads.begin(spool.read(0), None, object())
    for stream in (one, two, three):
        await stream.aclose()
    assert len(reads) == 0


async def test_a_stalled_reader_goes_on(spool):
    """Another reader gets its place; it asks for the rest again, and misses nothing."""
    for _ in range(600):
        await spool.append(lines(1))
    router = reading_router(spool, limits=CollectorLimits(max_reads=2, stall_time=0.01))
    mine = spool.spool_id
    async with connected(router) as slow, connected(router) as quick:
        async with slow.read(0, 600, spool_id=mine) as one:
            async with slow.read(0, 600, spool_id=mine) as two:
                await anext(one)
                await anext(two)
                with trio.fail_after(30):
                    assert len(await everything(quick, 0, 600, mine)) == 600
                    for stalled in (one, two):
                        assert len(await collect(stalled)) == 599


async def test_a_reader_in_the_middle_of_a_query_is_not_stalled(spool):
    """Its place is not taken, however long the query takes; others behind it do lose theirs."""
    await spool.append(lines(1))
    reads = Reads(CollectorLimits(max_reads=2, stall_time=1e-9))
    busy = reads.begin(spool.read(0), None, object())
    idle = reads.begin(spool.read(0), None, object())
    busy.busy = idle.busy = True
    await trio.sleep(0.001)
    with pytest.raises(CustomError, match="max_reads"):
        reads.begin(spool.read(0), None, object())
    idle.busy = False
    other = reads.begin(spool.read(0), None, object())
    with pytest.raises(CustomError) as error:
        await anext(idle)
    assert has_stalled(error.value)
    busy.busy = False
    assert (await anext(busy)).data
    for stream in (busy, busy, idle, other):
        await stream.aclose()
    assert len(reads) == 0


async def test_a_query_that_has_just_ended_protects_no_others(spool, autojump_clock):
    """The order of the places is not the order of the steps."""
    await spool.append(lines(1))
    reads = Reads(CollectorLimits(max_reads=2, stall_time=10))
    first = reads.begin(spool.read(0), None, object())
    second = reads.begin(spool.read(0), None, object())
    await trio.sleep(11)
    await anext(first)
    third = reads.begin(spool.read(0), None, object())
    with pytest.raises(CustomError) as error:
        await anext(second)
    assert has_stalled(error.value)
    for stream in (first, second, third):
        await stream.aclose()


def impostor(*items):
    """A router that answers a request for a range with these items."""
    router = Router()

    @router.request_stream(READ)
    async def read() -> AsyncIterator[Payload]:
        for item in items:
            yield item

    @router.request_response("spool.info")
    async def info() -> str:
        return "hello"

    @router.request_response("collector.status")
    async def status() -> str:
        return "hello"

    return router


def item(**changes):
    head = {"first": 0, "count": 4, "start": 1, "stop": 3, "encoding": "lines", "facts": {},
            "stored_at": 1.0} | changes  # fmt: skip
    data = DEFAULT_CODECS.encode(BatchHead(**head), BatchHead, MIME.CBOR)
    return Payload(b"1\n2\n3\n4\n", CompositeMetadata([MetadataEntry(MIME.CBOR, data)]).encode())


@pytest.mark.parametrize(
    "items",
    [
        [],
        [Payload(b"x")],
        [Payload(b"x", b"\xff")],
        [Payload(b"x", CompositeMetadata([MetadataEntry(MIME.CBOR, b"\xa0")]).encode())],
        [item(start=0)],
        [item(start=2)],
        [item(stop=1)],
        [item(stop=4)],
        [item(first=2)],
        [item(count=2)],
    ],
    ids=range(10),
)
async def test_a_peer_that_is_no_collector(items):
    """It gives a clear error, and never a wrong range."""
    async with connected(impostor(*items)) as client:
        with pytest.raises(RemoteProtocolError, match="collector"):
            await everything(client, 1, 3, "id")
        with pytest.raises(RemoteProtocolError, match="collector"):
            await client.info()
        with pytest.raises(RemoteProtocolError, match="collector"):
            await client.statistics()
    async with connected(impostor(item())) as client:
        assert spans(await everything(client, 1, 3, "id")) == [(1, 3)]


async def test_a_range_that_is_taken_away(autojump_clock):
    """A reader that has got something asks again at once. Another one has the time of its patience.

    Else the reader of a collector with no memory would ask again and again, without a pause.
    """
    router, asked = Router(), []

    @router.request_stream(READ)
    async def read() -> AsyncIterator[Payload]:
        asked.append(trio.current_time())
        if len(asked) == 1:
            yield item(stop=2)
            raise stalled()
        if len(asked) < 5:
            raise stalled()
        yield item(start=2)

    async with connected(router) as client:
        async with client.read(1, 3, spool_id="id", patience=1.0) as batches:
            assert spans([await anext(batches)]) == [(1, 2)]
            with pytest.raises(CollectorBusy):
                await anext(batches)
            assert [each - asked[0] for each in asked] == pytest.approx([0, 0, 0.5, 1.0], abs=0.1)
            assert spans(await collect(batches)) == [(2, 3)]


@pytest.mark.parametrize(
    ("sent", "code", "data", "error", "values"),
    [
        (wrong_spool("a", "b"), 0x5301, {"expected": "a", "found": "b"}, WrongSpool, {}),
        (refusal(OffsetTrimmed(1, 2)), 0x5302, {"offset": 1, "oldest": 2}, OffsetTrimmed, None),
        (refusal(OffsetNotStored(3, 2)), 0x5303, {"offset": 3, "head": 2}, OffsetNotStored, None),
        (stalled(), 0x5304, {}, CollectorBusy, {}),
        (busy("x"), 0x5305, {"why": "x"}, CollectorBusy, {}),
        (refusal(SpoolRestored(3, 2)), 0x5306, {"offset": 3, "end": 2}, SpoolRestored, None),
        (refusal(SpoolRestored(3, None)), 0x5306, {"offset": 3, "end": None}, SpoolRestored, None),
    ],
    ids=range(7),
)
def test_the_codes_of_errors(sent, code, data, error, values):
    """They are the documented numbers, which clients in other languages know."""
    assert (sent.code, json.loads(sent.data)) == (code, data)
    told = refused(sent)
    assert type(told) is error
    for name, value in (data if values is None else values).items():
        assert getattr(told, name) == value


def test_the_largest_data_of_an_error():
    """What is longer is not read."""
    for length, error in ((1000, CollectorBusy), (1001, CustomError)):
        data = json.dumps({"why": "x" * (length - len('{"why": ""}'))})
        assert type(refused(CustomError(data, code=BUSY))) is error


@pytest.mark.parametrize("code", [TRIMMED, BUSY])
@pytest.mark.parametrize("data", ["[" * 1000, "{", "1", '{"offset": "1", "oldest": 1}'])
async def test_an_error_that_makes_no_sense(data, code):
    """It is raised as it came, however deep its data are."""
    router = Router()

    @router.request_response("spool.info")
    async def info() -> None:
        raise CustomError(data, code=code)

    async with connected(router) as client:
        with pytest.raises(CustomError):
            await client.info()
