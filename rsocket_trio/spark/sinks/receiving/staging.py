"""Which attempts are accepted, kept, committed and dropped: `Staging`.

The index of all attempts is in memory, and their rows are in a `Store`. The state in memory changes
without a checkpoint. The store follows: what it still has to drop is in ``_dropped``.

Spark writes the batches of a query one after the other, and after a restart it writes at most the
last one again. So the last committed batch of a query is all that has to be remembered: the same
batch is a repetition, and an older one is a mistake, which is refused.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from math import inf, nextafter
from typing import Any, Final, TypeVar

import attrs
import trio

from .... import Invalid, Rejected
from ....log_policy import logger
from ..messages import (
    AbortRequest,
    CommitReply,
    CommitRequest,
    Opening,
    foreign_batch,
    stale_batch,
    unknown_attempts,
)
from .attempt import Attempt
from .attempt_index import AttemptIndex
from .commit_log import CommitLog
from .committed import CommittedBatch
from .limits import SinkLimits
from .store import Commit, StagedAttempt, Store

__all__ = ["Staging"]

T = TypeVar("T")
Key = tuple[str, str]
HandOver = Callable[[CommittedBatch], Awaitable[None]]

ATTEMPT_COST: Final = 1024
"""Bytes that each attempt counts more than its rows and its schema."""

CLEAN_INTERVAL: Final = 60.0
"""Seconds between two searches for attempts that are too old."""


class Staging:
    """The attempts and commits of one sink.

    Args:
        store: Keeps rows and commits.
        limits: What they may cost.
        clock: Seconds since 1970. It may be set, so ages come from the clock of trio, and this one
            only says how old attempts of the process before are.
    """

    def __init__(
        self, store: Store, limits: SinkLimits, clock: Callable[[], float] = time.time
    ) -> None:
        self.store = store
        self.limits = limits
        self.index = AttemptIndex()
        self.open = 0
        self.closed = False
        self._clock = clock
        self._commits = CommitLog(limits.max_queries)
        self._committing: dict[Key, trio.Event] = {}
        # Batches that the application has, and that the store could not remember.
        self._handed_over: dict[Key, tuple[int, str]] = {}
        self._next_key = 0
        self._cleaned_at = trio.current_time()
        self._committed_at = 0.0
        # The store is used by one thread at a time.
        self._thread: Final = trio.CapacityLimiter(1)

    async def load(self) -> None:
        """Take over what the store has from the process before."""

        def load() -> tuple[list[StagedAttempt], list[Commit]]:
            found = self.store.load()
            while self.store.purge():
                pass
            return found

        attempts, commits = await self.in_store(load)
        for facts in attempts:
            age = max(self._clock() - facts.begun_at, 0.0)
            self.index.keep(Attempt(facts, self, age))
            self._next_key = max(self._next_key, facts.key + 1)
        self._commits.load(commits)
        self._committed_at = commits[-1].at if commits else 0.0

    async def begin(self, owner: str, opening: Opening) -> Attempt | None:
        """Begin an attempt; ``None`` if its batch is committed already.

        Raises:
            StreamError: It is refused.
        """
        self.check_open()
        limits = self.limits
        if len(opening.schema) > limits.max_schema_size:
            raise Invalid(
                f"the schema has more than {limits.max_schema_size} characters "
                "(SinkLimits.max_schema_size of the responder)"
            )
        self._clean()
        if self.committed(owner, opening) is not None:
            return None
        if self.index.get(owner, opening.attempt) is not None:
            raise Invalid(
                "this attempt has begun before: each attempt needs an identity of its own"
            )
        if self.open >= limits.max_open_attempts:
            raise Rejected(
                f"{limits.max_open_attempts} attempts are receiving rows already "
                "(SinkLimits.max_open_attempts of the responder)"
            )
        if len(self.index) >= limits.max_attempts:
            self._drop_superseded(owner, opening.query, opening.writer)
        if len(self.index) >= limits.max_attempts:
            raise Rejected(
                f"{limits.max_attempts} attempts are staged already "
                "(SinkLimits.max_attempts of the responder): use fewer partitions"
            )
        facts = StagedAttempt(
            key=self._next_key,
            owner=owner,
            query=opening.query,
            batch=opening.batch,
            partition=opening.partition,
            attempt=opening.attempt,
            writer=opening.writer,
            format=opening.format,
            schema=opening.schema,
            begun_at=self._clock(),
        )
        self._next_key += 1
        attempt = Attempt(facts, self)
        self.index.keep(attempt)
        self.open += 1
        try:
            # A schema may be large, and a stranger may begin many attempts.
            self.take_room(attempt, ATTEMPT_COST + len(facts.schema))
            await self._sweep()
            await self.in_store(self.store.begin, facts)
        except BaseException:  # no attempt without an owner
            self.end(attempt)
            raise
        return attempt

    def end(self, attempt: Attempt) -> None:
        """End the receiving of an attempt; without all of its rows it is dropped."""
        self.open -= 1
        if attempt.dropped:
            # The store may have got some of it after it was told to drop it.
            self.index.dropped.append(attempt.facts.key)
        elif not attempt.facts.complete:
            self.index.drop(attempt)

    def take_room(self, attempt: Attempt, cost: int) -> None:
        """Count bytes of an attempt.

        Raises:
            Rejected: There is no room.
        """
        facts = attempt.facts
        if self.index.size + cost > self.limits.max_staged_size:
            self._drop_superseded(facts.owner, facts.query, facts.writer)
        if self.index.size + cost > self.limits.max_staged_size:
            raise Rejected(
                f"the rows that are not committed take {self.index.size} bytes, and may take "
                f"{self.limits.max_staged_size} (SinkLimits.max_staged_size of the responder): "
                "raise the limit, or write smaller batches"
            )
        self.index.size += cost
        attempt.size += cost

    def committed(self, owner: str, request: Opening | CommitRequest) -> Commit | None:
        """Return the commit of a batch; ``None`` if the batch is newer than the last one.

        Raises:
            CustomError: The batch is older, or another query of Spark has committed it.
        """
        query, batch = request.query, request.batch
        last = self._commits.get(owner, query)
        if last is None or batch > last.batch:
            return None
        if batch < last.batch:
            raise stale_batch(query, batch, last.batch)
        if request.source != last.source:
            raise foreign_batch(query, batch)
        return last

    async def commit(self, owner: str, request: CommitRequest, hand_over: HandOver) -> CommitReply:
        """Hand the rows of the winners over, and remember the batch, unless that was done before.

        Raises:
            StreamError: The commit is refused.
            Exception: ``hand_over`` has failed. The attempts stay staged.
        """
        self.check_open()
        key = owner, request.query
        while True:
            # Another commit may have been first, each time that this had to wait.
            known = self.committed(owner, request)
            if known is not None:
                return _reply(known, repeated=True)
            running = self._committing.get(key)
            if running is None:
                break
            await running.wait()
        winners = self._winners(owner, request)
        done = self._committing[key] = trio.Event()
        for attempt in winners:
            attempt.committing = True
        try:
            this = request.batch, request.source
            if self._handed_over.get(key) != this:
                await hand_over(self._batch(owner, request, winners))
            # The rows are with the application. Without the record they would come twice.
            if len(self._handed_over) < self.limits.max_queries:
                self._handed_over[key] = this
            with trio.CancelScope(shield=True):
                known = await self._record(key, request)
            self._handed_over.pop(key, None)
        finally:
            for attempt in winners:
                attempt.committing = False
            del self._committing[key]
            done.set()
        assert known is not None  # the scope is never cancelled
        return _reply(known, repeated=False)

    async def abort(self, owner: str, request: AbortRequest) -> None:
        """Drop the attempts of a writer."""
        self.check_open()
        for attempt in self.index.of_query(owner, request.query):
            facts = attempt.facts
            same = facts.batch == request.batch and facts.writer == request.writer
            if same and not attempt.committing:
                self.index.drop(attempt)
        await self._sweep()

    async def read(self, attempt: Attempt, number: int) -> list[bytes]:
        """Return the payloads of a chunk."""
        return await self.in_store(self.store.read, attempt.facts.key, number)

    async def in_store(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of the store, one at a time, and in a thread if it may block."""
        if not self.store.blocking:
            await trio.lowlevel.checkpoint()
            return function(*arguments)
        try:
            return await trio.to_thread.run_sync(function, *arguments, limiter=self._thread)
        except (sqlite3.Error, OSError, LookupError) as error:
            logger.exception("the sink cannot use its directory")
            raise Rejected("the responder cannot store rows now: its log says why") from error

    def check_open(self) -> None:
        """Raise if the sink is closed.

        Raises:
            Rejected: It is.
        """
        if self.closed:
            raise Rejected("the sink is closed: its responder is being stopped")

    def _winners(self, owner: str, request: CommitRequest) -> list[Attempt]:
        found: list[Attempt] = []
        for name in request.winners:
            attempt = self.index.get(owner, name)
            if attempt is not None and attempt.facts.complete and _belongs(attempt.facts, request):
                found.append(attempt)
        missing = len(request.winners) - len(found)
        if missing:
            raise unknown_attempts(request.query, request.batch, missing, len(request.winners))
        found.sort(key=lambda each: each.facts.partition)
        if len({each.facts.partition for each in found}) != len(found):
            raise Invalid("two winners are attempts of the same partition")
        if len({(each.facts.format, each.facts.schema) for each in found}) > 1:
            raise Invalid("the winners differ in format or schema")
        rows = sum(each.rows for each in found)
        if rows != request.rows:
            raise Invalid(f"the winners have {rows} rows here, and the driver says {request.rows}")
        return found

    def _batch(
        self, owner: str, request: CommitRequest, winners: Sequence[Attempt]
    ) -> CommittedBatch:
        first = winners[0].facts if winners else None
        return CommittedBatch(
            query=request.query,
            batch=request.batch,
            owner=owner,
            row_count=request.rows,
            partitions=tuple([each.facts.partition for each in winners]),
            format="cbor" if first is None else first.format,
            schema="" if first is None else first.schema,
            chunks=[
                (each.facts.partition, _Chunk(self, each, number))
                for each in winners
                for number in range(each.facts.chunks)
            ],
        )

    async def _record(self, key: Key, request: CommitRequest) -> Commit:
        owner, query = key
        # The oldest commits are forgotten first, also if the clock was set back in between.
        self._committed_at = max(self._clock(), nextafter(self._committed_at, inf))
        commit = Commit(
            owner=owner,
            query=query,
            batch=request.batch,
            rows=request.rows,
            source=request.source,
            at=self._committed_at,
        )
        surplus = self._commits.surplus(owner, query)
        forgotten = [] if surplus is None else [surplus]
        keys = [each.facts.key for each in self._up_to(commit)]
        await self.in_store(self.store.commit, commit, keys, forgotten)
        for each in forgotten:
            self._commits.forget(each)
        self._commits.add(commit)
        for attempt in self._up_to(commit):  # also those that have begun in between
            self.index.drop(attempt)
        await self._sweep()
        return commit

    def _up_to(self, commit: Commit) -> list[Attempt]:
        found = self.index.of_query(commit.owner, commit.query)
        return [each for each in found if each.facts.batch <= commit.batch]

    def _drop_superseded(self, owner: str, query: str, writer: str) -> None:
        """Drop the attempts of earlier tries, which a restarted driver has left behind."""
        for attempt in self.index.of_query(owner, query):
            idle = attempt.facts.complete and not attempt.committing
            if idle and attempt.facts.writer != writer:
                self.index.drop(attempt)

    def _clean(self) -> None:
        """Drop the attempts that are too old."""
        now = trio.current_time()
        if now - self._cleaned_at < min(CLEAN_INTERVAL, self.limits.max_age):
            return
        self._cleaned_at = now
        for attempt in self.index.all():
            idle = attempt.facts.complete and not attempt.committing
            if idle and now - attempt.begun_at > self.limits.max_age:
                self.index.drop(attempt)

    async def _sweep(self) -> None:
        """Drop in the store what is dropped here."""
        if not self.index.dropped:
            return
        keys, self.index.dropped = self.index.dropped, []
        try:
            await self.in_store(self.store.drop, keys)
        except BaseException:  # the next call tries again
            self.index.dropped += keys
            raise
        while await self.in_store(self.store.purge):
            pass


@attrs.frozen
class _Chunk:
    """Reads one chunk of an attempt, for `CommittedBatch`."""

    staging: Staging
    attempt: Attempt
    number: int

    async def __call__(self) -> list[bytes]:
        return await self.staging.read(self.attempt, self.number)


def _belongs(facts: StagedAttempt, request: CommitRequest) -> bool:
    return (facts.query, facts.batch, facts.writer) == (
        request.query,
        request.batch,
        request.writer,
    )


def _reply(commit: Commit, *, repeated: bool) -> CommitReply:
    return CommitReply(query=commit.query, batch=commit.batch, rows=commit.rows, repeated=repeated)
