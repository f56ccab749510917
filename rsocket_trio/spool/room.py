"""Room on the disk: `Room` keeps enough of it that positions can be stored on a full disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import Final

from .. import os_support
from ..log_policy import logger
from .config import SpoolConfig
from .directory import database_of
from .extent import Extent
from .reserve import Reserve
from .schema import PAGE_SIZE, WAIT

__all__ = ["Room", "empty_log", "lacks_room"]

_LACK: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})
"""Codes of SQLite. For it, a quota and a limit on the size of files are errors of input and output.
"""

_LARGEST_SHARE: Final = 8
"""The reserve has at most one of so many parts of a disk."""

_PARTS: Final = 4
"""One of so many parts of the reserve is not lent to appends, but kept for positions."""

_ONLY_RESERVE: Final = "the disk is full, apart from the reserve for positions"

_MOST_PAGES: Final = 2**32 - 2
"""SQLite's own limit."""


class Room:
    """Keeps a reserve of disk space, so large that a full disk can always be written a little.

    SQLite writes a page to its log first, and later to the database (a checkpoint). The log begins
    anew when all of its pages are in the database. So there are two needs:

    - A checkpoint must always be possible. The database grows then by the pages that only the log
      has. The reserve has room for these pages: before batches are stored that make the database
      larger, the reserve grows by as much.
    - A transaction that only stores positions and deletes batches must fit into the log. It
      changes a few pages, and deleted batches leave free pages in the database.

    On a full disk, `make` gives the reserve up and does the checkpoint, which empties the log. So
    all of this space is free for the next transaction; then `settle` takes it again. Deleted
    batches make no room on the disk, but in the database: appends that fit into it need room for
    the log only, and may use three quarters of the reserve for it.

    Attributes:
        short: The reserve is smaller than it should be, because the disk is full.
    """

    def __init__(self, directory: Path, config: SpoolConfig) -> None:
        self._directory = directory
        self._database = database_of(directory)
        self._reserve = Reserve(directory)
        self._wanted = _wanted(directory, config.reserve_size)
        self._least = self._wanted // _PARTS
        self._most = self._wanted + 4 * config.checkpoint_size
        self._file_limit: int | None = None
        # Bytes of the reserve beyond those that are needed, at least.
        self._spare = 0
        self.short = False

    @property
    def trim_batches(self) -> int:
        """How many batches a transaction may delete after `make`: the least reserve is enough."""
        return max(self._least // PAGE_SIZE - 8, 1)

    def admit(self, connection: sqlite3.Connection, costs: Iterable[int], *, tight: bool) -> None:
        """Make sure that the spool stays writable when batches are stored.

        Args:
            connection: The writer's, in a transaction that has deleted what it will delete.
            costs: What the batches cost.
            tight: `make` was called before: batches that need no new pages of the database may use
                a part of the reserve.

        Raises:
            sqlite3.OperationalError: The disk is full.
        """
        pages = _pages(costs)
        self._limit_database(connection)
        if not tight:
            # Each page that may be new needs as much more. Mostly there is known to be as much.
            self._spare -= pages * PAGE_SIZE
            if self._spare >= 0:
                return
        growth = max(pages - _number(connection, "freelist_count"), 0)
        base = self._least if tight and not growth else self._wanted
        need = self._possible(base + self._behind(connection, growth))
        # Some more at once, as the log grows with most transactions until it is emptied.
        sizes = (need,) if tight else (need + self._least, need)
        if not any(map(self._reserve.take, sizes)):
            raise _full(_ONLY_RESERVE)
        self._spare = 0 if tight else self._reserve.size - need

    def make(self, connection: sqlite3.Connection, extent: Extent) -> None:
        """Give the reserve up, and make all the room on the disk that can be made.

        Args:
            connection: The writer's, not in a transaction.
            extent: What the spool holds.
        """
        self.give_up()
        with suppress(sqlite3.Error):  # the next transaction shows whether it has room
            if not extent.batches and _number(connection, "freelist_count"):
                # All of the database is free: a few pages are left of it. In other cases this
                # would write all batches again.
                connection.execute("VACUUM")
        empty_log(connection)

    def give_up(self) -> None:
        """Give the reserve up."""
        self._spare = 0
        self._reserve.cut(0)

    def settle(self, connection: sqlite3.Connection) -> None:
        """Take the reserve again as far as the disk allows, if it is not whole.

        Args:
            connection: The writer's, not in a transaction.
        """
        reserve = self._reserve
        wanted = self._possible(self._least * _PARTS)
        with suppress(sqlite3.Error):  # the next transaction does this again
            if not reserve.holds(wanted):
                empty_log(connection)
                behind = self._behind(connection, 0)
                for part in range(_PARTS, 0, -1):
                    if reserve.take(self._possible(self._least * part + behind)):
                        break
            elif reserve.size > self._most:  # There was a large batch.
                self._spare = 0
                reserve.cut(self._wanted + self._behind(connection, 0))
        self.short = not reserve.holds(wanted)

    def close(self) -> None:
        """Give up what the log needs: the end of the last connection does a checkpoint."""
        if self._reserve.size > self._wanted:
            self._reserve.cut(self._wanted)

    def _behind(self, connection: sqlite3.Connection, growth: int) -> int:
        """Return the bytes by which a checkpoint makes the database larger.

        Args:
            connection: The writer's.
            growth: Pages that will be added before the checkpoint.
        """
        size = (_number(connection, "page_count") + growth) * PAGE_SIZE
        try:
            return max(size - os.stat(self._database).st_size, 0)
        except FileNotFoundError:  # it was moved away: the writer says so
            return 0

    def _possible(self, size: int) -> int:
        """Return the size, or less if no file may be so large."""
        return size if self._file_limit is None else min(size, self._file_limit)

    def _limit_database(self, connection: sqlite3.Connection) -> None:
        """Tell SQLite the limit on the size of files of this process, if there is one.

        A page that the log has, and the database cannot have, would keep the log from being
        emptied for ever.
        """
        limit = _file_size_limit()
        if limit != self._file_limit:
            self._spare = 0
            pages = _MOST_PAGES if limit is None else max(limit // PAGE_SIZE, 1)
            connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
            self._file_limit = limit


def empty_log(connection: sqlite3.Connection) -> None:
    """Move all pages of the log to the database, and give its space back, if that is possible.

    A reader that is in the middle of a query is waited for, 0.1 seconds at most.
    """
    with suppress(sqlite3.Error):  # what is stored is durable in any case
        connection.execute("PRAGMA busy_timeout = 100")
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {WAIT * 1000:.0f}")


def lacks_room(error: object) -> bool:
    """Return whether the cause of an error may be that the disk has no room."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and (code & 0xFF) in _LACK


def _pages(costs: Iterable[int]) -> int:
    """Return how many pages the database needs for batches, or somewhat more.

    Two small rows or more share a page, which may be half empty. A larger one has pages of its own.
    """
    half = PAGE_SIZE // 2
    needed = sum(cost / half if cost < half else cost // (PAGE_SIZE - 384) + 1 for cost in costs)
    return ceil(needed) + 4  # and inner pages of the tree


def _wanted(directory: Path, size: int) -> int:
    """Return the size of the reserve: less than the setting if the disk is very small."""
    status = os.statvfs(directory)
    disk = status.f_blocks * status.f_frsize
    share = disk // _LARGEST_SHARE
    if not 0 < share < size:
        return size
    logger.warning(
        "the disk of %s has only %d bytes in all: the spool reserves %d of them, and not %d",
        directory,
        disk,
        share,
        size,
    )
    return share


def _file_size_limit() -> int | None:
    """Return how large the files of this process may become (RLIMIT_FSIZE); ``None``: any size."""
    if not os_support.RESOURCE_LIMITS:
        return None
    import resource  # Windows does not have it.

    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return None if limit == resource.RLIM_INFINITY else limit


def _number(connection: sqlite3.Connection, name: str) -> int:
    number: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return number


def _full(text: str) -> sqlite3.OperationalError:
    """Return an error like those of SQLite."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    error.sqlite_errorname = "SQLITE_FULL"
    return error
