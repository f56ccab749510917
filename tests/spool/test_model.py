"""Any sequence of calls, against a model: a list."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from copy import deepcopy
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rsocket_trio.spool import (
    OffsetNotStored,
    OffsetTrimmed,
    SpoolConfig,
    SpoolRestored,
    open_spool,
)
from rsocket_trio.spool.batch import ROW_COST
from tests.spool.conftest import MEMORY
from tests.spool.helpers import collect, offline, sized

MAX_SIZE = 2000
CONSUMERS = st.sampled_from(["one", "two"])
INSTANCES = st.sampled_from(["", "a", "b"])
PLACES = st.floats(0, 1.1)
STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(100, 700), st.integers(1, 5)),
    st.tuples(st.just("append"), st.integers(100, 700), st.integers(1, 5)),
    st.tuples(st.just("append_many"), st.lists(st.integers(100, 200), min_size=2, max_size=6)),
    st.tuples(st.just("read"), PLACES, PLACES),
    st.tuples(st.just("commit"), CONSUMERS, INSTANCES, PLACES),
    st.tuples(st.just("commit"), CONSUMERS, INSTANCES, PLACES),
    st.tuples(st.just("forget"), CONSUMERS, st.none() | INSTANCES),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("copy")),
    st.tuples(st.just("restore")),
    st.tuples(st.just("remember"), PLACES),
)


class Model:
    """What a spool should hold."""

    def __init__(self):
        self.batches = []  # (first, count, byte, size)
        self.oldest = 0
        self.needs = {}
        self.appended = 0
        self.history = ()  # a number for each event that was ever stored

    @property
    def positions(self):
        found = {}
        for (consumer, _), offset in self.needs.items():
            found[consumer] = min(offset, found.get(consumer, offset))
        return found

    @property
    def head(self):
        return self.batches[-1][0] + self.batches[-1][1] if self.batches else self.oldest

    @property
    def size(self):
        return sum(size for _, _, _, size in self.batches)

    def append(self, size, count, byte=None):
        self.appended += 1
        byte = byte or bytes([self.appended % 256])
        self.batches.append((self.head, count, byte, size))
        self.history += (self.appended,) * count
        return byte

    def trim(self):
        floor = min(self.needs.values(), default=0)
        while self.batches and self.batches[0][0] + self.batches[0][1] <= floor:
            self.oldest = self.batches[0][0] + self.batches[0][1]
            del self.batches[0]

    def offset(self, place):
        return round(place * self.head)


class Run:
    """Does the same to a spool and to a model."""

    def __init__(self, directory, limits):
        self.directory = directory
        self.model = Model()
        self.copied = None  # the model, and the database
        self.remembered = []  # what readers know: an epoch, an offset, the history
        self.open = partial(open_spool, directory, max_size=MAX_SIZE, config=limits)

    async def run(self, steps):
        steps = list(steps)
        while steps:
            async with self.open() as self.spool:
                self.check()
                while steps:
                    name, *values = steps.pop(0)
                    if name in ("reopen", "restore"):
                        break
                    await getattr(self, name)(*values)
                    self.check()
                await self.read(self.model.oldest / max(self.model.head, 1), 1)
            if name == "restore" and self.copied is not None:
                appended = self.model.appended
                self.model, database = deepcopy(self.copied)
                self.model.appended = appended
                for path in Path(self.directory).iterdir():
                    path.unlink()
                (Path(self.directory) / "spool.sqlite3").write_bytes(database)

    async def copy(self):
        with (
            closing(sqlite3.connect(f"{self.directory}/spool.sqlite3")) as source,
            closing(sqlite3.connect(":memory:")) as copy,
        ):
            source.backup(copy)
            self.copied = deepcopy(self.model), in_rollback_mode(copy.serialize())

    async def remember(self, place):
        self.remembered.append(
            (self.spool.epoch, min(self.model.offset(place), self.model.head), self.model.history)
        )

    def check_memories(self):
        """Nobody goes on in another history, and nobody is sent away from the one they know."""
        here = self.model.history
        for epoch, offset, history in self.remembered:
            same = here[: len(history)] == history
            try:
                self.spool.check_epoch(epoch, offset)
            except SpoolRestored:
                assert not same
            else:
                deleted = offset < self.model.oldest
                assert epoch is None or deleted or here[:offset] == history[:offset]

    def check(self):
        self.check_memories()
        assert len(self.spool._flusher.epochs.chain) <= len(self.model.batches) + 1
        model, statistics = self.model, self.spool.statistics()
        assert (statistics.oldest, statistics.head) == (model.oldest, model.head)
        assert (statistics.size, statistics.batches) == (model.size, len(model.batches))
        assert statistics.free == MAX_SIZE - model.size
        assert statistics.positions == model.positions
        assert {each.key: each.offset for each in self.spool.instances()} == model.needs
        assert statistics.waiting == 0
        assert self.spool.full is (model.size + ROW_COST > MAX_SIZE)

    async def append(self, size, count):
        head, fits = self.model.head, self.model.size + size <= MAX_SIZE
        if fits:
            byte = self.model.append(size, count)
            assert await self.spool.append(sized(size, count, byte)) == head
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.spool.append, sized(size, count))
            await trio.testing.wait_all_tasks_blocked()
            assert self.spool.full
            nursery.cancel_scope.cancel()

    async def append_many(self, sizes):
        if self.model.size + sum(sizes) > MAX_SIZE:
            return
        start = self.model.head
        got = []

        async def one(size):
            got.append((await self.spool.append(sized(size)), size))

        async with trio.open_nursery() as nursery:
            for size in sizes:
                nursery.start_soon(one, size)
        assert [first for first, _ in sorted(got)] == list(range(start, start + len(sizes)))
        for _, size in sorted(got):
            self.model.append(size, 1, b"x")

    async def read(self, low, high):
        model = self.model
        start, stop = sorted((model.offset(low), model.offset(high)))
        if start < model.oldest:
            with pytest.raises(OffsetTrimmed) as refused:
                self.spool.read(start, stop)
            assert refused.value.oldest == model.oldest
            return
        if stop > model.head:
            with pytest.raises(OffsetNotStored):
                self.spool.read(start, stop)
            return
        expected = [
            each for each in model.batches if start < each[0] + each[1] and each[0] < stop > start
        ]
        batches = await collect(self.spool.read(start, stop))
        assert batches == offline(self.directory, start, stop)
        assert [(each.first, each.count, each.data[:1]) for each in batches] == [
            each[:3] for each in expected
        ]
        assert sum(batch.wanted for batch in batches) == stop - start

    async def commit(self, consumer, instance, place):
        offset = self.model.offset(place)
        try:
            await self.spool.commit(consumer, offset, instance=instance)
        except OffsetTrimmed:
            assert offset < self.model.oldest
        except OffsetNotStored:
            assert offset > self.model.head
        else:
            self.model.needs[consumer, instance] = offset
            self.model.trim()

    async def forget(self, consumer, instance):
        await self.spool.forget(consumer, instance=instance)
        for key in list(self.model.needs):
            if key[0] == consumer and instance in (None, key[1]):
                del self.model.needs[key]
        self.model.trim()


def in_rollback_mode(database):
    """A copy in memory has no write-ahead log; its header says which journal it has."""
    return database[:18] + b"\2\2" + database[20:]


@settings(max_examples=60)
@example(steps=[("append", size, 1) for size in (100, 100, 337, 700, 700)], small=False)
@given(steps=st.lists(STEPS, min_size=5, max_size=30), small=st.booleans())
def test_any_calls(steps, small):
    limits = SpoolConfig(max_read_batches=1, max_group_batches=2) if small else SpoolConfig()
    where = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="spool-", dir=where) as directory:
        trio.run(Run(f"{directory}/spool", limits).run, steps)
