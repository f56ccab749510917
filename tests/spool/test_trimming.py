"""Consumers, their positions, and what is deleted."""

from __future__ import annotations

import sqlite3
import time

import pytest
import trio
import trio.testing

from rsocket_trio.protocol.retry import Retry
from rsocket_trio.spool import (
    OffsetNotStored,
    OffsetTrimmed,
    Retention,
    SpoolClosed,
    SpoolConfig,
    open_spool,
)
from rsocket_trio.spool import ages as ages_module
from rsocket_trio.spool.ages import Age, Ages
from tests.spool.helpers import (
    HeldCommits,
    collect,
    fault,
    faulty,
    lines,
    sized,
    spans,
    transactions,
    until,
)


async def test_the_slowest_consumer_decides(directory):
    """Batches go when all consumers have them behind them."""
    async with open_spool(directory) as spool:
        for _ in range(5):
            await spool.append(lines(2))
        assert spool.oldest == 0, "without consumers everything stays"
        await spool.commit("slow", 0)
        await spool.commit("fast", 10)
        assert spool.oldest == 0
        await spool.commit("slow", 3)
        assert spool.oldest == 2, "a batch stays as long as one of its events is needed"
        await spool.commit("slow", 4)
        assert (spool.oldest, spool.statistics().batches) == (4, 3)
        await spool.forget("slow")
        assert (spool.oldest, spool.statistics().batches, spool.statistics().size) == (10, 0, 0)
        await spool.forget("fast")
        await spool.forget("unknown")
        await spool.append(lines(1))
        assert (spool.oldest, spool.positions()) == (10, {})
    async with open_spool(directory) as spool:
        assert spool.positions() == {}, "they are forgotten on the disk too"


async def test_a_position_may_go_back(directory):
    """To what is still there."""
    async with open_spool(directory) as spool:
        for _ in range(3):
            await spool.append(lines(2))
        await spool.commit("keeps", 2)
        await spool.commit("moves", 6)
        await spool.commit("moves", 2)
        assert spool.positions() == {"keeps": 2, "moves": 2}
        with pytest.raises(OffsetTrimmed) as refused:
            await spool.commit("moves", 1)
        assert refused.value.oldest == 2
        with pytest.raises(OffsetNotStored):
            await spool.commit("moves", 7)
        with pytest.raises(TypeError):
            await spool.commit("moves", "7")
        for name in ("", "x" * 201, 7):
            with pytest.raises(ValueError, match="must have 1 to 200 characters"):
                await spool.commit(name, 2)
            with pytest.raises(ValueError, match="must have 1 to 200 characters"):
                await spool.forget(name)
        with pytest.raises(UnicodeEncodeError):
            await spool.commit("\udcff", 2)
        assert spool.positions() == {"keeps": 2, "moves": 2}


async def test_a_position_that_is_trimmed_meanwhile(directory):
    """A new consumer that comes while its events are deleted is told so."""
    refused = []

    async def come_late():
        try:
            await spool.commit("two", 0)
        except OffsetTrimmed as error:
            refused.append(error.oldest)

    async with open_spool(directory) as spool:
        await spool.append(lines(4))
        with faulty(spool) as connection:
            held = HeldCommits(connection)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(spool.commit, "one", 4)
                await held.begun()
                nursery.start_soon(come_late)
                await trio.testing.wait_all_tasks_blocked()
                held.release()
        assert refused == [4]
        assert spool.positions() == {"one": 4}


