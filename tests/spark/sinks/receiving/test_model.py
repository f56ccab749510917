"""Drivers, tasks and receivers that fail in any order: each committed row arrives exactly once.

The application writes its rows in one step with the query and the number of the batch, as the
documentation of `sink_receiver` says. A killed receiver is a copy of its directory: that is what
the next process finds.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_trio import Payload, StreamError
from rsocket_trio.spark.sinks.messages import encode
from tests.spark.sinks.helpers import abort, commit, opening, rows, sink, write

QUERIES = ("q1", "q2")
PARTITIONS = 2


def values(query: str, batch: int, partition: int) -> list[str]:
    """The rows of a partition: the same each time, as Spark's are."""
    return [f"{query}/{batch}/{partition}/{each}" for each in range((batch + partition) % 3)]


class World:
    """The drivers of two queries, one receiver, and its application."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self.lives = 0
        self.stack = AsyncExitStack()
        self.requester = None
        self.receiver = None
        # of Spark
        self.batch = dict.fromkeys(QUERIES, 0)
        self.writer = dict.fromkeys(QUERIES, 0)
        self.messages: dict[str, dict[int, tuple[str, int]]] = {query: {} for query in QUERIES}
        self.attempts = 0
        # of the application
        self.stored: dict[tuple[str, int], list[str]] = {}
        self.handed: list[tuple[str, int]] = []
        self.killed: list[tuple[str, int]] = []
        self.fail: str | None = None
        self.snapshot: Path | None = None

    async def on_commit(self, batch) -> None:
        found = [row["v"] async for row in batch.rows()]
        if self.fail == "before":
            raise RuntimeError("the application failed")
        self.handed.append((batch.query, batch.batch))
        # In one transaction: the rows, and that the batch is stored.
        self.stored.setdefault((batch.query, batch.batch), found)
        if self.fail == "killed":
            self.snapshot = self.copy()
            self.killed.append((batch.query, batch.batch))

    def copy(self) -> Path:
        self.lives += 1
        target = self.directory.parent / f"life{self.lives}"
        shutil.copytree(self.directory, target)
        return target

    async def start(self) -> None:
        options = {} if self.directory is None else {"directory": self.directory}
        self.requester, self.receiver = await self.stack.enter_async_context(
            sink(self.on_commit, **options)
        )

    async def restart(self, directory: Path | None) -> None:
        """Kill the receiver. The next one finds what was in the directory at that moment."""
        await self.stack.aclose()
        self.directory = directory
        await self.start()

    def restart_driver(self, query: str) -> None:
        self.writer[query] += 1
        self.messages[query] = {}

    def opening(self, query: str, partition: int):
        self.attempts += 1
        return opening(
            f"attempt {self.attempts}",
            query=query,
            batch=self.batch[query],
            partition=partition,
            writer=f"writer {self.writer[query]}",
        )

    async def task(self, query: str, partition: int, keep_first: bool) -> None:
        """A task that ends well; Spark takes one of several attempts of a partition."""
        first = self.opening(query, partition)
        found = values(query, self.batch[query], partition)
        staged = await write(self.requester, first, rows(*found))
        count = 0 if staged is None else staged.rows
        assert staged is None or count == len(found)
        if not (keep_first and partition in self.messages[query]):
            self.messages[query][partition] = (first.attempt, count)

    async def lost_task(self, query: str, partition: int) -> None:
        """A task that is killed after some rows."""
        first = self.opening(query, partition)

        async def source():
            yield Payload(encode(first))
            yield Payload(rows("from a task that was killed")[0])
            await trio.sleep_forever()

        async with self.requester.request_channel(source(), route="alerts") as replies:
            await replies.receive()

    async def commit(self, query: str, told: bool) -> None:
        """A commit; with ``told``, Spark lives long enough to write its commit log."""
        messages = self.messages[query]
        if len(messages) < PARTITIONS:
            return
        batch = self.batch[query]
        reply = await commit(
            self.requester,
            [attempt for attempt, _ in messages.values()],
            sum(count for _, count in messages.values()),
            query=query,
            batch=batch,
            writer=f"writer {self.writer[query]}",
        )
        assert (query, batch) in self.stored
        assert reply.rows == len(self.stored[query, batch])
        if told:
            self.batch[query] += 1
        self.restart_driver(query)

    async def late(self, query: str) -> None:
        """A driver of an earlier batch that still runs."""
        batch = self.batch[query] - 1
        if batch >= 0:
            before = len(self.handed)
            first = opening(f"late {self.attempts}", query=query, batch=batch, writer="late")
            self.attempts += 1
            try:
                await write(self.requester, first, rows("late"))
                await commit(
                    self.requester, [first.attempt], 1, query=query, batch=batch, writer="late"
                )
            except StreamError:
                pass
            assert len(self.handed) == before

    async def step(self, query: str, what: str, partition: int, flag: bool) -> None:
        try:
            match what:
                case "task":
                    await self.task(query, partition, flag)
                case "lost task":
                    await self.lost_task(query, partition)
                case "commit":
                    await self.commit(query, flag)
                case "batch":
                    for each in range(PARTITIONS):
                        await self.task(query, each, keep_first=True)
                    await self.commit(query, flag)
                case "commit, and the application fails":
                    self.fail = "before"
                    await self.commit(query, flag)
                case "commit, and the receiver is killed" if self.directory is not None:
                    self.fail = "killed"
                    await self.commit(query, told=False)
                case "abort":
                    writer = f"writer {self.writer[query]}"
                    await abort(self.requester, query=query, batch=self.batch[query], writer=writer)
                    self.restart_driver(query)
                case "restart the driver":
                    self.restart_driver(query)
                case "kill the receiver" if self.directory is not None:
                    await self.restart(self.copy())
                case "late":
                    await self.late(query)
        except StreamError:
            self.restart_driver(query)  # the query fails, and is started again
        finally:
            self.fail = None
        if self.snapshot is not None:
            snapshot, self.snapshot = self.snapshot, None
            await self.restart(snapshot)

    async def finish(self) -> None:
        """Whatever has happened: the next try of each query goes through."""
        for query in QUERIES:
            self.restart_driver(query)
            for partition in range(PARTITIONS):
                await self.task(query, partition, keep_first=False)
            await self.commit(query, told=True)

    def check(self) -> None:
        for query in QUERIES:
            done = sorted(batch for each, batch in self.stored if each == query)
            assert done == list(range(self.batch[query]))
            for batch in done:
                expected = [
                    value
                    for partition in range(PARTITIONS)
                    for value in values(query, batch, partition)
                ]
                assert self.stored[query, batch] == expected
                handed, killed = (each.count((query, batch)) for each in (self.handed, self.killed))
                assert handed <= 1 + killed


STEPS = st.tuples(
    st.sampled_from(QUERIES),
    st.sampled_from(
        [
            *["task"] * 4,
            *["batch"] * 4,
            "lost task",
            *["commit"] * 4,
            "commit, and the application fails",
            "commit, and the receiver is killed",
            "abort",
            "restart the driver",
            "kill the receiver",
            "late",
        ]
    ),
    st.integers(0, PARTITIONS - 1),
    st.booleans(),
)


async def live(steps, directory: Path | None) -> World:
    world = World(directory)
    await world.start()
    async with world.stack:
        for step in steps:
            await world.step(*step)
        await world.finish()
        while world.receiver.statistics().open_attempts:  # a cancelled task ends a moment later
            await trio.sleep(0.001)
        assert world.receiver.statistics().attempts == 0
        assert world.receiver.statistics().staged_size == 0
    world.check()
    return world


@settings(max_examples=60)
@given(steps=st.lists(STEPS, min_size=15, max_size=60))
async def test_committed_rows_arrive_exactly_once(steps):
    """In memory, without kills: the handler itself is called once for each batch."""
    world = await live(steps, None)
    assert not world.killed


@settings(max_examples=30)
@given(steps=st.lists(STEPS, min_size=15, max_size=60))
async def test_committed_rows_arrive_exactly_once_from_disk(steps):
    """With kills of the receiver at rest, and between the handler and the record of the commit.

    In the second case alone the handler gets a batch again, and the application has it already.
    """
    with tempfile.TemporaryDirectory() as directory:
        await live(steps, Path(directory) / "life0")
