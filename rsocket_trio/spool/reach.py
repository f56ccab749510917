"""How far bytes reach, and which event came first at a time; also for any process.

For trio: `reach_within`, `since_within`, `times_within`. For any process: `find_reach`,
`find_since`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from .errors import SpoolFailed, WrongSpool
from .extent import extent_within, read_identity, snapshot, typed
from .queries import check_range
from .runs import runs_within
from .schema import DATABASE_ERRORS, connect_reader, failure

__all__ = [
    "check_size",
    "check_time",
    "find_reach",
    "find_since",
    "reach_within",
    "since_within",
    "times_within",
]

_T = TypeVar("_T")
_BATCH: Final = """
SELECT first, count, before, cost, stored_at FROM batches
WHERE first <= ? ORDER BY first DESC LIMIT 1
"""
_LAST_TIME: Final = 1e12
"""Seconds since 1970: the year 33658. Times are compared in microseconds, as users see them."""


def find_reach(
    directory: str | os.PathLike[str], start: int, size: int, *, spool_id: str | None = None
) -> int:
    """Return the offset up to which the batches from offset ``start`` on have ``size`` bytes.

    This works in every process on the host of the spool, whether the spool is open for writing or
    not. It takes a moment, however large the spool and its batches are. The process must be
    allowed to write to the directory, as SQLite keeps its locks there.

    Args:
        directory: The directory of the spool.
        start: The offset of the first event. The batch that it is in counts as a whole.
        size: Bytes; each batch counts 64 bytes more than its contents.
        spool_id: The `Spool.spool_id` that the directory must have. ``None``: any.

    Returns:
        The end of the last batch with which all batches have at most ``size`` bytes. It is
        behind one batch at least, even if that is larger. The head, if ``start`` is the head.

    Raises:
        OffsetTrimmed: ``start`` is not kept any more.
        OffsetNotStored: ``start`` is beyond the head.
        WrongSpool: The directory has another spool.
        NotASpool: The directory has no spool.
        SpoolTooNew: A newer version of this package has made the spool.
        SpoolFailed: The database cannot be read.
        ValueError: ``start`` or ``size`` is negative.
    """
    check_size(size)
    return _ask(directory, spool_id, lambda connection: reach_within(connection, start, size))


def find_since(
    directory: str | os.PathLike[str], time: float, *, spool_id: str | None = None
) -> int:
    """Return the offset of the first event that was stored at a time, or later.

    It is that of the first batch that is kept whose `StoredBatch.stored_at` is ``time`` or later.
    So no event of this time or later is before it; and if the clock of the host was set back,
    events with earlier times are behind it. A later time never gives an earlier offset, so
    ranges between such offsets neither overlap nor leave anything out.

    It works in every process on the host of the spool, as `find_reach`. It takes a moment, however
    large the spool is, if a writer of this version has opened it before; else all batches are
    looked at.

    Args:
        directory: The directory of the spool.
        time: Seconds since 1970. Microseconds count, and not what is less.
        spool_id: The `Spool.spool_id` that the directory must have. ``None``: any.

    Returns:
        The offset. The head, if nothing was stored at this time or later.

    Raises:
        WrongSpool: The directory has another spool.
        NotASpool: The directory has no spool.
        SpoolTooNew: A newer version of this package has made the spool.
        SpoolFailed: The database cannot be read.
        ValueError: ``time`` is further away than 30,000 years, e.g. as it is in milliseconds.
    """
    check_time(time)
    return _ask(directory, spool_id, lambda connection: since_within(connection, time))


def _ask(
    directory: str | os.PathLike[str],
    spool_id: str | None,
    query: Callable[[sqlite3.Connection], _T],
) -> _T:
    where = Path(directory)
    connection = connect_reader(where)
    try:
        found, _ = read_identity(connection)
        if spool_id not in (None, found):
            raise WrongSpool(f"{where} has the spool {found}, not {spool_id}")
        return query(connection)
    except DATABASE_ERRORS as error:
        raise failure(error, where) from error
    finally:
        connection.close()


def reach_within(connection: sqlite3.Connection, start: int, size: int) -> int:
    """Return what `find_reach` returns, by the connection of a reader.

    It looks for the batch by halves, with one row for each step. So it reads at most some sixty
    rows, and no data of a batch: these are the last column.

    Raises:
        OffsetTrimmed: ``start`` is not kept any more.
        OffsetNotStored: ``start`` is beyond the head.
        SpoolFailed: Batches are missing.
    """
    with snapshot(connection):
        extent = extent_within(connection)
        check_range(start, None, extent.oldest, extent.head)
        if start == extent.head:
            return start
        first, count, before, *_ = _batch_at(connection, start)
        # All batches that end at `low` or before are within, and those from `high` on are not.
        low, high = first + count, extent.head
        while low < high:
            first, count, before_this, cost, _ = _batch_at(connection, (low + high) // 2)
            if before_this + cost - before <= size:
                low = first + count
            else:
                high = first
        return low


def since_within(connection: sqlite3.Connection, time: float) -> int:
    """Return what `find_since` returns, by the connection of a reader.

    The first run that ends at this time or later has the batch, and in it we look by halves.

    Raises:
        SpoolFailed: Batches are missing, or the database is damaged.
    """
    wanted = _microseconds(time)
    with snapshot(connection):
        extent = extent_within(connection)
        low = extent.oldest
        for high in (*runs_within(connection), extent.head):
            if not low < high <= extent.head:
                continue  # The run is deleted; or there is none, in an empty spool.
            first, count, *_, stored_at = _batch_at(connection, high - 1)
            if _microseconds(stored_at) < wanted:
                low = high
                continue
            # All batches that end at `low` or before are earlier, and those from `high` on are not.
            high = first
            while low < high:
                first, count, *_, stored_at = _batch_at(connection, (low + high) // 2)
                if _microseconds(stored_at) < wanted:
                    low = first + count
                else:
                    high = first
            return low
        return extent.head


def times_within(connection: sqlite3.Connection, offsets: Iterable[int]) -> dict[int, float]:
    """Return when the events at these offsets were stored, of those that are kept.

    It is called within a transaction.

    Raises:
        SpoolFailed: Batches are missing.
    """
    extent = extent_within(connection)
    kept = {offset for offset in offsets if extent.oldest <= offset < extent.head}
    return {offset: _batch_at(connection, offset)[-1] for offset in kept}


def check_time(time: float) -> None:
    """Check a time in seconds since 1970.

    Raises:
        TypeError: It is no number.
        ValueError: It is further away than 30,000 years, e.g. as it is in milliseconds.
    """
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise TypeError(f"a time is a number of seconds since 1970, not {type(time).__name__}")
    if not -_LAST_TIME <= time <= _LAST_TIME:
        raise ValueError(f"a time is in seconds since 1970, and {time} is out of reach")


def _microseconds(time: float) -> int:
    # A time out of a damaged spool may be any number.
    return round(max(min(time, _LAST_TIME), -_LAST_TIME) * 1e6)


def check_size(size: int) -> None:
    """Check a number of bytes.

    Raises:
        TypeError: It is no int.
        ValueError: It is negative.
    """
    if not isinstance(size, int):
        raise TypeError(f"a size is an int, not {type(size).__name__}")
    if size < 0:
        raise ValueError(f"a size is at least 0, not {size}")


def _batch_at(connection: sqlite3.Connection, offset: int) -> tuple[int, int, int, int, float]:
    row = connection.execute(_BATCH, (offset,)).fetchone()
    if row is None or not row[0] <= offset < row[0] + row[1]:
        raise SpoolFailed(f"the event at offset {offset} is missing: the spool is damaged")
    first, count, before, cost, stored_at = typed(row, int, int, int, int, float)
    return first, count, before, cost, stored_at