async def test_telling_the_same_position_again(directory):
    """It costs no transaction; but it counts if another one is on its way."""
    async with open_spool(directory) as spool:
        await spool.append(lines(4))
        await spool.commit("me", 2)
        before = transactions(spool)
        for _ in range(10):
            await spool.commit("me", 2)
        assert transactions(spool) == before
        async with trio.open_nursery() as nursery:
            nursery.start_soon(spool.commit, "me", 3)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(spool.commit, "me", 2)
        assert spool.positions()["me"] in {2, 3}
        await spool.commit("me", 3)
        await spool.commit("me", 2)
        assert spool.positions() == {"me": 2}
        with faulty(spool) as connection:
            held = HeldCommits(connection)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(spool.commit, "me", 3)
                await held.begun()
                nursery.start_soon(spool.commit, "me", 2)  # The stored one, but 3 is on its way.
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(spool.commit, "me", 2)
                await trio.testing.wait_all_tasks_blocked()
                held.release()
        assert spool.positions() == {"me": 2}
    with pytest.raises(SpoolClosed):
        await spool.commit("me", 2)


async def test_deleting_in_steps(directory):
    """A transaction deletes a bounded number of batches and bytes; appends come in between."""
    config = SpoolConfig(max_trim_batches=4, max_trim_size=10**6)
    async with open_spool(directory, config=config) as spool:
        for _ in range(22):
            await spool.append(lines(1))
        with faulty(spool) as connection:
            await spool.commit("me", 22)
            assert spool.oldest == 4
            assert await spool.append(lines(1)) == 22
            await until(lambda: spool.oldest == 22)
            deletes = [each for each in connection.seen if each.startswith("DELETE FROM batches")]
        assert len(deletes) == 6
    config = SpoolConfig(max_trim_size=250)
    async with open_spool(directory, config=config) as spool:
        await spool.commit("me", 22)
        for size in (100, 100, 100, 400, 100):
            await spool.append(sized(size))
        await spool.commit("me", spool.head)
        assert spool.oldest == 24
        await until(lambda: spool.oldest == spool.head)


async def test_the_size_of_a_step(directory):
    """Its limit is exact, and one batch that is larger goes alone."""
    async with open_spool(directory, config=SpoolConfig(max_trim_size=200)) as spool:
        await spool.commit("me", 0)
        for size in (100, 100, 101, 100, 300, 200):
            await spool.append(sized(size))
        with faulty(spool) as connection:
            await spool.commit("me", 6)
            await until(lambda: spool.oldest == 6)
            said = "UPDATE spool SET oldest"
            steps = [each for each in connection.seen if each.startswith(said)]
        assert len(steps) == 5


async def test_a_step_that_fails_is_tried_again(directory):
    """Also when no call comes after it."""
    config = SpoolConfig(max_trim_batches=2, retry=Retry(initial_delay=0.001))
    async with open_spool(directory, config=config) as spool:
        for _ in range(6):
            await spool.append(lines(1))
        with faulty(spool) as connection:
            left = [2]

            def fail(statement):
                if statement.startswith("BEGIN") and spool.oldest == 2 and left[0]:
                    left[0] -= 1
                    return fault(sqlite3.SQLITE_IOERR)
                return None

            connection.fail = fail
            await spool.commit("me", 6)
            await until(lambda: spool.oldest == 6)
            assert left == [0]
        await until(lambda: spool.statistics().trouble is None)


async def test_retention_without_consumers(directory):
    """The newest batches stay, up to the size."""
    async with open_spool(directory, retention=Retention(max_size=300), max_size=300) as spool:
        for number in range(10):
            await spool.append(sized(100))
            assert spool.statistics().size <= 300
            assert spool.oldest == max(0, number - 2)
        await spool.append(sized(300))
        assert (spool.oldest, spool.head) == (10, 11)
    async with open_spool(directory, retention=Retention(max_size=100)) as spool:
        await until(lambda: spool.oldest == 11)  # at the start, and not with the next change


