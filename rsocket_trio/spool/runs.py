"""Where the times of batches go back: a run of batches has times that only grow.

The clock of the host may be set back, so the times of all batches are in no order. But within a run
they are, so a batch is found by halves there; and there are as many runs as the clock was set back
between two batches. The table ``runs`` has the first offset of each run, except that of the oldest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from .errors import SpoolFailed
from .extent import typed

__all__ = ["find_runs", "runs_within"]


def find_runs(connection: sqlite3.Connection) -> Iterator[int]:
    """Find the runs of a spool that has no such table: all batches are looked at, not their data.

    Raises:
        SpoolFailed: The database is damaged.
    """
    before, at = -1, float("-inf")
    for row in connection.execute("SELECT first, stored_at FROM batches ORDER BY first"):
        first, stored_at = typed(row, int, float)
        if first <= before:  # A damaged tree may have no end.
            raise SpoolFailed(f"the batch at {first} is behind one at {before}: it is damaged")
        if stored_at < at:
            yield first
        before, at = first, stored_at


def runs_within(connection: sqlite3.Connection) -> Iterator[int]:
    """Iterate over the offsets at which the times of batches go back, within a transaction.

    A spool that no writer of this version has opened has no table of them: all batches are looked
    at then.

    Raises:
        SpoolFailed: The database is damaged.
    """
    if connection.execute("PRAGMA user_version").fetchone()[0] < 3:
        yield from find_runs(connection)
        return
    before = -1
    for row in connection.execute("SELECT first FROM runs ORDER BY first"):
        (first,) = typed(row, int)
        if first <= before:
            raise SpoolFailed("the runs of batches are in no order: its database is damaged")
        before = first
        yield first
