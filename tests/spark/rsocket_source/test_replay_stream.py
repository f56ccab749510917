"""Streams with ``delivery=replay``: each element once, whatever ends in between."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import cbor2
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from rsocket_trio import CustomError, Payload, Rejected, Router, serve
from rsocket_trio.spark.failures import DataLoss, ReadFailed
from rsocket_trio.spark.replay import (
    NotReplayable,
    Offsets,
    ReplayList,
    ReplayOffsets,
    ReplaySource,
    replay_router,
)
from rsocket_trio.spark.rsocket_source.rsocket_source import RSocketDataSource
from rsocket_trio.spark.trio_thread import TrioThread
from tests.spark.engine import Checkpoint, Crash, Query, read_batch

COLUMNS = StructType().add("_partition", "integer").add("_offset", "long").add("number", "long")
FAST = {"route": "rows", "payloadFormat": "json", "pollTimeoutMs": "1", "timeoutMs": "30000"}


def number(offset: int) -> bytes:
    return b'{"number": %d}' % offset


class Growing(ReplaySource):
    """Elements that are made of their offsets; a test moves both ends."""

    def __init__(self, *ends: int) -> None:
        self.earliest = [0] * len(ends)
        self.latest = list(ends)
        self.identity: str | None = None
        self.cut: list[int] = []
        self.asked = 0
        self.sent = 0
        self.reads = 0
        self.pause = 0.0

    async def offsets(self) -> ReplayOffsets:
        self.asked += 1
        ends = zip(self.earliest, self.latest, strict=True)
        return ReplayOffsets({n: Offsets(*each, self.identity) for n, each in enumerate(ends)})

    async def elements(self, partition: int, start: int, stop: int) -> AsyncIterator[Payload]:
        self.reads += 1
        for offset in range(start, stop):
            if self.cut and self.cut[0] == offset:
                self.cut.pop(0)
                raise Rejected("later")
            yield Payload(number(offset))
            self.sent += 1
            if self.pause:
                await trio.sleep(self.pause)

    def rows(self) -> list[tuple[int, int, int]]:
        """What a query must have read."""
        return [
            (part, offset, offset)
            for part, (low, high) in enumerate(zip(self.earliest, self.latest, strict=True))
            for offset in range(low, high)
        ]


def query(uri: str, checkpoint: Checkpoint, dies=None, *, available_now=False, **options) -> Query:
    more = {} if dies is None else {"dies": dies}
    return Query(
        RSocketDataSource,
        {"uri": uri, **FAST, **options},
        checkpoint,
        schema=COLUMNS,
        available_now=available_now,
        **more,
    )


def found(checkpoint: Checkpoint) -> list[tuple[int, int, int]]:
    return sorted((row["_partition"], row["_offset"], row["number"]) for row in checkpoint.rows)


def test_elements_are_read_in_batches(serving):
    """maxRowsPerTrigger is the size of a batch; minPartitions splits it."""
    source, checkpoint = Growing(250, 10), Checkpoint()
    uri = serving(replay_router("rows", source))
    running = query(uri, checkpoint, maxRowsPerTrigger="100", minPartitions="4")
    assert running.process_all() == 3
    assert [len(rows) for rows in checkpoint.sink.values()] == [100, 100, 60]
    assert found(checkpoint) == source.rows()
    assert running.reported["next"] == {"0": 250, "1": 10}
    source.latest[1] = 20
    assert running.process_all() == 1
    assert found(checkpoint) == source.rows()


steps = st.lists(
    st.tuples(
        st.sampled_from(["run", "before log", "after log", "after partitions", "before commit"]),
        st.integers(0, 1),
        st.integers(0, 30),
        st.booleans(),
    ),
    max_size=8,
)


@pytest.mark.chaos
@given(steps=steps, starting=st.sampled_from(["earliest", "latest"]), limit=st.integers(1, 40))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_element_once_over_crashes(serving, steps, starting, limit):
    """Queries are killed anywhere, workers die, streams fail, and elements come meanwhile."""
    source, checkpoint = Growing(5, 7), Checkpoint()
    uri = serving(replay_router("rows", source))
    options = {
        "startingOffsets": starting,
        "maxRowsPerTrigger": str(limit),
        "initialRequestN": "6",
        "minPartitions": "2",
    }

    def dies(batch: int, partition: int, attempt: int) -> int | None:
        return 1 if attempt == 0 and (batch + partition) % 3 == 0 else None

    began = None
    for crash, part, more, cut in steps:
        if cut:
            source.cut.append(source.latest[part] + more // 2)
        here = list(source.latest)
        running = query(uri, checkpoint, dies, **options)
        try:
            if crash == "run":
                running.process_all()
            else:
                running.trigger(crash=crash)
        except Crash:
            pass
        if began is None and checkpoint.offsets:
            began = here
        source.latest[part] += more
    began = began or list(source.latest)
    query(uri, checkpoint, **options).process_all()
    if starting == "earliest":
        began = [0, 0]
    assert found(checkpoint) == [row for row in source.rows() if row[1] >= began[row[0]]]


def test_latest_after_a_crash_in_the_first_batch(serving):
    """Spark asks for the first offset again. Elements that came meanwhile are not skipped."""
    source, checkpoint = Growing(10), Checkpoint()
    uri = serving(replay_router("rows", source))
    running = query(uri, checkpoint, startingOffsets="latest")
    with pytest.raises(Crash):
        running.trigger(crash="after log")
    source.latest[0] = 30
    query(uri, checkpoint, startingOffsets="latest").process_all()
    assert found(checkpoint) == [(0, offset, offset) for offset in range(10, 30)]


def test_available_now_reads_what_is_there(serving):
    """Elements that come later are for the next run."""
    source, checkpoint = Growing(95), Checkpoint()
    uri = serving(replay_router("rows", source))
    for end in (95, 200, 200):
        source.latest[0] = end
        running = query(uri, checkpoint, available_now=True, maxRowsPerTrigger="30")
        source.latest[0] = end + 1000
        running.process_all()
        assert found(checkpoint) == [(0, offset, offset) for offset in range(end)]


def test_an_idle_responder_is_not_asked_too_often(serving):
    """latestOffset waits for news. Without it, Spark asks every few milliseconds."""
    source, checkpoint = Growing(1), Checkpoint()
    running = query(serving(replay_router("rows", source)), checkpoint, pollTimeoutMs="500")
    running.process_all()
    asked, begin = source.asked, time.monotonic()
    assert running.trigger() is None
    took = time.monotonic() - begin
    assert took >= 0.5
    assert source.asked - asked <= took / 0.1 + 2


def test_news_end_the_wait(serving):
    """A batch begins soon after its elements are there."""
    source, checkpoint = Growing(1), Checkpoint()
    running = query(serving(replay_router("rows", source)), checkpoint, pollTimeoutMs="600000")
    running.trigger()
    source.latest[0] = 2
    assert running.trigger() is not None


def test_lost_elements_end_the_query(serving):
    """Another checkpoint, or failOnDataLoss=false, go on."""
    source, checkpoint = Growing(10), Checkpoint()
    uri = serving(replay_router("rows", source))
    query(uri, checkpoint).process_all()
    source.earliest[0], source.latest[0] = 12, 15
    with pytest.raises(DataLoss, match="begins at offset 12, but 10 was to be read"):
        query(uri, checkpoint).process_all()
    query(uri, checkpoint, failOnDataLoss="false").process_all()
    assert [row[1] for row in found(checkpoint)] == [*range(10), *range(12, 15)]


@pytest.mark.parametrize("change", ["trim", "identity"])
def test_elements_that_are_lost_in_a_batch(serving, change):
    """The batch is in Spark's log. It is read as far as its elements are there, if asked for."""
    source, checkpoint = Growing(10), Checkpoint()
    uri = serving(replay_router("rows", source))
    source.identity = "a"
    with pytest.raises(Crash):
        query(uri, checkpoint).trigger(crash="after log")
    if change == "trim":
        source.earliest[0] = 4
    else:
        source.identity = "b"
    with pytest.raises(DataLoss, match="failOnDataLoss=false"):
        query(uri, checkpoint).process_all()
    query(uri, checkpoint, failOnDataLoss="false").process_all()
    assert [row[1] for row in found(checkpoint)] == list(
        range(4, 10) if change == "trim" else range(10)
    )


