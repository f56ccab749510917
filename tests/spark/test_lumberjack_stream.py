"""The stream source, driven like Spark does, with real collectors and no JVM."""

from __future__ import annotations

import json
import threading
from copy import deepcopy
from itertools import pairwise
from types import SimpleNamespace

import attrs
import pytest

pytest.importorskip("pyspark")

import trio
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMinRows
from pyspark.sql.types import LongType, StructType

from rsocket_trio.spark import CollectorLag, lag
from rsocket_trio.spark.lumberjack_source import LumberjackDataSource
from rsocket_trio.spark.spool_source import fleet, member
from rsocket_trio.spark.spool_source.source_errors import CollectorsUnreachable, DataLost
from tests.spark.collectors import LocalCollector, wait_for_running
from tests.spark.engine import Checkpoint, Crash, Query, read_batch

NUMBERS = StructType().add("n", LongType()).add("_collector", "string").add("_offset", LongType())


@pytest.fixture
def collectors(tmp_path, monkeypatch):
    made = []

    def make(**options):
        made.append(LocalCollector(tmp_path / f"spool{len(made)}", **options))
        return made[-1]

    wait_for_running(monkeypatch, made)
    yield make
    for each in made:
        each.stop()


@pytest.fixture
def start(collectors, monkeypatch):
    """Starts runs of a query, and ends them."""
    queries = []
    monkeypatch.setattr(fleet, "ROUND", 30.0)  # A slow machine makes no difference.

    def begin(checkpoint, *members, available_now=False, dies=None, schema=NUMBERS, **options):
        for query in queries:
            query.reader.stop()
        given = {
            "collectors": ",".join(each.uri for each in members),
            "pollTimeoutMs": "0",
            "collectorTimeoutMs": "20000",
            **options,
        }
        more = {} if dies is None else {"dies": dies}
        query = Query(
            LumberjackDataSource,
            given,
            checkpoint,
            schema=schema,
            available_now=available_now,
            **more,
        )
        queries.append(query)
        return query

    yield begin
    for query in queries:
        query.reader.stop()


def numbers(checkpoint, collector=None):
    return [
        row["n"]
        for row in checkpoint.rows
        if collector is None or row["_collector"] == collector.spool_id
    ]


def test_all_events_come_once(collectors, start):
    one, two = collectors(), collectors()
    checkpoint = Checkpoint()
    one.ship(5)
    query = start(checkpoint, one, two)
    query.process_all()
    two.ship(3)
    one.ship(2)
    query.process_all()
    assert numbers(checkpoint, one) == list(range(7))
    assert numbers(checkpoint, two) == list(range(3))
    assert [row["_offset"] for row in checkpoint.rows if row["_collector"] == one.spool_id] == list(
        range(7)
    )


@pytest.mark.parametrize("place", ["before log", "after log", "after partitions", "before commit"])
@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_killed_query_goes_on(collectors, start, place, batch, starting):
    """Each event comes once, wherever the query was killed, also in its first batch."""
    one = collectors()
    one.ship(3)
    checkpoint = Checkpoint()
    query = start(checkpoint, one, startingOffsets=starting)
    for _ in range(batch):
        query.trigger()
        one.ship(4)
    with pytest.raises(Crash):
        query.trigger(crash=place)
    one.ship(5)
    start(checkpoint, one, startingOffsets=starting).process_all()
    found = numbers(checkpoint)
    assert found == list(range(found[0] if found else 0, one.numbers if found else 0))
    if starting == "earliest":
        assert found[0] == 0
    elif batch or place != "before log":
        assert found[0] == 3


def test_offsets_are_the_same_text(collectors, start):
    """Spark compares texts: equal offsets must not make it read again."""
    members = [collectors() for _ in range(3)]
    checkpoint = Checkpoint()
    start(checkpoint, *members).process_all()
    query = start(checkpoint, *reversed(members))
    assert query.trigger() is None
    [offset] = checkpoint.offsets
    places = dict.fromkeys(sorted(each.spool_id for each in members), 0)
    assert offset == json.dumps({"i": json.loads(offset)["i"], "s": places, "v": 2})


def test_a_collector_that_is_away(collectors, start):
    """The query goes on with the others, and reads its events when it is back."""
    one, two = collectors(), collectors()
    one.ship(2)
    two.ship(2)
    checkpoint = Checkpoint()
    query = start(checkpoint, one, two)
    query.process_all()
    two.ship(2)
    two.stop()
    one.ship(3)
    query.process_all()
    assert numbers(checkpoint, one) == list(range(5))
    two.start()
    while len(numbers(checkpoint, two)) < 4:
        query.trigger()
    assert numbers(checkpoint, two) == list(range(4))


