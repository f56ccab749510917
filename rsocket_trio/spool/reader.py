"""Reading within trio: `SpoolReader`, and the connections that readers share, `ReaderPool`."""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self, TypeVar, final

import trio

from ..sealed import Sealed
from .batch import StoredBatch
from .config import SpoolConfig
from .errors import SpoolClosed
from .extent import snapshot
from .flusher import Flusher
from .queries import BatchesAhead, fetch, fetch_ahead, look_ahead
from .reach import reach_within, since_within, times_within
from .schema import DATABASE_ERRORS, connect_reader, failure

__all__ = ["ReaderPool", "SpoolReader"]

T = TypeVar("T")


class ReaderPool:
    """Read-only connections to the database, each used by one thread at a time."""

    def __init__(self, directory: Path, config: SpoolConfig) -> None:
        self._directory = directory
        self._config = config
        self._threads = trio.CapacityLimiter(config.max_read_threads)
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._lock: Final = threading.Lock()

    async def fetch(self, start: int, stop: int) -> list[StoredBatch]:
        """Run `fetch` in a thread."""
        return await self._in_thread(
            lambda connection: fetch(connection, start, stop, self._config)
        )

    async def look_ahead(self, start: int, stop: int) -> BatchesAhead:
        """Run `look_ahead` in a thread."""
        return await self._in_thread(
            lambda connection: look_ahead(connection, start, stop, self._config)
        )

    async def fetch_ahead(self, ahead: BatchesAhead) -> list[StoredBatch]:
        """Run `fetch_ahead` in a thread."""
        return await self._in_thread(lambda connection: fetch_ahead(connection, ahead))

    async def reach(self, start: int, size: int) -> int:
        """Run `reach_within` in a thread."""
        return await self._in_thread(lambda connection: reach_within(connection, start, size))

    async def since(self, time: float) -> int:
        """Run `since_within` in a thread."""
        return await self._in_thread(lambda connection: since_within(connection, time))

    async def times(self, offsets: Iterable[int]) -> dict[int, float]:
        """Run `times_within` in a thread."""

        def query(connection: sqlite3.Connection) -> dict[int, float]:
            with snapshot(connection):
                return times_within(connection, offsets)

        return await self._in_thread(query)

    async def _in_thread(self, query: Callable[[sqlite3.Connection], T]) -> T:
        return await trio.to_thread.run_sync(self._run, query, limiter=self._threads)

    def _run(self, query: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._closed:
                raise SpoolClosed("the block of this spool has ended")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = connect_reader(self._directory)
        usable = True
        try:
            return query(connection)
        except DATABASE_ERRORS as error:
            usable = False
            raise failure(error, self._directory) from error
        finally:
            with self._lock:
                keep = usable and not self._closed
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def close(self) -> None:
        """Close all connections; those in use are closed by their threads."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


@final
class SpoolReader(metaclass=Sealed, given="Spool.read gives one"):
    """An iterator over stored batches, for one task at a time: ``async for batch in reader``.

    It has no resources of its own except the batches of one query, so you may leave it at any time.
    """

    def __init__(self, flusher: Flusher, pool: ReaderPool, start: int, stop: int | None) -> None:
        self._flusher = flusher
        self._pool = pool
        self._offset = start
        self._stop = stop
        self._batches: deque[StoredBatch] = deque()
        self._ahead: BatchesAhead | None = None
        self._busy = False

    @property
    def offset(self) -> int:
        """The offset of the next event."""
        return self._offset

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StoredBatch:
        """Return the next batch.

        Raises:
            StopAsyncIteration: The range has ended.
            OffsetTrimmed: The next event was deleted before it was read.
            SpoolClosed: The block of the spool has ended.
            SpoolFailed: The database cannot be read.
            trio.BusyResourceError: Another task is waiting for a batch of this reader.

        Checkpoint: always.
        If cancelled: no batch is lost; the next call returns it.
        """
        with self._alone():
            await trio.lowlevel.checkpoint()
            if not self._batches:
                await self._fill()
        batch = self._batches.popleft()
        self._offset = batch.stop
        return batch

    async def look_ahead(self) -> BatchesAhead | None:
        """Find out how much memory the next step needs, without reading data of batches.

        Returns:
            The batches that the next step reads from the disk and keeps in memory, except the first
            one, for the steps that follow; ``None`` if it reads nothing: a batch is in memory
            already, or the range has ended.

        Raises:
            OffsetTrimmed, SpoolClosed, SpoolFailed, trio.BusyResourceError: As for `__anext__`.

        Checkpoint: always.
        If cancelled: nothing has happened.
        """
        with self._alone():
            await trio.lowlevel.checkpoint()
            if self._batches or self._ended:
                return None
            if self._ahead is None:
                self._ahead = await self._pool.look_ahead(self._offset, await self._end_of_query())
            return self._ahead

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._flusher.home.check("this spool")
        if self._busy:
            raise trio.BusyResourceError("another task is waiting for a batch of this reader")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    @property
    def _ended(self) -> bool:
        return self._stop is not None and self._offset >= self._stop

    async def _fill(self) -> None:
        if self._ended:
            raise StopAsyncIteration
        if self._ahead is None:
            found = await self._pool.fetch(self._offset, await self._end_of_query())
        else:
            ahead, self._ahead = self._ahead, None
            found = await self._pool.fetch_ahead(ahead)
        self._batches.extend(found)

    async def _end_of_query(self) -> int:
        """Wait for an event, and return the offset behind the events that there are."""
        flusher = self._flusher
        while self._offset >= flusher.extent.head:
            await flusher.check()
            await flusher.changed.wait()
        head = flusher.extent.head
        return head if self._stop is None else min(self._stop, head)
