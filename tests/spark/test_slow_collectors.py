"""Collectors that take longer for an answer than a query waits: they are read all the same."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

import trio

from rsocket_trio.spark.spool_source import fleet
from rsocket_trio.spark.spool_source.fleet import Fleet
from rsocket_trio.spark.spool_source.member import Member
from rsocket_trio.spark.spool_source.offsets import Offsets
from rsocket_trio.spark.spool_source.ranges import Limit
from rsocket_trio.spark.spool_source.settings import SourceSettings
from rsocket_trio.spool import Batch
from tests.collector.running import running

ROUND = 0.01
DELAY = 5 * ROUND


async def append(collector, count):
    for _ in range(count):
        await collector.spool.append(Batch(1, b"1\n", encoding="json-lines"))


def delayed(function, slow):
    """The same function, late for the collectors at some addresses."""

    async def late(self, *args, **more):
        if self.at.uri in slow:
            await trio.sleep(DELAY)
        return await function(self, *args, **more)

    return late


async def latest(asked, start, limit):
    """Ask as Spark does, until there is news."""
    with trio.fail_after(30):
        while (end := await asked.latest(start, limit)) == start:
            pass
        return end


@pytest.mark.parametrize("limit", [Limit(), Limit(rows=100), Limit(size=10**6)], ids=str)
async def test_each_answer_is_late(tmp_path, nursery, monkeypatch, limit):
    """Each round of questions ends before the answers, and the answers count."""
    async with running(tmp_path / "a") as one, running(tmp_path / "b") as two:
        settings = SourceSettings(collectors=(one.uris[0], two.uris[0]), poll_timeout=0.0)
        asked = await nursery.start(Fleet(settings.collectors, settings).serve)
        ids = [each.spool.spool_id for each in (one, two)]
        start = await asked.latest(Offsets(), Limit())
        assert start.spools == dict.fromkeys(ids, 0)
        slow = {two.uris[0]}
        monkeypatch.setattr(fleet, "ROUND", ROUND)
        monkeypatch.setattr(Member, "ask", delayed(Member.ask, slow))
        monkeypatch.setattr(Member, "look", delayed(Member.look, slow))
        await append(two, 5)
        assert (await latest(asked, start, limit)).spools == {ids[0]: 0, ids[1]: 5}


async def test_a_slow_collector_is_added(tmp_path, nursery, monkeypatch):
    """It gets its place when it has answered."""
    async with running(tmp_path / "a") as one, running(tmp_path / "b") as two:
        await append(two, 5)
        settings = SourceSettings(collectors=(one.uris[0], two.uris[0]), poll_timeout=0.0)
        slow = {two.uris[0]}
        monkeypatch.setattr(fleet, "ROUND", ROUND)
        monkeypatch.setattr(Member, "ask", delayed(Member.ask, slow))
        asked = await nursery.start(Fleet(settings.collectors, settings).serve)
        ids = [each.spool.spool_id for each in (one, two)]
        added = await latest(asked, Offsets({ids[0]: 0}, {}, "me"), Limit())
        assert added.spools == {ids[0]: 0, ids[1]: 0}
        assert (await latest(asked, added, Limit())).spools == {ids[0]: 0, ids[1]: 5}


async def test_a_silent_collector_that_is_added_does_not_hold_up_the_others(
    tmp_path, nursery, monkeypatch
):
    """It has no place yet."""
    async with running(tmp_path / "a") as one, running(tmp_path / "b") as two:
        settings = SourceSettings(collectors=(one.uris[0], two.uris[0]), poll_timeout=0.0)
        asked = await nursery.start(Fleet(settings.collectors, settings).serve)
        await asked._wait_for(asked._all_connected)
        ask = Member.ask

        async def silent(self, *args):
            if self.at.uri == two.uris[0]:
                await trio.sleep_forever()
            return await ask(self, *args)

        monkeypatch.setattr(fleet, "ROUND", 0.5)
        monkeypatch.setattr(Member, "ask", silent)
        await append(one, 5)
        start = Offsets({one.spool.spool_id: 0}, {}, "me")
        assert (await latest(asked, start, Limit())).spools == {one.spool.spool_id: 5}