def test_a_collector_that_is_added(collectors, start):
    """It begins at its oldest event, so what came before the query knew it is read."""
    one, two = collectors(), collectors()
    checkpoint = Checkpoint()
    start(checkpoint, one, startingOffsets="latest").process_all()
    two.ship(3)
    start(checkpoint, one, two, startingOffsets="latest").process_all()
    assert numbers(checkpoint, two) == list(range(3))


@pytest.mark.parametrize("place", ["before log", "after log", "after partitions", "before commit"])
def test_a_new_collector_has_a_place_before_its_first_event(collectors, start, place):
    one, two = collectors(), collectors()
    checkpoint = Checkpoint()
    start(checkpoint, one).process_all()
    one.ship(1)
    two.ship(3)
    query = start(checkpoint, one, two)
    with pytest.raises(Crash):
        query.trigger(crash=place)
    two.ship(3)
    start(checkpoint, one, two).process_all()
    assert numbers(checkpoint, two) == list(range(6))
    assert numbers(checkpoint, one) == [0]


def test_a_collector_that_is_removed(collectors, start):
    """Its events may wait there, so this is an error that says what to do."""
    one, two = collectors(), collectors()
    two.ship(2)
    checkpoint = Checkpoint()
    start(checkpoint, one, two).process_all()
    with pytest.raises(
        DataLost, match=f"no collector has the spool {two.spool_id}.*failOnDataLoss"
    ):
        start(checkpoint, one).process_all()
    one.ship(1)
    start(checkpoint, one, failOnDataLoss="false").process_all()
    assert numbers(checkpoint, one) == [0]
    assert two.spool_id not in checkpoint.offsets[-1]


def name_in(file, *members):
    file.write_text("".join(f"{each.uri}\n" for each in members))


def test_collectors_in_a_file(collectors, start, tmp_path):
    """The file is read again with each trigger. One that is not there yet is waited for."""
    one, two = collectors(), collectors()
    one.ship(2)
    two.ship(3)
    file = tmp_path / "collectors"
    checkpoint = Checkpoint()
    query = start(checkpoint, collectors=f"file:{file}")
    writer = threading.Timer(0.3, name_in, [file, one])
    writer.start()
    query.process_all()
    writer.join()
    assert numbers(checkpoint) == [0, 1]
    name_in(file, one, two)
    query.process_all()
    assert numbers(checkpoint, two) == [0, 1, 2]
    # One that is named no more is read as long as it is connected.
    name_in(file, one)
    two.ship(1)
    query.process_all()
    assert numbers(checkpoint, two) == [0, 1, 2, 3]
    one.ship(1)
    [row] = read_batch(LumberjackDataSource, {"collectors": f"file:{file}"}, schema=NUMBERS)
    assert row == {"n": 2, "_collector": one.spool_id, "_offset": 2}