def test_a_responder_that_is_behind_is_passed_over(serving):
    """One of several equal responders may not have the newest elements yet."""
    ahead, behind = Growing(10, 5), Growing(10, 0)

    async def catch_up() -> ReplayOffsets:
        behind.latest[1] += 1
        return await Growing.offsets(behind)

    behind.offsets = catch_up
    uris = [serving(replay_router("rows", each)) for each in (ahead, behind)]
    checkpoint = Checkpoint()
    # The second partition begins with the second address.
    options = FAST | {"uris": ",".join(uris)}
    Query(RSocketDataSource, options, checkpoint, schema=COLUMNS).process_all()
    assert found(checkpoint) == ahead.rows()
    assert behind.latest[1] >= 1


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("available_now", [False, True])
def test_offsets_of_a_responder_that_is_behind(serving, fail, available_now):
    """Nothing is lost, and nothing is read twice: the query waits until it has caught up."""
    ahead, behind = Growing(10, 5), Growing(6, 5)
    first, second = (serving(replay_router("rows", each)) for each in (ahead, behind))
    checkpoint, options = Checkpoint(), FAST | {"failOnDataLoss": fail}
    once = {"schema": COLUMNS, "available_now": available_now}

    def run(uris):
        Query(RSocketDataSource, options | {"uris": uris}, checkpoint, **once).process_all()

    run(f"{first},{second}")
    run(f"{second},{first}")
    assert found(checkpoint) == ahead.rows()
    ahead.latest = behind.latest = [12, 7]
    run(f"{second},{first}")
    assert found(checkpoint) == behind.rows()


