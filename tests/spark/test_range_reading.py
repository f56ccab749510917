"""A task reads its range from files or from the collector: all of its events, or an error."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import closing

import attrs
import pytest
import trio

from rsocket_trio import Rejected, Router, serve
from rsocket_trio.collector import READ
from rsocket_trio.collector.refusals import busy, refusal, stalled
from rsocket_trio.spark.spool_source import reading
from rsocket_trio.spark.spool_source.reading import Place, read_stored
from rsocket_trio.spark.spool_source.source_errors import DataLost, RangeUnreadable
from rsocket_trio.spark.trio_thread import TrioThread
from rsocket_trio.spool import OffsetNotStored, OffsetTrimmed, SpoolFailed
from tests.spark.collectors import LocalCollector


@pytest.fixture
def collector(tmp_path):
    made = LocalCollector(tmp_path / "spool")
    for _ in range(5):
        made.ship(10)
    yield made
    made.stop()


@pytest.fixture
def place(collector):
    return Place(spool_id=collector.spool_id, start=3, stop=47, uri=collector.uri, timeout=30.0)


def offsets(place):
    return [n for stored in read_stored(place) for n in range(stored.start, stored.stop)]


def test_from_the_collector(place):
    assert offsets(pickle.loads(pickle.dumps(place))) == list(range(3, 47))


def test_from_the_files(place, collector):
    """Without a connection."""
    here = attrs.evolve(place, uri=None, directory=str(collector.directory))
    assert offsets(here) == list(range(3, 47))


def test_files_of_another_host(place, tmp_path):
    """The directory is not there, or it has another spool."""
    assert offsets(attrs.evolve(place, directory=str(tmp_path / "nothing"))) == list(range(3, 47))
    other = LocalCollector(tmp_path / "other")
    other.ship(100)
    assert offsets(attrs.evolve(place, directory=str(other.directory))) == list(range(3, 47))
    other.stop()


def test_files_of_an_old_copy(place, collector, tmp_path):
    """They do not have all events of the range, so the task asks the collector."""
    collector.stop()
    shutil.copytree(collector.directory, tmp_path / "copy")
    collector.start()
    collector.ship(10)
    head = collector.description.head
    new = attrs.evolve(place, stop=head, uri=collector.uri)
    assert offsets(attrs.evolve(new, directory=str(tmp_path / "copy"))) == list(range(3, head))
    with pytest.raises(OffsetNotStored):
        offsets(attrs.evolve(new, uri=None, directory=str(tmp_path / "copy")))


def test_files_only_and_not_there(place, tmp_path):
    here = attrs.evolve(place, uri=None, directory=str(tmp_path / "nothing"))
    with pytest.raises(RangeUnreadable, match=r"the directory of the spool.*is not on this host"):
        offsets(here)


def test_damaged_files(place, collector, monkeypatch):
    """An error in the middle is not hidden by another source."""
    read_range = reading.read_range

    def failing(*args, **options):
        yield from list(read_range(*args, **options))[:2]
        raise SpoolFailed("damaged")

    monkeypatch.setattr(reading, "read_range", failing)
    with pytest.raises(SpoolFailed, match="damaged"):
        offsets(attrs.evolve(place, directory=str(collector.directory)))


def test_events_that_were_deleted(place, collector):
    collector.thread.run(collector.spool.commit, "other", 20)
    for uri, directory in ((collector.uri, None), (None, str(collector.directory))):
        gone = attrs.evolve(place, uri=uri, directory=directory)
        with pytest.raises(DataLost, match=r"the events 3 to 20 of the spool.*failOnDataLoss"):
            offsets(gone)
        assert offsets(attrs.evolve(gone, fail_on_data_loss=False)) == list(range(20, 47))
        assert offsets(attrs.evolve(gone, stop=15, fail_on_data_loss=False)) == []


def test_another_spool(place, collector):
    collector.replace()
    collector.ship(100)
    with pytest.raises(DataLost, match=r"not .*; the events that are wanted are gone"):
        offsets(place)
    assert offsets(attrs.evolve(place, fail_on_data_loss=False)) == []


@pytest.mark.parametrize("written_on", [0, 40])
def test_an_older_copy(place, collector, written_on):
    """If the query goes on without what the copy has not, it reads what the copy has."""
    database = collector.directory / "spool.sqlite3"
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(":memory:")) as copy:
        source.backup(copy)
        collector.ship(20)
        wanted = attrs.evolve(place, start=30, stop=65, epoch=collector.spool.epoch)
        assert offsets(wanted) == list(range(30, 65))
        collector.stop()
        with closing(sqlite3.connect(database)) as restored:
            copy.backup(restored)
    collector.start()
    if written_on:
        collector.ship(written_on)
    for uri, directory in ((collector.uri, None), (None, str(collector.directory))):
        here = attrs.evolve(wanted, uri=uri, directory=directory, fail_on_data_loss=False)
        assert offsets(here) == list(range(30, 50))
        assert offsets(attrs.evolve(here, start=50)) == []
        with pytest.raises(DataLost, match="restored from an older copy"):
            offsets(attrs.evolve(here, fail_on_data_loss=True))


def test_a_restart_in_the_middle(place, collector):
    """The task goes on where it was."""
    found = []
    for stored in read_stored(place):
        found += range(stored.start, stored.stop)
        if len(found) < 10:
            collector.restart()
    assert found == list(range(3, 47))


def test_a_collector_that_is_away_for_a_moment(place, collector):
    collector.stop()
    timer = threading.Timer(0.5, collector.start)
    timer.start()
    assert offsets(place) == list(range(3, 47))
    timer.join()


def test_a_collector_that_stays_away(place, collector):
    collector.stop()
    with pytest.raises(RangeUnreadable, match=r"from offset 3 on has come for 0\.3 s.*reach it"):
        offsets(attrs.evolve(place, timeout=0.3))
    collector.start()


def test_a_silent_collector(place):
    """A task of Spark has no timeout of its own."""
    router = Router()

    @router.request_stream(READ)
    async def read() -> AsyncIterator[bytes]:
        await trio.sleep_forever()
        yield b""

    async def silent(*, task_status):
        class Status:
            @staticmethod
            def started(server):
                task_status.started(server.uris[0])

        await serve(router, "tcp://127.0.0.1:0", task_status=Status)

    thread = TrioThread("silent")
    uri = thread.serve(silent)
    with pytest.raises(RangeUnreadable, match="the collector is silent"):
        offsets(attrs.evolve(place, uri=uri, timeout=0.3))
    thread.close()


def test_a_task_that_stops_early(place, collector):
    """As for LIMIT: the connection is closed with the iterator."""
    batches = read_stored(place)
    next(batches)
    batches.close()
    collector.stop()  # It would wait for a reader.
    collector.start()


def test_a_slow_task(place):
    """The timeout is for the collector, not for the task."""
    slow = attrs.evolve(place, timeout=0.2)
    found = []
    for stored in read_stored(slow):
        found += range(stored.start, stored.stop)
        threading.Event().wait(0.15)
    assert found == list(range(3, 47))


def test_a_busy_collector(place, caplog, monkeypatch):
    """It has no room for this reader for longer than the timeout; the task waits for its turn."""
    monkeypatch.setattr(reading, "BUSY_PAUSE", 0.5)
    refusals = 8
    asked = []
    thread, uri = _collector_of(
        lambda number: busy(f"no room {number}") if number < refusals else Rejected("enough"), asked
    )
    impatient = attrs.evolve(place, uri=uri, timeout=3.0)
    began = time.monotonic()
    with pytest.raises(RangeUnreadable, match=r"for 3 s.*enough"):
        offsets(impatient)
    assert len(asked) > refusals
    assert time.monotonic() - began > refusals * reading.BUSY_PAUSE > 3.0
    assert [each.message for each in caplog.records if "asks again" in each.message] == [
        f"{uri}: REJECTED: no room 0; the task asks again"
    ]
    thread.close()


def test_a_range_that_is_lost_to_other_readers(place):
    """The task asks for it again, also if that is before its first batch."""
    asked = []
    thread, uri = _collector_of(lambda number: stalled() if number < 2 else trimmed(9), asked)
    with pytest.raises(DataLost, match="the events 3 to 9"):
        offsets(attrs.evolve(place, uri=uri))
    assert len(asked) == 3
    thread.close()


def trimmed(oldest):
    return refusal(OffsetTrimmed(3, oldest))


def _collector_of(answer, asked):
    """A collector that refuses each request for a range with the error of ``answer``."""
    router = Router()

    @router.request_stream(READ)
    async def read() -> AsyncIterator[bytes]:
        asked.append(None)
        raise answer(len(asked) - 1)
        yield b""

    async def refusing(*, task_status):
        class Status:
            @staticmethod
            def started(server):
                task_status.started(server.uris[0])

        await serve(router, "tcp://127.0.0.1:0", task_status=Status)

    thread = TrioThread("refusing")
    return thread, thread.serve(refusing)


def test_gaps_are_noticed(place, monkeypatch):
    """An event that is missing is an error, whoever is wrong."""
    read_from = reading._read_from

    def without_the_second(place):
        for n, stored in enumerate(read_from(place)):
            if n != 1:
                yield stored

    monkeypatch.setattr(reading, "_read_from", without_the_second)
    with pytest.raises(RangeUnreadable, match="gave the event 20 and not 10"):
        offsets(place)


def test_an_end_that_comes_too_early(place, monkeypatch):
    monkeypatch.setattr(reading, "_read_from", lambda place: iter(()))
    with pytest.raises(RangeUnreadable, match="gave no events from 3 on"):
        offsets(place)