def test_an_empty_file_of_collectors(collectors, start, tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(CollectorsUnreachable, match=r"are those of the file '.*empty'"):
        start(Checkpoint(), collectors=f"file:{tmp_path / 'empty'}",
              collectorTimeoutMs="100").process_all()  # fmt: skip
    with pytest.raises(CollectorsUnreachable, match=r"'.*none' .*No such file"):
        start(Checkpoint(), collectors=f"file:{tmp_path / 'none'}",
              collectorTimeoutMs="100").process_all()  # fmt: skip


def test_a_collector_of_a_file_that_is_given_up(collectors, start, tmp_path, caplog):
    """It is waited for without end, or for the time of an option; and read when it is back."""
    one, two = collectors(), collectors()
    two.ship(2)
    file = tmp_path / "collectors"
    name_in(file, one, two)
    checkpoint = Checkpoint()
    start(checkpoint, collectors=f"file:{file}").process_all()
    name_in(file, one)
    two.ship(2)
    one.ship(1)
    start(checkpoint, collectors=f"file:{file}").process_all()
    assert numbers(checkpoint, one) == [0]
    assert f"no collector has the spool {two.spool_id}; the query keeps its place" in caplog.text
    with pytest.raises(DataLost, match=f"no collector has the spool {two.spool_id}"):
        start(checkpoint, collectors=f"file:{file}", goneAfterMs="0").process_all()
    assert two.spool_id in checkpoint.offsets[-1]
    given_up = deepcopy(checkpoint)
    start(
        given_up, collectors=f"file:{file}", goneAfterMs="0", failOnDataLoss="false"
    ).process_all()
    assert two.spool_id not in given_up.offsets[-1]
    name_in(file, one, two)
    start(checkpoint, collectors=f"file:{file}").process_all()
    assert numbers(checkpoint, two) == [0, 1, 2, 3]


def test_a_collector_whose_disk_is_lost(collectors, start):
    one = collectors()
    one.ship(2)
    checkpoint = Checkpoint()
    query = start(checkpoint, one, pollTimeoutMs="500")
    query.process_all()
    lost = one.spool_id
    one.replace()
    one.numbers = 100
    one.ship(2)
    with pytest.raises(DataLost, match=f"has the spool {lost}"):
        for _ in range(20):  # until it is connected again
            query.trigger()
    start(checkpoint, one, failOnDataLoss="false").process_all()
    assert numbers(checkpoint) == [0, 1, 100, 101]


def test_one_unreachable_collector_may_have_the_missing_spool(collectors, start):
    """A collector whose address has changed is no loss, as long as another one is away."""
    one, two, three = collectors(), collectors(), collectors()
    checkpoint = Checkpoint()
    start(checkpoint, one, two).process_all()
    two.stop()
    three.stop()
    one.ship(1)
    query = start(checkpoint, one, three, collectorTimeoutMs="2000")
    query.process_all()
    assert numbers(checkpoint, one) == [0]
    two.start()


def test_events_that_were_deleted(collectors, start):
    one = collectors()
    for _ in range(4):
        one.ship(2)
    checkpoint = Checkpoint()
    query = start(checkpoint, one, maxRowsPerTrigger="2")
    query.trigger()
    query.trigger()
    query.reader.stop()
    one.thread.run(one.spool.forget, "spark")
    one.thread.run(one.spool.commit, "spark", 6)
    assert one.description.oldest == 6
    with pytest.raises(DataLost, match=r"the events 2 to 6 .*consumer 'spark' .* was forgotten"):
        start(checkpoint, one).process_all()
    start(checkpoint, one, failOnDataLoss="false").process_all()
    assert numbers(checkpoint) == [0, 1, 6, 7]


def test_positions_follow_the_start_of_batches(collectors, start):
    """With a full spool, the next batch would never come if only `commit` moved the position."""
    one = collectors(max_size=3000)
    checkpoint = Checkpoint()
    query = start(checkpoint, one)
    query.process_all()
    one.ship(100)
    query.process_all()
    query.trigger()
    assert one.description.positions == {"spark": 100}
    assert one.description.oldest == 100


def test_trim_on_commit(collectors, start):
    one = collectors()
    one.ship(2)
    checkpoint = Checkpoint()
    query = start(checkpoint, one, trimOn="commit")
    query.process_all()
    query.trigger()
    assert one.description.positions == {"spark": 0}
    one.ship(2)
    query.process_all()
    assert one.description.positions == {"spark": 2}


def test_available_now_ends(collectors, start):
    """It reads what there was at its start, again and again, with a limit."""
    one, two = collectors(), collectors()
    checkpoint = Checkpoint()
    for run in range(3):
        one.ship(5)
        two.ship(3)
        query = start(checkpoint, one, two, available_now=True, maxRowsPerTrigger="2")
        one.ship(1)
        query.process_all()
        assert numbers(checkpoint, one) == list(range(6 * run + 5))
        assert numbers(checkpoint, two) == list(range(3 * run + 3))


def test_available_now_waits_for_nothing_new(collectors, start):
    """Its end is fixed before it begins, so no news can come: a day would pass otherwise."""
    one, two = collectors(), collectors()
    checkpoint = Checkpoint()
    one.ship(3)
    for _ in range(2):
        options = {"pollTimeoutMs": "86400000"}
        start(checkpoint, one, two, available_now=True, **options).process_all()
        assert numbers(checkpoint) == [0, 1, 2]


def test_few_events_wait_for_more(collectors, start):
    """The first batch does not wait; AvailableNow, and a run that reads all, never do."""
    one, two = collectors(), collectors()
    checkpoint = Checkpoint()
    query = start(checkpoint, one, two, minRowsPerTrigger="5")
    assert query._limit == ReadMinRows(5)
    one.ship(1)
    query.process_all()
    assert numbers(checkpoint) == [0]
    one.ship(2)
    two.ship(2)
    assert query.trigger() is None
    two.ship(1)
    assert len(query.trigger()) == 5
    one.ship(1)
    assert query.trigger() is None
    query._limit = ReadAllAvailable()
    assert len(query.trigger()) == 1
    two.ship(1)
    assert query.trigger() is not None
    query = start(checkpoint, one, two, minRowsPerTrigger="5", available_now=True)
    one.ship(1)
    query.process_all()
    assert len(checkpoint.rows) == 8


def test_few_events_wait_no_longer_than_their_time(collectors, start):
    one = collectors()
    checkpoint = Checkpoint()
    options = {"minRowsPerTrigger": "5", "maxTriggerDelayMs": "1", "pollTimeoutMs": "60000"}
    query = start(checkpoint, one, **options)
    query.trigger()
    for _ in range(2):
        one.ship(1)
        assert len(query.trigger()) == 1


def test_limits(collectors, start):
    one, two = collectors(), collectors()
    for _ in range(10):
        one.ship(10)
    two.ship(3)
    checkpoint = Checkpoint()
    query = start(checkpoint, one, two, maxRowsPerTrigger="20")
    query.trigger()
    assert len(query.trigger()) == 20
    assert numbers(checkpoint, two) == [0, 1, 2]
    query.process_all()
    assert numbers(checkpoint, one) == list(range(100))


def test_a_limit_of_bytes(collectors, start):
    one = collectors()
    for _ in range(10):
        one.ship(10)
    checkpoint = Checkpoint()
    query = start(checkpoint, one, maxBytesPerTrigger="500")
    query.trigger()
    rows = query.trigger()
    assert 10 <= len(rows) < 40
    query.process_all()
    assert numbers(checkpoint) == list(range(100))


def test_partitions_and_tasks_that_die(collectors, start):
    one = collectors()
    for _ in range(10):
        one.ship(10)
    checkpoint = Checkpoint()
    died = []

    def dies(batch, partition, attempt):
        died.append((batch, partition, attempt))
        return 0 if attempt < 2 else None

    query = start(checkpoint, one, minPartitions="3", dies=dies)
    query.process_all()
    assert numbers(checkpoint) == list(range(100))
    assert {partition for _, partition, _ in died} == {0, 1, 2}


def test_no_collector_answers(start, collectors):
    one = collectors()
    one.stop()
    with pytest.raises(CollectorsUnreachable, match=f"{one.uri} cannot be reached"):
        start(Checkpoint(), one, collectorTimeoutMs="100").process_all()
    one.start()


def test_a_task_whose_collector_is_restarted(collectors, start):
    """The task connects again, and goes on."""
    one = collectors()
    for _ in range(20):
        one.ship(10)
    checkpoint = Checkpoint()
    query = start(checkpoint, one)
    query.trigger()
    with pytest.raises(Crash):
        query.trigger(crash="after partitions")
    one.restart()
    start(checkpoint, one).process_all()
    assert numbers(checkpoint) == list(range(200))


def test_starting_offsets_in_json(collectors, start):
    one, two = collectors(), collectors()
    one.ship(5)
    two.ship(2)
    offsets = json.dumps({"v": 1, "s": {one.spool_id: 3}})
    checkpoint = Checkpoint()
    start(checkpoint, one, two, startingOffsets=offsets).process_all()
    assert numbers(checkpoint, one) == [3, 4]
    assert numbers(checkpoint, two) == [0, 1]


def test_the_start_of_json_must_be_there(collectors, start):
    one = collectors()
    offsets = json.dumps({"v": 1, "s": {"nowhere": 3}})
    with pytest.raises(CollectorsUnreachable, match="nowhere, and no collector has it"):
        start(Checkpoint(), one, startingOffsets=offsets).process_all()


def test_the_backlog_is_reported(collectors, start):
    one = collectors()
    one.ship(5)
    query = start(Checkpoint(), one, maxRowsPerTrigger="2")
    query.process_all()
    assert query.reported == {"s": {one.spool_id: 5}, "v": 2}


def test_two_readers_of_a_query(collectors, start):
    """``df.union(df)`` has two: events stay until both have read them."""
    one = collectors()
    one.ship(4)
    first, second = Checkpoint(), Checkpoint()
    options = {"collectors": one.uri, "pollTimeoutMs": "0"}
    left = Query(LumberjackDataSource, options, first, schema=NUMBERS)
    right = Query(LumberjackDataSource, options, second, schema=NUMBERS)
    left.trigger()
    right.trigger()
    left.process_all()
    assert one.description.positions == {"spark": 0}
    right.process_all()
    assert numbers(first) == numbers(second) == list(range(4))
    assert one.description.positions == {"spark": 4}
    left.reader.stop()
    right.reader.stop()


def test_an_answer_that_is_late_does_not_end_available_now(collectors, start, monkeypatch):
    """Spark ends the run if there is no news, so the question is asked again."""
    one = collectors()
    for _ in range(5):
        one.ship(10)
    checkpoint = Checkpoint()
    reaches = []
    look = fleet.Member.look

    async def late(self, **asked):
        reaches.extend(asked.keys() & {"reach_from"})
        return await look(self, **asked) if len(reaches) % 3 == 0 else None

    monkeypatch.setattr(fleet.Member, "look", late)
    start(checkpoint, one, available_now=True, maxBytesPerTrigger="1").process_all()
    assert numbers(checkpoint) == list(range(50))


def test_a_silent_collector_does_not_hold_up_the_others(collectors, start, monkeypatch):
    """It has no news."""
    one, two = collectors(), collectors()
    checkpoint = Checkpoint()
    query = start(checkpoint, one, two)
    query.process_all()
    monkeypatch.setattr(fleet, "ROUND", 1.0)
    ask = fleet.Member.ask

    async def silent(self, *args):
        if self.at.uri == two.uri:
            await trio.sleep_forever()
        await ask(self, *args)

    monkeypatch.setattr(fleet.Member, "ask", silent)
    one.ship(3)
    two.ship(3)
    while len(numbers(checkpoint)) < 3:
        query.trigger()
    assert numbers(checkpoint, one) == [0, 1, 2]
    assert numbers(checkpoint, two) == []


TIMES = [1.7e9, 1.7e9 + 60, 1.7e9 + 30, 1.7e9 + 3600]
"""2023-11-14T22:13:20Z, then a minute later, then the clock is set back by half a minute."""


@pytest.fixture
def clock(monkeypatch):
    """The clock of the hosts of collectors."""
    wall = SimpleNamespace(now=TIMES[0])
    monkeypatch.setattr("rsocket_trio.spool.ages.now", lambda: wall.now)
    monkeypatch.setattr("time.time", lambda: wall.now)
    return wall


def ship_at_times(clock, collector):
    for clock.now in TIMES:
        collector.ship(2)


@pytest.mark.parametrize(
    ("starting", "first"),
    [
        ("2023-11-14T22:13:20Z", 0),
        ("2020-01-01T00:00+01:00", 0),
        ("1700000000001", 2),
        ("2023-11-14T23:14:20+01:00", 2),
        ("2023-11-14T22:14:20.000001Z", 6),
        ("2023-11-15T00:00:00Z", 8),
    ],
)
def test_a_start_by_time(collectors, start, clock, starting, first):
    """From the first event of a time on; a restart goes on where the query was."""
    one = collectors()
    ship_at_times(clock, one)
    checkpoint = Checkpoint()
    start(checkpoint, one, startingTimestamp=starting).process_all()
    assert numbers(checkpoint) == list(range(first, 8))
    one.ship(1)
    start(checkpoint, one, startingTimestamp="2020-01-01T00:00Z").process_all()
    assert numbers(checkpoint) == list(range(first, 9))


def test_a_start_by_time_of_some_collectors(collectors, start, clock):
    """Those that are not named begin at their oldest event; one that is not there is an error."""
    one, two = collectors(), collectors()
    ship_at_times(clock, one)
    two.ship(3)
    one.thread.run(one.spool.commit, "other", 5)
    checkpoint = Checkpoint()
    times = json.dumps({one.spool_id: 1_700_000_000_001})
    start(checkpoint, one, two, startingTimestamp=times).process_all()
    assert numbers(checkpoint, one) == [4, 5, 6, 7], "the first four are deleted"
    assert numbers(checkpoint, two) == [0, 1, 2]
    with pytest.raises(CollectorsUnreachable, match="startingTimestamp names the spool nowhere"):
        start(Checkpoint(), one, startingTimestamp='{"nowhere": "2023-11-15T00:00Z"}').trigger()


def test_a_start_by_time_that_a_collector_does_not_tell(collectors, start, monkeypatch, clock):
    """An older one is an error. One that is silent begins later, and the others begin now."""
    one, two = collectors(), collectors()
    for each in (one, two):
        ship_at_times(clock, each)
    look = member.Member.look

    async def older(self, **asked):
        return attrs.evolve(await look(self, **asked), since=None)

    async def silent(self, **asked):
        return None if self.at.uri == two.uri else await look(self, **asked)

    starting = {"startingTimestamp": "2023-11-14T22:14Z"}
    with monkeypatch.context() as patched:
        patched.setattr(member.Member, "look", older)
        with pytest.raises(CollectorsUnreachable, match="an older version of rsocket-trio: update"):
            start(Checkpoint(), one, **starting).trigger()
        patched.setattr(member.Member, "look", silent)
        checkpoint = Checkpoint()
        start(checkpoint, one, two, **starting).trigger()
    assert json.loads(checkpoint.offsets[-1])["s"] == {one.spool_id: 2}
    start(checkpoint, one, two, **starting).process_all()
    assert numbers(checkpoint, one) == list(range(2, 8))
    assert numbers(checkpoint, two) == list(range(8))


@pytest.mark.parametrize("local", [False, True])
def test_a_batch_between_two_times(collectors, clock, local):
    """Batches of consecutive times have each event once, also when the clock was set back."""
    one = collectors()
    ship_at_times(clock, one)
    options = {"spool": str(one.directory)} if local else {"collectors": one.uri}

    def read(begin, end):
        given = {} if begin is None else {"startingTimestamp": begin}
        given |= {} if end is None else {"endingTimestamp": end}
        rows = read_batch(LumberjackDataSource, options | given)
        return [row["offset"] for row in rows]

    edges = [None, "1700000000000", "2023-11-14T22:13:50Z", "1700000061000", "1700099999000", None]
    found = [read(*pair) for pair in pairwise(edges)]
    assert found == [[], [0, 1], [2, 3, 4, 5], [6, 7], []]
    with pytest.raises(ValueError, match="ends at 2, before its beginning at 6"):
        read("1700000061000", json.dumps({one.spool_id: "2023-11-14T22:13:50Z"}))
    assert read(None, json.dumps({one.spool_id: 1700000061000})) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="endingTimestamp names the spool nowhere; there are"):
        read(None, '{"nowhere": 1700000061000}')


