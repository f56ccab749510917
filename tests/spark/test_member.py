"""The connection of a query to a collector, which is lost and comes back."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio

from rsocket_trio.collector import CollectorLimits
from rsocket_trio.spark.spool_source.addresses import Address
from rsocket_trio.spark.spool_source.member import Member, Need, Reader
from rsocket_trio.spool import Batch
from tests.collector.running import running
from tests.spool.conftest import directory
from tests.waiting import until

__all__ = ["directory"]

LIMITS = CollectorLimits(instance_timeout=0.2)


async def test_a_silent_query_keeps_its_events_when_the_collector_restarts(directory):
    """It works on a long batch. Another query of the same consumer does not move beyond it."""
    slow, quick = (Member(Address(""), lambda: None, 100) for _ in range(2))
    async with trio.open_nursery() as nursery:
        async with running(directory, limits=LIMITS) as collector:
            for _ in range(30):
                await collector.spool.append(Batch(1, b"1\n", encoding="json-lines"))
            uri = collector.uris[0]
            slow.at = quick.at = Address(uri)
            for member in (slow, quick):
                nursery.start_soon(member.keep, lambda: None)
            await until(lambda: slow.client and quick.client)
            await slow.ask(Reader("q", "slow", 100), Need(5), None)
            await quick.ask(Reader("q", "quick", 100), Need(10), None)
            assert collector.spool.positions() == {"q": 5}
        await until(lambda: not slow.client and not quick.client)
        async with running(directory, uri, limits=LIMITS) as collector:
            await until(lambda: slow.client and quick.client)
            await trio.sleep(0.3)
            await quick.ask(Reader("q", "quick", 100), Need(20), None)
            assert collector.spool.positions() == {"q": 5}
            await slow.ask(Reader("q", "slow", 100), Need(25), None)
            assert collector.spool.positions() == {"q": 20}
            nursery.cancel_scope.cancel()


async def test_attempts_become_rare(autojump_clock, monkeypatch):
    """Where nobody is, there are few attempts; one that was there just now is dialled soon."""
    member = Member(Address("tcp://127.0.0.1:9"), lambda: None, 100)
    times = []

    async def connect(self, changed):
        times.append(trio.current_time())
        if len(times) == 6:
            self.info = object()
        raise OSError("nobody is there")

    monkeypatch.setattr(Member, "_connect", connect)
    with trio.move_on_after(10):
        await member.keep(lambda: None)
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == pytest.approx([0.25, 0.5, 1, 2, 2, 0.25, 0.5, 1, 2])