def test_a_range_that_one_responder_never_has(serving):
    """The next attempt asks the next one."""
    uris = [serving(replay_router("rows", Growing(ends))) for ends in (10, 5)]
    checkpoint = Checkpoint()
    running = Query(RSocketDataSource, FAST | {"uris": ",".join(uris)}, checkpoint, schema=COLUMNS)
    with pytest.raises(Crash):
        running.trigger(crash="after log")
    # The query is started again, and its list of addresses begins with the other one.
    turned = FAST | {"uris": ",".join(reversed(uris)), "timeoutMs": "5000"}
    Query(RSocketDataSource, turned, checkpoint, schema=COLUMNS).trigger()
    assert [row[1] for row in found(checkpoint)] == list(range(10))


def test_lost_elements_are_in_the_log(serving, caplog):
    source, checkpoint = Growing(10), Checkpoint()
    uri = serving(replay_router("rows", source))
    query(uri, checkpoint).process_all()
    source.latest[0] = 5
    query(uri, checkpoint, failOnDataLoss="false").process_all()
    assert "partition 0 ends at offset 5, but it was read up to 10" in caplog.text


def test_a_batch_that_ends_before_its_beginning(serving):
    """It is an error, and not a table without rows."""
    options = {"startingOffsets": '{"0": 6}', "endingOffsets": '{"0": 5}'}
    uri = serving(replay_router("rows", Growing(10)))
    with pytest.raises(ValueError, match="ends partition 0 at offset 5, before its beginning at 6"):
        read_batch(RSocketDataSource,
                   FAST | options | {"uri": uri, "delivery": "replay"}, schema=COLUMNS)  # fmt: skip


def test_fewer_elements_than_asked_for(serving):
    """A stream that is complete too early is an error, and not a short batch."""
    router = Router()

    @router.request_response("rows.offsets")
    async def offsets() -> Payload:
        return Payload(ReplayOffsets({0: Offsets(0, 10)}).encode())

    @router.request_stream("rows")
    async def rows(payload: Payload) -> AsyncIterator[Payload]:
        for offset in range(7):
            yield Payload(number(offset))

    with pytest.raises(ReadFailed, match="3 of 10 elements are missing"):
        query(serving(router), Checkpoint()).process_all()


def test_a_responder_without_offsets(serving):
    """The error names the route that is missing; a wrong answer is an error, too."""
    with pytest.raises(ReadFailed, match=r"(?s)rows\.offsets with INVALID.*delivery=spool"):
        query(serving(Router()), Checkpoint()).process_all()
    router = Router()

    @router.request_response("rows.offsets")
    async def offsets() -> dict[str, int]:
        return {"0": 5}

    with pytest.raises(ReadFailed, match="something else than offsets of partitions"):
        query(serving(router), Checkpoint()).process_all()


def test_a_responder_that_does_not_answer(serving):
    """It is an error after timeoutMs."""
    router = Router()

    @router.request_response("rows.offsets")
    async def offsets() -> bytes:
        await trio.sleep_forever()
        return b""

    with pytest.raises(ReadFailed, match=r"not answered rows\.offsets within 2 s"):
        query(serving(router), Checkpoint(), timeoutMs="2000").process_all()


