"""Appending, reading back and opening again."""

from __future__ import annotations

import copy
import uuid

import pytest
import trio
import trio.testing

from rsocket_trio.errors import RSocketError
from rsocket_trio.spool import (
    Batch,
    BatchTooLarge,
    Retention,
    Spool,
    SpoolClosed,
    SpoolConfig,
    SpoolError,
    SpoolReader,
    errors,
    open_spool,
)
from rsocket_trio.spool.instances import check_name
from tests.spool.helpers import collect, events, lines, sized, transactions


async def test_offsets_count_events(directory):
    """A batch has the offsets from its first one on."""
    async with open_spool(directory) as spool:
        assert spool.head == spool.oldest == 0
        assert await spool.append(lines(3)) == 0
        assert await spool.append(lines(1)) == 3
        assert await spool.append(lines(5)) == 4
        assert spool.head == 9


async def test_a_batch_comes_back_as_it_was(directory):
    """Bytes, encoding, facts and times are those that were appended."""
    data = bytes(range(256)) * 300
    facts = {"peer": "10.0.0.7:4711", "größe": "\udcff", "received_at": "2026-01-02T03:04:05Z"}
    async with open_spool(directory) as spool:
        await spool.append(Batch(7, data, encoding="lumberjack-2+zlib", facts=facts))
        [batch] = await collect(spool.read(0))
    assert (batch.first, batch.count, batch.start, batch.stop, batch.end) == (0, 7, 0, 7, 7)
    assert (batch.skip, batch.wanted) == (0, 7)
    assert (batch.data, batch.encoding, batch.facts) == (data, "lumberjack-2+zlib", facts)
    assert batch.stored_at > 1.7e9
    assert repr(batch).count("x") < 10, "no data in a repr"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_data_may_be_any_bytes(directory, kind):
    """What is appended need not be ``bytes``."""
    async with open_spool(directory) as spool:
        await spool.append(Batch(1, kind(b"abc"), encoding="x"))
        await spool.append(Batch(1, kind(b""), encoding="x"))
        assert [batch.data for batch in await collect(spool.read(0))] == [b"abc", b""]


async def test_a_second_start_goes_on_where_the_first_ended(directory):
    """Batches, offsets, positions and the identity stay."""
    async with open_spool(directory) as spool:
        identity = spool.spool_id
        await spool.append(lines(3, "a"))
        await spool.append(lines(3, "b"))
        await spool.commit("one", 3)
        before = spool.statistics()
    async with open_spool(directory) as spool:
        assert spool.spool_id == identity
        assert uuid.UUID(identity).version == 4
        assert spool.statistics() == before
        assert await spool.append(lines(2, "c")) == 6
        assert [events(batch)[0] for batch in await collect(spool.read(3))] == [b"b 0", b"c 0"]
        await spool.commit("one", 8)
    async with open_spool(directory) as spool:
        assert (spool.oldest, spool.head) == (8, 8), "an empty spool does not begin anew"
        assert await spool.append(lines(1)) == 8


async def test_statistics(directory):
    """Each batch counts its contents and 64 bytes more."""
    async with open_spool(directory, max_size=1000) as spool:
        await spool.append(Batch(2, b"12345", encoding="abc", facts={"k": "v"}))
        await spool.commit("me", 1)
        statistics = spool.statistics()
        size = 64 + 5 + 3 + len('{"k":"v"}')
        assert (statistics.size, statistics.free) == (size, 1000 - size)
        assert (statistics.oldest, statistics.head, statistics.batches) == (0, 2, 1)
        assert (statistics.waiting, statistics.trouble) == (0, None)
        assert statistics.positions == spool.positions() == {"me": 1}
        spool.positions().clear()
        assert spool.positions() == {"me": 1}


async def test_other_sizes_at_a_second_start(directory):
    """The maximum size is no property of the files."""
    async with open_spool(directory, max_size=1000) as spool:
        for _ in range(5):
            await spool.append(sized(200))
    async with open_spool(directory, max_size=500) as spool:
        assert spool.full
        assert spool.statistics().free == 0
        await spool.commit("me", 4)
        assert not spool.full
        await spool.append(sized(300))


async def test_a_batch_that_never_fits(directory):
    """It is an error at once, and not a wait without end."""
    async with open_spool(directory, max_size=1000) as spool:
        with pytest.raises(BatchTooLarge, match="a batch of 1001 bytes does not fit into a spool"):
            await spool.append(sized(1001))
        await spool.append(sized(1000))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: Batch(0, b"", encoding="x"), ValueError),
        (lambda: Batch(2**31, b"", encoding="x"), ValueError),
        (lambda: Batch("1", b"", encoding="x"), TypeError),
        (lambda: Batch(1, "text", encoding="x"), TypeError),
        (lambda: Batch(1, memoryview(b"1234")[::2], encoding="x"), ValueError),
        (lambda: Batch(1, b"", encoding=""), ValueError),
        (lambda: Batch(1, b"", encoding="é"), ValueError),
        (lambda: Batch(1, b"", encoding="a\n"), ValueError),
        (lambda: Batch(1, b"", encoding="x" * 65), ValueError),
        (lambda: Batch(1, b"", encoding=7), TypeError),
        (lambda: Batch(1, b"", encoding="x", facts=7), TypeError),
        (lambda: Batch(1, b"", encoding="x", facts={"a": 1}), TypeError),
        (lambda: Batch(1, b"", encoding="x", facts={"a": "b" * 2**16}), ValueError),
        (Retention, ValueError),
        (lambda: Retention(max_age=0), ValueError),
        (lambda: Retention(max_size=-1), ValueError),
        (lambda: SpoolConfig(max_group_size=0), ValueError),
        (Spool, TypeError),
        (SpoolReader, TypeError),
    ],
)
def test_wrong_values(wrong, error):
    """They are errors where they are made."""
    with pytest.raises(error):
        wrong()


