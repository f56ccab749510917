"""The octets of unread elements are bounded for a connection, whatever demand has been granted."""

from __future__ import annotations

import pytest
import trio

from rsocket_trio import rsio
from rsocket_trio.reactive_streams import TooMuchUnread, collect, from_iterable
from tests.rsio.engine_scenes import pair

SIZE = 10_000
LIMITS = rsio.RsioLimits(max_element_size=19 * SIZE)
CONFIG = rsio.RsioConfig(max_unread_size=20 * SIZE, limits=LIMITS)


def publishers():
    return {
        "large": from_iterable([b"x" * SIZE] * 1000),
        "fixed": rsio.fixed_size([b"x" * SIZE] * 1000, SIZE),
        "small": from_iterable([b"%d" % number for number in range(10)]),
    }


def unread(connection: rsio.Connection) -> int:
    return connection._link.subscriptions.unread.held


async def test_a_reader_that_does_not_read():
    """It gets what has arrived, and then the error; the peer is told; others go on."""
    async with pair(publishers(), config=CONFIG) as connection:
        async with connection.publisher("large").open(1000) as elements:
            await trio.testing.wait_all_tasks_blocked()
            assert 0 < unread(connection) <= 20 * SIZE
            assert len(await collect(connection.publisher("small"))) == 10
            got = 0
            with pytest.raises(TooMuchUnread, match=r"RsioConfig\.max_unread_size"):
                async for element in elements:
                    got += len(element)
            assert 0 < got <= 20 * SIZE
        assert unread(connection) == 0


async def test_a_reader_that_reads_gets_all():
    """The account goes down with each element."""
    async with pair(publishers(), config=CONFIG) as connection:
        assert len(await collect(connection.publisher("large"), prefetch=8)) == 1000
        async with connection.publisher("fixed").open_packed(8) as blocks:
            assert sum([block.count async for block in blocks]) == 1000
        assert unread(connection) == 0


async def test_blocks_that_are_not_read():
    """Packed elements count too, and those that are dropped do not count any more."""
    async with pair(publishers(), config=CONFIG) as connection:
        async with connection.publisher("fixed").open_packed(1000) as blocks:
            await trio.testing.wait_all_tasks_blocked()
            assert 0 < unread(connection) <= 20 * SIZE
            with pytest.raises(TooMuchUnread):
                async for block in blocks:
                    assert block.size == SIZE
        assert unread(connection) == 0


@pytest.mark.limits_row("rsio: elements that are not read")
async def test_readers_share_the_account():
    """Two readers that are within their demand, and together above the limit."""
    async with pair(publishers(), config=CONFIG) as connection:
        first, second = (connection.publisher("large").open(15) for _ in range(2))
        async with first as one, second as other:
            await trio.testing.wait_all_tasks_blocked()
            assert unread(connection) <= 20 * SIZE
            failed = 0
            for reader in (one, other):
                try:
                    while True:
                        reader.receive_nowait()
                except trio.WouldBlock:
                    pass
                except TooMuchUnread:
                    failed += 1
            assert failed  # one of them, or both: their elements come in turns
        assert unread(connection) == 0
