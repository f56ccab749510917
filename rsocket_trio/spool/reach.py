"""How far a number of bytes reaches: `reach_within`, and `find_reach` for any process."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from .errors import SpoolFailed, WrongSpool
from .extent import extent_within, read_identity, snapshot
from .queries import check_range
from .schema import DATABASE_ERRORS, connect_reader, failure

__all__ = ["check_size", "find_reach", "reach_within"]

_BATCH: Final = """
SELECT first, count, before, cost FROM batches WHERE first <= ? ORDER BY first DESC LIMIT 1
"""


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
    where = Path(directory)
    connection = connect_reader(where)
    try:
        found, _ = read_identity(connection)
        if spool_id not in (None, found):
            raise WrongSpool(f"{where} has the spool {found}, not {spool_id}")
        return reach_within(connection, start, size)
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
        first, count, before, _ = _batch_at(connection, start)
        # All batches that end at `low` or before are within, and those from `high` on are not.
        low, high = first + count, extent.head
        while low < high:
            first, count, before_this, cost = _batch_at(connection, (low + high) // 2)
            if before_this + cost - before <= size:
                low = first + count
            else:
                high = first
        return low


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


def _batch_at(connection: sqlite3.Connection, offset: int) -> tuple[int, int, int, int]:
    row: tuple[int, int, int, int] | None = connection.execute(_BATCH, (offset,)).fetchone()
    if row is None or not row[0] <= offset < row[0] + row[1]:
        raise SpoolFailed(f"the event at offset {offset} is missing: the spool is damaged")
    return row