def test_the_lag_of_a_query(collectors, start, clock):
    """Rows and seconds by collector, as the progress of Spark has them."""
    one, two = collectors(), collectors()
    ship_at_times(clock, one)
    two.ship(1)
    clock.now += 5
    checkpoint = Checkpoint()
    query = start(checkpoint, one, two, maxRowsPerTrigger="6")

    def found():
        latest = query.reader.reportLatestOffset()
        source = {"endOffset": checkpoint.offsets[-1], "latestOffset": json.dumps(latest)}
        other = {"endOffset": "17", "latestOffset": "broken"}
        progress = {"timestamp": "now", "sources": [other, source]}
        return lag(SimpleNamespace(lastProgress=progress))

    query.trigger()
    assert found().rows == 9
    query.trigger()
    assert found().collectors == {
        one.spool_id: CollectorLag(3, 3575.0),
        two.spool_id: CollectorLag(0, 0.0),
    }
    assert str(found()) == "3 rows, 3575.0 s behind 2 collectors at now"
    query.process_all()
    assert (found().rows, found().seconds) == (0, 0)


def test_the_lag_of_a_query_that_has_not_run():
    """It is not 0. A query without collectors is an error."""
    none = lag(SimpleNamespace(lastProgress=None))
    assert (none.at, none.rows, none.seconds) == (None, None, None)
    assert str(none) == "the lag is not known: no trigger of this query has ended yet"
    source = {"endOffset": {"s": {"a": 5}, "v": 2}, "latestOffset": None}
    away = lag(SimpleNamespace(lastProgress={"timestamp": "now", "sources": [source]}))
    assert away.collectors == {"a": CollectorLag(None, None)}
    assert "no collector had been reached at now" in str(away)
    kafka = {"endOffset": {"topic": {"0": 5}}, "latestOffset": {"topic": {"0": 9}}}
    with pytest.raises(ValueError, match="no source of this query reads from collectors"):
        lag(SimpleNamespace(lastProgress={"timestamp": "now", "sources": [kafka]}))


def test_a_source_that_is_read_twice():
    """The read that is behind counts."""
    ends = ({"s": {"a": end}, "v": 2} for end in (3, 1, 2))
    latest = {"s": {"a": 5}, "l": {"a": 60.0}, "v": 2}
    sources = [{"endOffset": end, "latestOffset": latest} for end in ends]
    found = lag(SimpleNamespace(lastProgress={"timestamp": "now", "sources": sources}))
    assert found.collectors == {"a": CollectorLag(4, 60.0)}
