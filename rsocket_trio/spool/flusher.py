"""Group commit: `Flusher` makes transactions of the changes that tasks wait for, one by one."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Final

import attrs
import trio

from ..entrance import Home, over
from ..log_policy import logger
from .batch import ROW_COST
from .config import Retention, SpoolConfig
from .errors import SpoolClosed, SpoolError, SpoolFailed
from .instances import ConsumerInstance, Key, lowest
from .requests import Append, Move, Requests
from .schema import DATABASE_ERRORS, failure
from .trimming import Trim, trim_for
from .writer import Group, Outcome, Writer, may_pass

__all__ = ["Flusher"]

_LONGEST_PERIOD: Final = 30.0
"""Batches that are too old are looked for this often, in seconds. If their maximum age is short:
five times in that age."""

_SEEN_PERIOD: Final = 60.0
"""Seconds. An instance that says the same again is written down this often, so that other processes
see when it was there last."""


@attrs.frozen
class _Taken:
    """The changes of one transaction, and the tasks that wait for them."""

    appends: list[Append]
    moves: list[Move]
    changes: Mapping[Key, ConsumerInstance | None]
    trim: Trim | None

    def group(self) -> Group:
        return Group(
            rows=[append.row for append in self.appends], changes=self.changes, trim=self.trim
        )


class Flusher:
    """The only task that writes to a spool, and the state of the spool as the event loop knows it.

    A transaction takes all changes that wait when it begins. Those that come meanwhile wait for
    the next one. So tasks that append at the same time share a transaction and its fsync.

    Attributes:
        extent: What the spool holds.
        epochs: Its history.
        instances: What the instances of consumers need.
        positions: The lowest offset of each consumer.
        changed: Set after each change of the state, and then replaced by a new event.
        requests: The changes that wait.
        error: Why the spool cannot be written any more.
        trouble: Why the last transaction has failed, while it is tried again. If the disk is full,
            until the spool has its reserve again.
    """

    def __init__(
        self,
        writer: Writer,
        thread: trio.CapacityLimiter,
        directory: Path,
        max_size: int,
        retention: Retention | None,
        config: SpoolConfig,
    ) -> None:
        self.extent = writer.extent
        self.epochs = writer.epochs
        self.instances = {each.key: each for each in writer.instances}
        self.positions = lowest(writer.instances)
        self.changed = trio.Event()
        self.requests = Requests(max_size, config)
        self.error: SpoolError | None = None
        self.trouble: str | None = None
        self._writer = writer
        self._directory = directory
        self._max_size = max_size
        self._retention = retention
        self._config = config
        self._delays = self._new_delays()
        self.home = Home()
        self._thread = thread
        self._moving = 0
        # After a failure consumers go first, in a transaction of their own: they may make room.
        self._after_failure = False
        # Several batches have failed together: the first of them may have room.
        self._one = False
        self._wake = trio.Event()
        self._trim_due = True
        self._disk_full = False
        # The reserve of disk space is not whole: it is tried to take it again from time to time.
        self._short = writer.short
        self._probe_due = False
        self._period = inf
        if retention is not None and retention.max_age is not None:
            self._period = min(retention.max_age / 5, _LONGEST_PERIOD)

    @property
    def full(self) -> bool:
        """Whether there is no room: for the batch that waits first, or for any."""
        return self.extent.size + max(self.requests.next_cost, ROW_COST) > self._max_size

    async def append(self, request: Append) -> int:
        """Wait until a batch is stored, and return the offset of its first event."""
        await self.check()
        self.requests.appends[request] = None
        self._trim_due |= self.full
        self._wake.set()
        try:
            await request.wait()
        except trio.Cancelled:
            request.given_up = True
            if request in self.requests.appends:  # No transaction has it.
                del self.requests.appends[request]
                self._wake.set()
                self._tell()
            raise
        return request.first

    async def move(self, request: Move) -> None:
        """Wait until a position is stored."""
        await self.check()
        self.requests.moves.append(request)
        self._wake.set()
        await request.wait()

    def has(self, need: ConsumerInstance) -> bool:
        """Return whether this is stored already, not long ago, and no change is on the way."""
        if self.error is not None or self.requests.moves or self._moving:
            return False
        stored = self.instances.get(need.key)
        if stored is None or abs(need.seen_at - stored.seen_at) > _SEEN_PERIOD:
            return False
        return attrs.evolve(stored, seen_at=need.seen_at) == need

    async def check(self) -> None:
        """Raise the error that has ended the writing, if there is one.

        Checkpoint: only if there is one.
        If cancelled: nothing changes.
        """
        if self.error is not None:
            await over(self.error)

    async def run(self) -> None:
        """Write until cancelled. Then the changes that still wait fail."""
        error: SpoolError = SpoolClosed("the block of this spool has ended")
        try:
            while True:
                self._wake = trio.Event()
                taken = self._take()
                if taken is None:
                    await self._sleep()
                else:
                    await self._write(taken)
        except Exception as problem:  # it ends the spool, and every append says so
            logger.exception("the spool in %s cannot be written any more", self._directory)
            error = self._ended_by(problem)
        finally:
            self.error = error
            self.requests.fail_all(error)
            self._tell()

    def _take(self) -> _Taken | None:
        """Take the changes for the next transaction; ``None`` if there is nothing to do."""
        requests = self.requests
        moves = requests.take_moves(self.extent)
        instances, changes = dict(self.instances), dict[Key, ConsumerInstance | None]()
        for move in moves:
            move.apply(instances, changes)
        alone, self._after_failure = self._after_failure, False
        one = self._one or self.trouble is not None
        appends = [] if alone else requests.take_appends(self.extent, one=one)
        trim = trim_for(
            [each.offset for each in instances.values()],
            self._retention,
            self.extent.head,
            incoming=sum(append.row.cost for append in appends) or requests.next_cost,
            pressed=self.full or self._disk_full,
        )
        due = trim is not None and self._trim_due
        self._trim_due = False  # A change that comes while the transaction runs may set it again.
        probe, self._probe_due = self._probe_due, False
        if appends or moves or due or probe:
            return _Taken(appends, moves, changes, trim)
        if alone:  # There is nothing that might make room.
            return self._take()
        if not requests.appends and not self._short:
            # The changes that have failed are not wanted any more.
            self.trouble, self._disk_full = None, False
        return None

    async def _sleep(self) -> None:
        period = min(self._period, next(self._delays)) if self._short else self._period
        with trio.move_on_after(period) as scope:
            await self._wake.wait()
        self._trim_due |= scope.cancelled_caught
        self._probe_due = self._short and scope.cancelled_caught

    async def _write(self, taken: _Taken) -> None:
        self._moving = len(taken.moves)
        try:
            outcome = await trio.to_thread.run_sync(
                self._writer.apply, taken.group(), limiter=self._thread
            )
        except sqlite3.Error as problem:
            self.requests.put_back(taken.appends, taken.moves)
            if not may_pass(problem):
                raise
            self._trim_due = self._after_failure = True
            self._disk_full |= problem.sqlite_errorcode == sqlite3.SQLITE_FULL
            self._short = self._writer.short
            self._one = len(taken.appends) > 1
            if not self._one:
                await self._back_off(problem)
        except BaseException:  # also a cancellation: `run` tells the tasks that wait
            self.requests.put_back(taken.appends, taken.moves)
            raise
        else:
            self._stored(taken, outcome)
        finally:
            self._moving = 0

    def _stored(self, taken: _Taken, outcome: Outcome) -> None:
        """Update the state after a transaction, and wake the tasks that wait for it."""
        self.extent, self.epochs = outcome.extent, outcome.epochs
        if taken.appends:
            self._one = False
        if self._short and not self._writer.short:
            self._delays = self._new_delays()
        self._short = self._writer.short
        for append, first in zip(taken.appends, outcome.firsts, strict=True):
            append.first = first
            append.over.set()
        for key, need in taken.changes.items():
            if need is None:
                self.instances.pop(key, None)
            else:
                self.instances[key] = need
        if taken.changes:
            self.positions = lowest(self.instances.values())
        for move in taken.moves:
            move.over.set()
        self._trim_due |= outcome.more or (bool(taken.appends) and self.full)
        over = not self._short and (bool(taken.appends) or not self.requests.appends)
        if self.trouble is not None and over:
            logger.info("the spool in %s can be written again", self._directory)
            self.trouble, self._disk_full = None, False
            self._delays = self._new_delays()
        self._tell()

    async def _back_off(self, problem: sqlite3.Error) -> None:
        delay = next(self._delays)
        if self.trouble != (trouble := str(problem)):
            self.trouble = trouble
            logger.warning(
                "the spool in %s cannot be written now, batches wait: %s (%s). It goes on by itself"
                " when this is over; on a full disk, also when consumers commit positions",
                self._directory,
                problem,
                problem.sqlite_errorname,
            )
        await trio.sleep(delay)

    def _new_delays(self) -> Iterator[float]:
        return attrs.evolve(self._config.retry, max_attempts=None).delays(random.random)

    def _ended_by(self, problem: Exception) -> SpoolError:
        if isinstance(problem, SpoolError):
            return problem
        if isinstance(problem, DATABASE_ERRORS):
            error: SpoolError = failure(problem, self._directory)
        else:
            error = SpoolFailed(f"the spool in {self._directory} failed: {problem!r}")
        error.__cause__ = problem
        return error

    def _tell(self) -> None:
        self.changed.set()
        self.changed = trio.Event()
