"""The spool, as applications use it: `open_spool`, `Spool`, `SpoolStatistics`."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from time import time as now
from typing import Final, final

import attrs
import trio

from ..interactions.block import Block
from ..sealed import Sealed, make
from .batch import Batch, cost_of, encode_facts
from .config import Retention, SpoolConfig
from .errors import BatchTooLarge, OffsetNotStored, OffsetTrimmed
from .flusher import Flusher
from .instances import ConsumerInstance, check_name
from .queries import check_range
from .reach import check_size, check_time
from .reader import ReaderPool, SpoolReader
from .requests import Append, Move
from .writer import NewRow, Writer

__all__ = ["Spool", "SpoolStatistics", "open_spool"]

_DEFAULT_CONFIG: Final = SpoolConfig()

_LARGEST: Final = 900_000_000
"""Bytes of the largest batch; a row of SQLite may have 10**9."""


@attrs.frozen(kw_only=True)
class SpoolStatistics:
    """Numbers about a spool.

    Attributes:
        oldest: The offset of the first event that is kept.
        head: The offset that the next event will have.
        batches: The batches that are kept.
        size: The bytes that they cost; each batch costs 64 bytes more than its contents.
        oldest_at: When the oldest of them was stored, in seconds since 1970, by the clock of the
            host; ``None`` if there is none.
        newest_at: When the last of them was stored; it may be earlier, if the clock was set.
        free: The bytes that may still be stored.
        waiting: The appends that wait to be stored.
        trouble: Why the spool cannot be written now, if the last attempt has failed and is tried
            again, e.g. because the disk is full.
        positions: The offset that each consumer has committed: the lowest one of its instances.
    """

    oldest: int
    head: int
    batches: int
    size: int
    oldest_at: float | None
    newest_at: float | None
    free: int
    waiting: int
    trouble: str | None
    positions: Mapping[str, int]


@final
class Spool(metaclass=Sealed, given="open_spool gives one"):
    """A queue of batches on disk; `open_spool` makes it.

    Events have consecutive offsets, which begin at 0: a batch with ``first`` and ``count`` has the
    events with the offsets from ``first`` up to ``first + count``.

    Attributes:
        directory: Where it is stored.
        spool_id: Its identity, which is made with it: a UUID as text.
        max_size: The bytes that it may store.
    """

    def __init__(
        self, directory: Path, spool_id: str, max_size: int, flusher: Flusher, pool: ReaderPool
    ) -> None:
        self.directory = directory
        self.spool_id = spool_id
        self.max_size = max_size
        self._flusher = flusher
        self._pool = pool

    @property
    def head(self) -> int:
        """The offset that the next event will have. All events before it are durable."""
        return self._flusher.extent.head

    @property
    def oldest(self) -> int:
        """The offset of the first event that is kept."""
        return self._flusher.extent.oldest

    @property
    def full(self) -> bool:
        """Whether there is no room, for the batch that waits first or for any."""
        return self._flusher.full

    async def append(self, batch: Batch) -> int:
        """Store a batch, and return the offset of its first event.

        On return the batch is durable: it survives a crash of the process and of the system, if
        the disk keeps what it has confirmed. If there is no room, this waits until batches are
        trimmed. If the disk is full or fails, this waits and tries again. Batches are stored in the
        order of the calls.

        Args:
            batch: The events.

        Raises:
            BatchTooLarge: The batch is larger than `max_size`.
            SpoolClosed: The block of the spool has ended. If this waited meanwhile, the batch may
                be stored or not.
            SpoolFailed: The database failed for good; the batch may be stored or not.

        Checkpoint: always.
        If cancelled: the batch may be stored or not, but not a part of it.
        """
        self._check_home()
        if not isinstance(batch, Batch):
            raise TypeError(f"batch must be a Batch, not {type(batch).__name__}")
        facts = encode_facts(batch)
        cost = cost_of(batch, facts)
        if cost > min(self.max_size, _LARGEST):
            await trio.lowlevel.checkpoint()
            raise BatchTooLarge(
                f"a batch of {cost} bytes does not fit into a spool of {self.max_size} bytes"
                if cost > self.max_size
                else f"a batch has at most {_LARGEST} bytes, and this one has {cost}"
            )
        await trio.lowlevel.checkpoint_if_cancelled()
        return await self._flusher.append(Append(NewRow(batch, facts, cost)))

    async def wait_room(self) -> None:
        """Wait until the spool is not `full`.

        Raises:
            SpoolClosed: The block of the spool has ended.
            SpoolFailed: The database failed for good.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        self._check_home()
        await trio.lowlevel.checkpoint()
        while True:
            await self._flusher.check()
            if not self.full:
                return
            await self._flusher.changed.wait()

    def read(self, start: int, stop: int | None = None, *, follow: bool = False) -> SpoolReader:
        """Iterate over the stored batches, from an offset on.

        ``async for batch in spool.read(position): ...``

        There may be any number of readers. They never block appends. A batch that begins before
        ``start``, or goes on behind ``stop``, is given as a whole; its ``start`` and ``stop`` say
        which of its events are in the range.

        Args:
            start: The offset of the first event.
            stop: The offset behind the last event. ``None``: without ``follow``, the head at the
                time of this call; with ``follow``, there is no end.
            follow: Wait for events that are not stored yet. Otherwise ``stop`` must not be beyond
                the head.

        Raises:
            OffsetTrimmed: ``start`` is not kept any more. The iterator raises it too, if it is
                slower than the trimming.
            OffsetNotStored: ``start``, or without ``follow`` ``stop``, is beyond the head.
        """
        flusher = self._flusher
        extent = flusher.extent
        if follow:
            # An end beyond the head is awaited; a start beyond it is a mistake.
            check_range(start, stop, extent.oldest, sys.maxsize)
        check_range(start, None if follow else stop, extent.oldest, extent.head)
        end = extent.head if stop is None and not follow else stop
        return make(SpoolReader, flusher, self._pool, start, end)

    async def reach(self, start: int, size: int) -> int:
        """Return the offset up to which the batches from offset ``start`` on have ``size`` bytes.

        It takes a moment, however large the spool and its batches are.
        `rsocket_trio.spool.find_reach` does the same in other processes.

        Args:
            start: The offset of the first event. The batch that it is in counts as a whole.
            size: Bytes; each batch counts 64 bytes more than its contents.

        Returns:
            The end of the last batch with which all batches have at most ``size`` bytes. It
            is behind one batch at least, even if that is larger. The head, if ``start`` is the
            head.

        Raises:
            OffsetTrimmed: ``start`` is not kept any more.
            OffsetNotStored: ``start`` is beyond the head.
            SpoolClosed: The block of the spool has ended.
            SpoolFailed: The database cannot be read.
            ValueError: ``start`` or ``size`` is negative.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        self._check_home()
        check_size(size)
        return await self._pool.reach(start, size)

    async def since(self, time: float) -> int:
        """Return the offset of the first event that was stored at a time, or later.

        `rsocket_trio.spool.find_since` does the same in other processes, and says what holds if the
        clock of the host was set.

        Args:
            time: Seconds since 1970.

        Returns:
            The offset. The head, if nothing was stored at this time or later.

        Raises:
            SpoolClosed: The block of the spool has ended.
            SpoolFailed: The database cannot be read.
            ValueError: ``time`` is further away than 30,000 years.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        self._check_home()
        check_time(time)
        return await self._pool.since(time)

    async def stored_at(self, offsets: Iterable[int]) -> dict[int, float]:
        """Return when events were stored, in seconds since 1970, by their offsets.

        Args:
            offsets: Offsets. Those that are not kept, or not stored yet, are not in the answer.

        Raises:
            SpoolClosed: The block of the spool has ended.
            SpoolFailed: The database cannot be read.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        self._check_home()
        return await self._pool.times(list(offsets))

    async def commit(
        self,
        consumer: str,
        offset: int,
        *,
        instance: str = "",
        lease: float | None = None,
        absent: float = 0.0,
    ) -> None:
        """Store the position of a consumer: it needs no event before ``offset`` any more.

        Batches that all consumers have behind them are deleted, unless the retention keeps them.
        The first commit makes the consumer; from then on the spool keeps all that it needs. A
        position may also go back, to events that are still kept.

        A consumer may have several instances, each with a position of its own. The spool keeps what
        each of them needs, until it is forgotten.

        Args:
            consumer: A name of your own.
            offset: The offset of the first event that the consumer still needs.
            instance: Which of its instances this is. Empty: it has none.
            lease: See `ConsumerInstance`.
            absent: See `ConsumerInstance`. If it is not 0, this is said about an instance that is
                away, and not by it: `ConsumerInstance.seen_at` stays.

        Raises:
            OffsetTrimmed: The offset is not kept any more.
            OffsetNotStored: The offset is beyond the head.
            ValueError: A name is empty, or longer than 200 characters; or the offset is negative.
            SpoolClosed: The block of the spool has ended.
            SpoolFailed: The database failed for good.

        Checkpoint: always.
        If cancelled: the position may be stored or not.
        """
        self._check_home()
        check_name("consumer", consumer)
        if instance:
            check_name("instance", instance)
        if not isinstance(offset, int):
            raise TypeError(f"an offset is an int, not {type(offset).__name__}")
        if offset < 0:
            raise ValueError(f"an offset is at least 0, not {offset}")
        await trio.lowlevel.checkpoint_if_cancelled()
        # No other task runs until the change is in the queue: changes keep the order of the calls.
        extent = self._flusher.extent
        if offset < extent.oldest:
            await trio.lowlevel.cancel_shielded_checkpoint()
            raise OffsetTrimmed(offset, extent.oldest)
        if offset > extent.head:
            await trio.lowlevel.cancel_shielded_checkpoint()
            raise OffsetNotStored(offset, extent.head)
        stored = self._flusher.instances.get((consumer, instance))
        need = ConsumerInstance(
            consumer=consumer,
            name=instance,
            offset=offset,
            seen_at=stored.seen_at if absent and stored is not None else now(),
            lease=lease,
            absent=absent,
        )
        if self._flusher.has(need):  # Some consumers tell theirs all the time.
            await trio.lowlevel.cancel_shielded_checkpoint()
        else:
            await self._flusher.move(Move(consumer, instance, need))

    async def forget(self, consumer: str, *, instance: str | None = None) -> None:
        """Forget a consumer: the spool keeps no more events for it. It need not exist.

        Args:
            consumer: Its name.
            instance: Forget only this instance of it.

        Raises:
            ValueError: This is no name of a consumer or of an instance.
            SpoolClosed: The block of the spool has ended.
            SpoolFailed: The database failed for good.

        Checkpoint: always.
        If cancelled: the consumer may be forgotten or not.
        """
        self._check_home()
        check_name("consumer", consumer)
        if instance:
            check_name("instance", instance)
        await trio.lowlevel.checkpoint_if_cancelled()
        await self._flusher.move(Move(consumer, instance, None))

    def _check_home(self) -> None:
        self._flusher.home.check("this spool")

    def positions(self) -> dict[str, int]:
        """Return the offset that each consumer has committed: the lowest one of its instances."""
        return dict(self._flusher.positions)

    def instances(self) -> list[ConsumerInstance]:
        """Return what each instance of a consumer needs."""
        return list(self._flusher.instances.values())

    @property
    def epoch(self) -> str | None:
        """The last epoch that has stored a batch; ``None`` if nothing was ever stored.

        A reader remembers it with the offset up to which it has read. If the spool is restored from
        an older copy and written on, `epoch_end` tells.
        """
        return self._flusher.epochs.last

    def epoch_end(self, epoch: str) -> int | None:
        """Return the offset up to which the spool has an epoch.

        A reader that has read up to a later offset has read other events there: the spool was
        restored from an older copy, and written on.

        Args:
            epoch: What `epoch` was when the reader read.

        Returns:
            An offset. ``None``: the spool does not have this epoch. So it is such a copy too, or
            has deleted all events of the epoch.
        """
        return self._flusher.epochs.end_of(epoch, self.head)

    def check_epoch(self, epoch: str | None, offset: int) -> None:
        """Check that the spool has an epoch up to an offset; nothing if it is ``None``.

        Nothing is checked either at an offset that is not kept any more: there `read` and `commit`
        raise `OffsetTrimmed`.

        Raises:
            SpoolRestored: It has not, see `epoch_end`.
        """
        self._flusher.epochs.check(epoch, offset, self._flusher.extent)

    def statistics(self) -> SpoolStatistics:
        """Return numbers about the spool."""
        flusher = self._flusher
        extent = flusher.extent
        return SpoolStatistics(
            oldest=extent.oldest,
            head=extent.head,
            batches=extent.batches,
            size=extent.size,
            oldest_at=extent.oldest_at,
            newest_at=extent.newest_at,
            free=max(self.max_size - extent.size, 0),
            waiting=len(flusher.requests.appends),
            trouble=flusher.trouble,
            positions=self.positions(),
        )


@asynccontextmanager
async def open_spool(
    directory: str | os.PathLike[str],
    *,
    max_size: int = 2**30,
    retention: Retention | None = None,
    config: SpoolConfig = _DEFAULT_CONFIG,
) -> AsyncIterator[Spool]:
    """Open the spool in a directory for writing and reading, for the time of a block.

    The directory is made if there is none. It belongs to the spool, and has no other files. It
    must be on a local disk: SQLite's write-ahead log does not work on network file systems. One
    block may have a spool open for writing; a file lock ensures it, which ends with the process.

    Args:
        directory: Where the spool is, or will be.
        max_size: The bytes that may be stored. Appends wait beyond it. The files may be somewhat
            larger. It may be different each time.
        retention: How long batches are kept that no consumer needs. ``None``: with consumers, they
            are deleted at once; without consumers, nothing is deleted.
        config: Limits of transactions and queries.

    Yields:
        The spool.

    Raises:
        SpoolLocked: Another block has it open for writing, in this process or in another.
        NotASpool: The directory has other files, or a damaged database.
        SpoolTooNew: A newer version of this package has made the spool.
        SpoolFailed: The database cannot be opened.
        SpoolError: The system has no file locks.
        OSError: The directory cannot be made or read.
        TypeError: ``retention`` or ``config`` is of a wrong type.
        ValueError: ``max_size`` is less than 1, or less than that of the retention.

    Checkpoint: entering and leaving, always.
    If cancelled: the spool is closed. A transaction that runs is finished first.
    """
    if not isinstance(config, SpoolConfig):
        raise TypeError(f"config must be a SpoolConfig, not {type(config).__name__}")
    if retention is not None and not isinstance(retention, Retention):
        raise TypeError(f"retention must be a Retention, not {type(retention).__name__}")
    if not isinstance(max_size, int) or max_size < 1:
        raise ValueError(f"max_size must be at least 1, not {max_size!r}")
    if retention is not None and retention.max_size and max_size < retention.max_size:
        raise ValueError("the max_size of the retention is larger than that of the spool")
    where = _absolute(directory)
    block = Block()
    with block.around():
        # Not abandoned when cancelled, so what is opened is always closed.
        thread = trio.CapacityLimiter(1)
        writer = await trio.to_thread.run_sync(Writer, where, config, limiter=thread)
        pool = ReaderPool(where, config)
        try:
            flusher = Flusher(writer, thread, where, max_size, retention, config)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(flusher.run)
                with block.body():
                    yield make(Spool, where, writer.spool_id, max_size, flusher, pool)
                nursery.cancel_scope.cancel(reason="the block of the spool has ended")
        finally:
            # Closing takes a moment, which cannot be cut short.
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_close, pool, writer, limiter=thread)


def _absolute(directory: str | os.PathLike[str]) -> Path:
    """Return a path that stays right if the program changes its working directory."""
    return Path(directory).absolute()


def _close(pool: ReaderPool, writer: Writer) -> None:
    try:
        pool.close()
    finally:
        writer.close()