@pytest.mark.parametrize(
    "options",
    [
        {"max_size": 0},
        {"max_size": 1.5},
        {"config": 7},
        {"retention": 3600},
        {"max_size": 10, "retention": Retention(max_size=11)},
    ],
)
async def test_wrong_options(directory, options):
    """No directory is made for them."""
    with pytest.raises((TypeError, ValueError)):
        async with open_spool(directory, **options):
            raise AssertionError
    assert not directory.exists()
    least = Retention(max_size=10)
    async with open_spool(directory, max_size=10, retention=least) as spool:
        assert spool.max_size == 10


async def test_sizes(directory):
    """The default is a gigabyte. The smallest size has room for nothing, and opens a spool."""
    async with open_spool(directory) as spool:
        assert spool.max_size == 2**30
    for options in ({"max_size": 1}, {"max_size": 10, "retention": Retention(max_size=10)}):
        async with open_spool(directory, **options) as spool:
            assert spool.statistics().free == options["max_size"]
            with pytest.raises(BatchTooLarge):
                await spool.append(lines(1))


def test_the_largest_values():
    """They are right; one more is wrong, as above."""
    assert Batch(2**31 - 1, b"", encoding="x" * 64, facts={"ab": "c" * (2**16 - 2)}).data == b""
    with pytest.raises(ValueError, match="65536 characters"):
        Batch(1, b"", encoding="x", facts={"ab": "c" * (2**16 - 1)})
    assert Retention(max_size=0).max_size == 0
    check_name("consumer", "x" * 200)
    for name in ("", "x" * 201):
        with pytest.raises(ValueError, match="the consumer must have 1 to 200 characters"):
            check_name("consumer", name)


async def test_appends_of_what_is_no_batch(directory):
    async with open_spool(directory) as spool:
        with pytest.raises(TypeError, match="batch must be a Batch, not bytes"):
            await spool.append(b"bytes")
        assert transactions(spool) == 0


async def test_when_an_instance_was_seen(directory, monkeypatch):
    """What is written down about its absence is no word of its own."""
    wall = iter([100.0, 200.0, 300.0])
    monkeypatch.setattr("rsocket_trio.spool.spool.now", lambda: next(wall))
    async with open_spool(directory) as spool:
        await spool.commit("a", 0, instance="gone")
        await spool.commit("a", 0, instance="gone", absent=9.0)
        [found] = spool.instances()
        assert (found.seen_at, found.absent) == (100.0, 9.0)
        await spool.commit("a", 0, instance="gone")
        [found] = spool.instances()
        assert (found.seen_at, found.absent) == (200.0, 0.0)


async def test_the_same_position_is_stored_once_a_minute(directory, monkeypatch):
    """Many consumers tell theirs all the time: that a consumer is still there is written seldom."""
    wall = iter([100.0, 160.0, 160.5])
    monkeypatch.setattr("rsocket_trio.spool.spool.now", lambda: next(wall))
    async with open_spool(directory) as spool:
        written = []
        for _ in range(3):
            await spool.commit("me", 0)
            written.append((transactions(spool), spool.instances()[0].seen_at))
    assert written == [(1, 100.0), (1, 100.0), (2, 160.5)]


async def test_the_error_of_a_block_arrives_as_it_is(directory):
    """It is in no group, and the spool is closed."""
    with pytest.raises(KeyError, match="mine"):
        async with open_spool(directory) as spool:
            raise KeyError("mine")
    with pytest.raises(SpoolClosed):
        await spool.append(lines(1))
    async with open_spool(directory):
        pass


async def test_a_closed_spool(directory):
    """Every call says that it is closed, also those that waited."""
    waiting = []

    async def wait(call, *args):
        with pytest.raises(SpoolClosed, match="the block of this spool has ended"):
            await call(*args)
        waiting.append(call)

    # The tasks that wait are not in the block of the spool.
    async with trio.open_nursery() as outer:
        async with open_spool(directory, max_size=100) as spool:
            await spool.append(sized(100))
            reader = spool.read(0)
            follower = spool.read(1, follow=True)
            outer.start_soon(wait, follower.__anext__)
            outer.start_soon(wait, spool.append, sized(90))
            outer.start_soon(wait, spool.wait_room)
            await trio.testing.wait_all_tasks_blocked()
    assert len(waiting) == 3
    for call in (
        lambda: spool.append(sized(10)),
        lambda: spool.commit("a", 0),
        lambda: spool.forget("a"),
        spool.wait_room,
        reader.__anext__,
        follower.__anext__,
    ):
        with pytest.raises(SpoolClosed):
            await call()
    assert spool.statistics().head == 1


def test_errors_are_of_this_package():
    """Each derives from RSocketError, and can be copied."""
    for name in errors.__all__:
        cls = getattr(errors, name)
        assert issubclass(cls, SpoolError)
        assert issubclass(cls, RSocketError)
    trimmed = copy.copy(errors.OffsetTrimmed(3, 10))
    assert (trimmed.offset, trimmed.oldest) == (3, 10)
    assert str(trimmed) == "offset 3 is not kept any more: the oldest one is 10"
    ahead = copy.copy(errors.OffsetNotStored(30, 10))
    assert (ahead.offset, ahead.head) == (30, 10)
    assert str(ahead) == "offset 30 is beyond the head of the spool, 10"