async def test_retention_behind_consumers(directory):
    """What consumers need stays in any case; what they have read stays within the retention."""
    retention = Retention(max_size=250)
    async with open_spool(directory, retention=retention, max_size=1000) as spool:
        await spool.append(sized(100))
        await spool.commit("me", 0)
        for _ in range(7):
            await spool.append(sized(100))
        assert spool.oldest == 0
        await spool.commit("me", 4)
        assert spool.oldest == 4
        await spool.commit("me", 8)
        assert spool.oldest == 6, "two batches are within the retention"


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize(("size", "oldest"), [(300, 0), (299, 1)])
async def test_a_start_keeps_what_the_retention_keeps(directory, size, oldest, is_read):
    """To the byte, and with a consumer who has read all: nothing waits, so nothing makes room."""
    async with open_spool(directory) as spool:
        if is_read:
            await spool.commit("me", 0)
        for _ in range(3):
            await spool.append(sized(100))
    async with open_spool(directory, retention=Retention(max_size=size)) as spool:
        if is_read:
            await spool.commit("me", 3)
        await until(lambda: spool.oldest == oldest)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert spool.oldest == oldest


async def test_new_batches_have_precedence_over_the_retention(directory):
    """Batches that all consumers have read go when there is no room."""
    retention = Retention(max_age=3600)
    async with open_spool(directory, retention=retention, max_size=300) as spool:
        await spool.append(sized(100))
        await spool.commit("me", 1)
        await spool.append(sized(100))
        await spool.append(sized(100))
        assert spool.oldest == 0
        with trio.fail_after(30):
            await spool.append(sized(100))
        assert spool.oldest == 1
        with trio.move_on_after(0.05) as scope:
            await spool.append(sized(100))
        assert scope.cancelled_caught, "the second batch is needed"
        assert spool.oldest == 1


async def test_a_retention_that_is_just_full(directory):
    """A transaction without a batch deletes nothing, as nothing comes in."""
    async with open_spool(directory, retention=Retention(max_size=300)) as spool:
        for _ in range(3):
            await spool.append(sized(100))
        await spool.commit("me", 3)
        assert spool.oldest == 0


async def test_retention_by_age(directory, monkeypatch):
    """Batches that are too old go, without another call."""
    clocks = Clocks(monkeypatch)
    async with open_spool(directory, retention=Retention(max_age=0.05)) as spool:
        await spool.append(lines(1))
        clocks.advance(0.03)
        await spool.append(lines(1))
        clocks.advance(0.03)
        await until(lambda: spool.oldest == 1)
        clocks.advance(0.03)
        await until(lambda: spool.oldest == 2)
        assert spool.statistics().batches == 0


async def test_retention_begins_with_the_opening(directory, monkeypatch):
    """What is too old by then goes at once, without a call, and not after a fifth of the age."""
    clocks = Clocks(monkeypatch)
    async with open_spool(directory) as spool:
        await spool.append(lines(1))
    clocks.advance(3601)
    async with open_spool(directory, retention=Retention(max_age=3600)) as spool:
        await until(lambda: spool.oldest == 1)


async def test_the_age_of_a_retention(directory, monkeypatch):
    """A batch is kept for all of it, and goes with the next transaction behind it."""
    clocks = Clocks(monkeypatch)
    clocks.wall = 2.0**31
    async with open_spool(directory, retention=Retention(max_age=8)) as spool:
        await spool.append(lines(1))
        clocks.advance(8)
        await spool.append(lines(1))
        assert spool.oldest == 0
        clocks.advance(1 / 8)
        await spool.append(lines(1))
        assert spool.oldest == 1


class Clocks:
    """The clocks that a spool reads."""

    def __init__(self, monkeypatch):
        self.wall, self._steady = time.time(), 1000.0
        monkeypatch.setattr(ages_module, "now", lambda: self.wall)
        monkeypatch.setattr(ages_module, "monotonic", lambda: self._steady)

    def advance(self, seconds):
        self.wall += seconds
        self._steady += seconds


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
async def test_a_clock_that_is_set_changes_no_age(directory, monkeypatch, jump):
    """Neither is anything kept longer, nor is it deleted before its time."""
    clocks = Clocks(monkeypatch)
    async with open_spool(directory, retention=Retention(max_age=1.0)) as spool:
        await spool.append(lines(1))
        clocks.wall += jump
        clocks.advance(0.4)
        await spool.append(lines(1))
        clocks.wall -= jump
        clocks.advance(0.4)
        await spool.append(lines(1))
        assert spool.oldest == 0
        for oldest, pause in ((1, 0.3), (2, 0.4), (3, 0.4)):
            clocks.advance(pause)
            await until(lambda oldest=oldest: spool.oldest == oldest)


