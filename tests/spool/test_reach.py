"""`Spool.reach` and `find_reach`: how far a number of bytes reaches."""

from __future__ import annotations

import sqlite3

import pytest

from rsocket_trio.spool import (
    NotASpool,
    OffsetNotStored,
    OffsetTrimmed,
    SpoolFailed,
    WrongSpool,
    find_reach,
    open_spool,
)
from rsocket_trio.spool.reach import reach_within
from rsocket_trio.spool.schema import connect_reader
from tests.spool.helpers import FaultyConnection, sized

SIZES = [(200, 3), (100, 1), (400, 4), (100, 2), (100, 5), (1000, 1), (100, 1)]


def expected(start, size):
    """The same, counted batch by batch."""
    at, used, reach = 0, 0, None
    for cost, count in SIZES:
        if at + count > start:
            used += cost
            if reach is None or used <= size:
                reach = at + count
            else:
                return reach
        at += count
    return start if reach is None else reach


async def test_every_start_and_size(directory):
    """It agrees with a count of all batches, within trio and without, also after a trim."""
    async with open_spool(directory) as spool:
        for cost, count in SIZES:
            await spool.append(sized(cost, count))
        for start in range(spool.head + 1):
            for size in range(0, 2200, 50):
                reach = await spool.reach(start, size)
                assert reach == find_reach(directory, start, size) == expected(start, size)
        await spool.commit("me", 9)
        for start in range(8, spool.head + 1):
            assert await spool.reach(start, 300) == expected(start, 300)
        with pytest.raises(OffsetTrimmed) as trimmed:
            await spool.reach(7, 300)
        assert (trimmed.value.offset, trimmed.value.oldest) == (7, 8)


async def test_few_rows_are_read_and_no_data(directory):
    """Of many batches it looks at a few, and never at their bytes."""
    async with open_spool(directory) as spool:
        for _ in range(600):
            await spool.append(sized(200))
    connection = FaultyConnection(connect_reader(directory))
    assert reach_within(connection, 10, 200 * 100) == 110
    assert len(connection.seen) < 20
    assert not [each for each in connection.seen if "data" in each]
    connection.close()


async def test_a_wrong_question(directory):
    """Offsets and sizes that make no sense, another spool, no spool."""
    with pytest.raises(NotASpool):
        find_reach(directory, 0, 1)
    async with open_spool(directory) as spool:
        await spool.append(sized(100))
        for start, size, error in (
            (2, 1, OffsetNotStored),
            (-1, 1, ValueError),
            (0, -1, ValueError),
            (0, "1", TypeError),
        ):
            with pytest.raises(error):
                await spool.reach(start, size)
            with pytest.raises(error):
                find_reach(directory, start, size)
        with pytest.raises(WrongSpool):
            find_reach(directory, 0, 1, spool_id="other")
        assert find_reach(directory, 0, 1, spool_id=spool.spool_id) == 1


async def test_a_damaged_spool(directory):
    """A batch that is missing is an error, not another answer."""
    async with open_spool(directory) as spool:
        for _ in range(3):
            await spool.append(sized(100))
    with sqlite3.connect(directory / "spool.sqlite3") as connection:
        connection.execute("DELETE FROM batches WHERE first = 1")
    connection.close()
    with pytest.raises(SpoolFailed):
        find_reach(directory, 1, 100)
