"""Collectors that lie, stall, or are slow: a clear error, and never a wrong row or a wrong offset.

One lie in a checkpoint would stop the query for ever, so the checkpoint is looked at too.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import AsyncIterator

import cbor2
import pytest
import trio

pytest.importorskip("pyspark")

from pyspark.sql.types import LongType, StructType

from rsocket_trio import CustomError, Payload, Router, serve
from rsocket_trio.collector.refusals import TRIMMED
from rsocket_trio.lumberjack import UnknownEncoding
from rsocket_trio.metadata import MIME, CompositeMetadata, MetadataEntry
from rsocket_trio.spark.lumberjack_source import LumberjackDataSource
from rsocket_trio.spark.spool_source import CollectorsUnreachable, RangeUnreadable, fleet
from rsocket_trio.spark.trio_thread import TrioThread
from tests.spark.engine import Checkpoint, Query, read_batch

INFO = {"spool_id": "S", "oldest": 0, "head": 10, "size": 99, "max_size": 999, "full": False,
        "trouble": None, "positions": {}, "reach": None}  # fmt: skip
NUMBERS = StructType().add("n", LongType()).add("_offset", LongType())
OFFSETS = StructType().add("_offset", LongType())


def lines(start, stop):
    return b"".join(b'{"n":%d}\n' % n for n in range(start, stop))


def item(start=0, stop=10, data=None, **lies):
    head = {"first": start, "count": stop - start, "start": start, "stop": stop,
            "encoding": "json-lines", "facts": {}, "stored_at": 1e9} | lies  # fmt: skip
    entry = MetadataEntry(MIME.CBOR, cbor2.dumps(head))
    data = lines(start, stop) if data is None else data
    return Payload(data, CompositeMetadata([entry]).encode())


def honest(wanted):
    return [item(wanted["start"], wanted["stop"])]


@pytest.fixture
def run():
    """Run a query on a collector that answers with these functions; return its checkpoint."""
    thread, readers, checkpoint = TrioThread("a lying collector"), [], Checkpoint()

    async def reply(answer, payload):
        found = answer(cbor2.loads(payload.data))
        return Payload(cbor2.dumps(await found if inspect.isawaitable(found) else found))

    def start(info=lambda asked: INFO, position=None, read=honest):
        router = Router()

        @router.request_response("spool.info")
        async def _(payload: Payload) -> Payload:
            return await reply(info, payload)

        @router.request_response("spool.position")
        async def _(payload: Payload) -> Payload:
            return await reply(position or info, payload)

        @router.request_stream("spool.read")
        async def _(payload: Payload) -> AsyncIterator[Payload]:
            for each in read(cbor2.loads(payload.data)):
                if isinstance(each, Exception):
                    raise each
                yield each

        async def listen(*, task_status):
            await serve(router, "tcp://127.0.0.1:0", task_status=task_status)

        return str(thread.serve(listen).uris[0])

    def call(*, batches=2, schema=None, available_now=False, batch=False, answers, **options):
        given = {"collectors": start(**answers), "collectorTimeoutMs": "1000",
                 "pollTimeoutMs": "0"} | options  # fmt: skip
        if batch:
            return read_batch(LumberjackDataSource, given, schema=schema)
        query = Query(LumberjackDataSource, given, checkpoint, schema=schema)
        readers.append(query.reader)
        for _ in range(batches):
            query.trigger()
        return checkpoint

    call.checkpoint = checkpoint
    yield call
    for reader in readers:
        reader.stop()
    assert thread.close()


@pytest.mark.parametrize(
    "lie",
    [
        {"head": 2**63},
        {"head": 2**90},
        {"head": -1},
        {"oldest": -5},
        {"oldest": 20},
        {"spool_id": ""},
        {"spool_id": "x" * 101},
        {"reach": -1},
        {"reach": 2**63},
    ],
    ids=str,
)
def test_impossible_numbers_do_not_get_into_the_checkpoint(run, lie):
    """A restart of the query could not read them."""
    with pytest.raises(CollectorsUnreachable, match="no answer of a collector"):
        run(answers={"info": lambda asked: INFO | lie})
    assert run.checkpoint.offsets == []


@pytest.mark.parametrize("since", [11, 2**63 - 1, -1])
def test_impossible_places_do_not_get_into_the_checkpoint(run, since):
    """The query would begin where no event is, and fail at each start."""
    info = lambda asked: INFO | ({"since": since} if asked.get("since") else {})  # noqa: E731
    with pytest.raises(CollectorsUnreachable, match="has told where the query begins"):
        run(startingTimestamp="2026-11-27T14:00:00Z", answers={"info": info})
    assert run.checkpoint.offsets == []


@pytest.mark.parametrize(
    "lie",
    [
        {"stored_at": math.nan},
        {"stored_at": math.inf},
        {"stored_at": 1e300},
        {"count": 2**40},
        {"count": 0},
        {"encoding": "x" * 100_000},
        {"facts": {"peer": "x" * 100_000}},
    ],
    ids=lambda lie: str(lie)[:30],
)
def test_impossible_heads_of_batches(run, lie):
    """The error does not repeat what the collector has said."""
    with pytest.raises(RangeUnreadable, match="without a valid head") as caught:
        run(answers={"read": lambda wanted: [item(**lie)]})
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("schema", [None, NUMBERS, OFFSETS], ids=["text", "JSON", "offsets only"])
@pytest.mark.parametrize(
    "items",
    [
        [item(data=lines(0, 9))],
        [item(data=lines(0, 11))],
        [item(data=b"")],
        [item(data=lines(0, 10)[:-1])],
        [item(0, 5, lines(0, 6)), item(5, 10, lines(6, 10))],
        [item(data=b"2J", encoding="lumberjack-2")],
        [item(data=b"x", encoding="lumberjack-2-zlib")],
    ],
    ids=["fewer", "more", "none", "no end", "one too early", "frames", "compressed"],
)
def test_other_events_than_the_head_says(run, items, schema):
    """A row never has the data of another offset, and no row is made up."""
    with pytest.raises(UnknownEncoding):
        run(schema=schema, answers={"read": lambda wanted: items})


def test_a_batch_of_more_events_than_memory_has(run):
    """The number in its head costs no memory before the events are counted."""
    many = 2**31 - 1
    with pytest.raises(UnknownEncoding):
        run(schema=OFFSETS, maxPartitions="1", answers={"info": lambda asked: INFO | {"head": many},
                                     "read": lambda wanted: [item(data=b"", count=many,
                                                                  stop=many)]})  # fmt: skip


@pytest.mark.parametrize("oldest", [0, -5])
def test_a_deletion_that_deletes_nothing(run, oldest):
    """The task does not ask again for ever."""
    trimmed = CustomError(json.dumps({"offset": 0, "oldest": oldest}), code=TRIMMED)
    with pytest.raises(RangeUnreadable, match="was deleted"):
        run(failOnDataLoss="false", answers={"read": lambda wanted: [trimmed]})


def test_a_collector_that_keeps_no_positions(run):
    """It does not answer: the query says so, in time."""
    silent = lambda asked: trio.sleep_forever()  # noqa: E731 - as short as the others
    with pytest.raises(CollectorsUnreachable):
        run(answers={"position": silent})


def test_a_collector_that_is_always_slower_than_a_round(run, monkeypatch):
    """Its answers count in a later round, so the query goes on."""
    monkeypatch.setattr(fleet, "ROUND", 0.01)
    asked = []

    async def slow(request):
        asked.append(request)
        await trio.sleep(0.05)
        reach = request.get("reach_from")
        return INFO | {"head": 10 + len(asked), "reach": None if reach is None else reach + 1}

    checkpoint = run(batches=40, schema=NUMBERS, maxBytesPerTrigger="1", answers={"info": slow})
    numbers = [row["n"] for row in checkpoint.rows]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 3


def test_a_query_that_has_lost_all_places_is_no_new_query(run):
    """It would begin at ``startingOffsets`` again, and leave events out."""
    run.checkpoint.offsets.append('{"s": {"lost": 7}, "v": 1}')
    run.checkpoint.committed = 1
    run(failOnDataLoss="false", startingOffsets="latest", pollTimeoutMs="100",
        answers={"position": lambda asked: INFO | {"spool_id": ""}})  # fmt: skip
    assert {json.dumps(json.loads(each)["s"]) for each in run.checkpoint.offsets} == {'{"lost": 7}'}


@pytest.mark.parametrize(
    ("start", "stop", "text"),
    [(11, None, "ends at 10"), (None, 11, "ends at 10"), (6, 5, "before")],
)
def test_a_batch_of_a_range_that_is_not_there(run, start, stop, text):
    """It is an error, and not a table without rows."""
    options = {"startingOffsets": start, "endingOffsets": stop}
    given = {name: json.dumps({"s": {"S": offset}, "v": 1})
             for name, offset in options.items() if offset is not None}  # fmt: skip
    with pytest.raises(ValueError, match=text):
        run(batch=True, answers={}, **given)