async def test_a_clock_that_was_ahead_before_the_spool_was_opened(directory, monkeypatch):
    """A batch of that time is as old as the one behind it, and else as the opening."""
    clocks = Clocks(monkeypatch)
    clocks.wall += 86_400
    async with open_spool(directory) as spool:
        await spool.append(lines(1))
        clocks.wall -= 86_400
        clocks.advance(5)
        await spool.append(lines(1))
        clocks.wall += 86_400
        clocks.advance(5)
        await spool.append(lines(1))
        clocks.wall -= 86_400
    clocks.advance(10)
    async with open_spool(directory, retention=Retention(max_age=12.0)) as spool:
        await spool.append(lines(1))
        await until(lambda: spool.oldest == 2)
        clocks.advance(11)
        await spool.append(lines(1))
        assert spool.oldest == 2
        clocks.advance(1.5)
        await until(lambda: spool.oldest == 4)
        assert spool.head == 5


def test_the_first_batch_of_this_time_is_as_old_as_it_is(monkeypatch):
    """It is at the head as the spool was opened, and is not as old as the opening."""
    clocks = Clocks(monkeypatch)
    ages = Ages(3)
    clocks.advance(10)
    stored_at = ages.stamp(3)
    clocks.advance(2)
    age = ages.of(3, stored_at)
    assert (round(age.seconds, 6), age.certain) == (2, True)
    assert not ages.of(2, stored_at).certain


def test_batches_of_earlier_times_keep_their_ages(monkeypatch):
    """The clock is set before the first batch is appended, and then again and again."""
    clocks = Clocks(monkeypatch)
    ages = Ages(3)
    stored_at = clocks.wall - 50
    for number in range(1000):
        clocks.wall += 100
        ages.stamp(number + 3)
        assert ages.of(2, stored_at).seconds == pytest.approx(50)


def test_steps_of_the_clock_are_bounded(monkeypatch):
    """A clock that is set all the time costs no memory, and steps without a batch none at all."""
    clocks = Clocks(monkeypatch)
    ages = Ages(0)
    for _ in range(1000):
        clocks.wall += 100
        ages.stamp(7)
    assert len(ages._steps) == 2
    stamps = {}
    for number in range(8, 1008):
        clocks.wall += 100
        stamps[number] = ages.stamp(number)
        clocks.advance(1)
    assert len(ages._steps) == 256
    for number in range(1008 - 255, 1008):
        assert ages.of(number, stamps[number]).seconds == pytest.approx(1008 - number)
    at = stamps[1007]
    assert ages.of(1007, at).certain
    assert ages.of(5000, clocks.wall + 9999) == Age(0, certain=True)


async def test_the_files_do_not_grow_without_end(directory):
    """Twenty times the maximum size goes through a spool, and the files stay below twice of it."""
    max_size, size = 2**20, 30_000
    config = SpoolConfig(checkpoint_size=2**18)
    largest = []
    async with open_spool(directory, max_size=max_size, config=config) as spool:
        await spool.commit("me", 0)
        while spool.head * size < 20 * max_size:
            if spool.statistics().free < size:
                await spool.commit("me", spool.head - 5)
                files = set(directory.iterdir()) - {directory / "spool.reserve"}
                largest.append(sum(each.stat().st_size for each in files))
            await spool.append(sized(size))
        assert len(largest) > 15
        assert max(largest) < 2 * max_size
        assert largest[-1] <= 1.1 * max(largest[:3])
        assert spans(await collect(spool.read(spool.oldest)))[-1][1] == spool.head