def test_rejections_pass(serving):
    """REJECTED says that the request may be sent again."""
    source, router = Growing(10), Router()
    left = [3]

    @router.request_response("rows.offsets")
    async def offsets() -> Payload:
        if left[0]:
            left[0] -= 1
            raise Rejected("busy")
        return Payload((await source.offsets()).encode())

    router.include(_elements(source))
    checkpoint = Checkpoint()
    query(serving(router), checkpoint).process_all()
    assert found(checkpoint) == source.rows()


def _elements(source: ReplaySource) -> Router:
    """The route of the elements, without that of the offsets."""
    router = Router()

    @router.request_stream("rows")
    async def rows(payload: Payload) -> AsyncIterator[Payload]:
        wanted = cbor2.loads(payload.data)
        async for item in source.elements(wanted["p"], wanted["lo"], wanted["hi"]):
            yield item

    return router


def test_a_lost_connection_is_made_again():
    """The range goes on behind the last element. No element comes twice."""
    source = Growing(300)
    source.pause = 0.001
    thread = TrioThread("a responder that is killed")
    scopes = []

    async def run(uri: str, *, task_status) -> None:
        with trio.CancelScope() as scope:
            scopes.append(scope)
            await serve(replay_router("rows", source), uri, task_status=task_status)

    async def kill() -> None:
        scopes[-1].cancel()

    uri = str(thread.serve(run, "tcp://127.0.0.1:0").uris[0])
    running = query(uri, Checkpoint(), initialRequestN="10", timeoutMs="20000")
    reader = running.reader
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    (partition,) = reader.partitions(start, end)
    rows = []
    for index, batch in enumerate(reader.read(partition)):
        rows += batch.column("_offset").to_pylist()
        if index in (3, 9):
            thread.run(kill)
            thread.serve(run, uri)
    assert rows == list(range(300))
    assert source.reads == 3
    assert thread.close()


def test_the_codes_of_errors_are_the_documented_ones():
    """Responders in other languages use them."""
    assert [code.value for code in NotReplayable] == [0x301, 0x302, 0x303]
    assert isinstance(CustomError("x", code=0x301), Exception)


def test_a_list_in_memory(serving):
    """The sources of this package work with the reader."""
    checkpoint = Checkpoint()
    source = ReplayList([number(0), number(1)], [number(0)])
    query(serving(replay_router("rows", source)), checkpoint).process_all()
    assert found(checkpoint) == [(0, 0, 0), (0, 1, 1), (1, 0, 0)]


def read_once(uri: str, **options: str) -> list[tuple[int, int]]:
    options = {"uri": uri, "route": "rows", "delivery": "replay", **options}
    found = read_batch(RSocketDataSource, options)
    return [(row["partition"], row["offset"]) for row in found]


def test_a_batch_reads_a_range(serving):
    """From the starting to the ending offsets, split into tasks."""
    source = Growing(20, 5)
    source.earliest[0] = 10
    uri = serving(replay_router("rows", source))
    everything = [*((0, n) for n in range(10, 20)), *((1, n) for n in range(5))]
    assert read_once(uri) == read_once(uri, minPartitions="6") == everything
    options = {"startingOffsets": '{"0": 12}', "endingOffsets": '{"0": 14, "1": -2}'}
    assert read_once(uri, **options) == [(0, 12), (0, 13)]
    assert read_once(uri, startingOffsets="latest") == []
    with pytest.raises(ValueError, match="endingOffsets names offset 21"):
        read_once(uri, endingOffsets='{"0": 21}')
    with pytest.raises(DataLoss, match="begins at offset 10, so 3 is gone"):
        read_once(uri, startingOffsets='{"0": 3}')
    found = read_once(uri, startingOffsets='{"0": 3}', failOnDataLoss="false")
    assert found == everything


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": "5"}, "limit has no meaning with delivery=replay"),
        ({"data": "x"}, "data has no meaning"),
        ({"startingOffsets": "first"}, "startingOffsets must be"),
        ({"maxRowsPerTrigger": "0"}, "maxRowsPerTrigger must be at least 1"),
        ({"delivery": "once"}, "delivery must be replay or spool"),
    ],
)
def test_wrong_options(options, message):
    """They are an error before anything is read."""
    with pytest.raises(ValueError, match=message):
        query("tcp://127.0.0.1:1", Checkpoint(), **options)


def test_no_route():
    """Ranges need one."""
    options = {key: value for key, value in FAST.items() if key != "route"}
    with pytest.raises(ValueError, match="needs the option route"):
        Query(
            RSocketDataSource,
            {"uri": "tcp://127.0.0.1:1", **options},
            Checkpoint(),
            schema=COLUMNS,
        )
