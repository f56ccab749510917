"""`describe_spool`: the numbers of a spool, in any process."""

from __future__ import annotations

import sqlite3
import time

import pytest

from rsocket_trio.spool import NotASpool, SpoolDescription, SpoolFailed, describe_spool, open_spool
from tests.spool.helpers import collect, lines


async def test_what_it_says(directory):
    """It agrees with the open spool, while that is written and afterwards."""
    before = time.time()
    async with open_spool(directory) as spool:
        empty = describe_spool(directory)
        assert before <= empty.created_at <= time.time()
        assert empty == SpoolDescription(
            spool_id=spool.spool_id,
            created_at=empty.created_at,
            oldest=0,
            head=0,
            batches=0,
            size=0,
            oldest_at=None,
            newest_at=None,
            epoch=None,
            instances=(),
            needed_at={},
        )
        for _ in range(4):
            await spool.append(lines(10))
        await spool.commit("slow", 12)
        await spool.commit("fast", 40)
        found = describe_spool(directory)
        numbers = spool.statistics()
        assert found.positions == {"slow": 12, "fast": 40}
        assert (found.epoch, list(found.instances)) == (spool.epoch, spool.instances()[::-1])
        [batch] = await collect(spool.read(12, 13))
        assert found.needed_at == {12: batch.stored_at}
        for name in ("oldest", "head", "batches", "size", "oldest_at", "newest_at", "positions"):
            assert getattr(found, name) == getattr(numbers, name)
        assert (found.oldest, found.head) == (10, 40)
    assert describe_spool(directory) == found


async def test_no_spool(directory):
    """There is none, or its tables are damaged."""
    with pytest.raises(NotASpool, match="there is no such directory"):
        describe_spool(directory)
    async with open_spool(directory) as spool:
        await spool.append(lines(10))
    with sqlite3.connect(directory / "spool.sqlite3") as connection:
        connection.execute("DROP TABLE instances")
    connection.close()
    with pytest.raises(SpoolFailed):
        describe_spool(directory)
