"""What a spool holds, in numbers: `Extent`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from math import isinf
from typing import Any, Final

import attrs

from .errors import SpoolFailed

__all__ = ["Extent", "extent_within", "read_extent", "read_identity", "snapshot", "typed"]


@attrs.frozen(kw_only=True)
class Extent:
    """The batches of a spool, in numbers.

    Attributes:
        oldest: The offset of the first event that is kept.
        head: The offset that the next event will have.
        size: The bytes that the batches cost.
        batches: The number of batches.
        number: The number that the next batch will have.
        before: What the column ``before`` of the next batch will have.
        oldest_at: When the oldest batch was stored; ``None`` without batches.
        newest_at: When the last one was stored; it may be earlier, if the clock was set.
    """

    oldest: int
    head: int
    size: int
    batches: int
    number: int
    before: int
    oldest_at: float | None = None
    newest_at: float | None = None

    def grown(self, count: int, cost: int, at: float) -> Extent:
        """Return the extent with one more batch, which was stored at this time."""
        return Extent(
            oldest_at=self.oldest_at if self.batches else at,
            newest_at=at,
            oldest=self.oldest,
            head=self.head + count,
            size=self.size + cost,
            batches=self.batches + 1,
            number=self.number + 1,
            before=self.before + cost,
        )

    def trimmed(self, oldest: int, cost: int, batches: int) -> Extent:
        """Return the extent without its oldest batches."""
        return attrs.evolve(
            self, oldest=oldest, size=self.size - cost, batches=self.batches - batches
        )

    def dated(self, connection: sqlite3.Connection) -> Extent:
        """Return the extent with the times of the batches that are left, after some are deleted."""
        if not self.batches:
            return attrs.evolve(self, oldest_at=None, newest_at=None)
        row = connection.execute("SELECT stored_at FROM batches ORDER BY first LIMIT 1").fetchone()
        return attrs.evolve(self, oldest_at=typed(row or (), float)[0])


MAX_OFFSET: Final = 2**63 - 1
"""What SQLite stores."""


def typed(row: tuple[Any, ...], *types: type) -> tuple[Any, ...]:
    """Return a row whose values have these types, as they do unless the database is damaged.

    Raises:
        SpoolFailed: One has another type, or is a negative number that is no time, or infinite.
            SQLite checks what it writes, not what it reads.
    """
    if tuple(map(type, row)) != types:
        raise SpoolFailed("a row of the spool has values of other types: its database is damaged")
    for value in row:
        if (type(value) is int and value < 0) or (type(value) is float and isinf(value)):
            raise SpoolFailed(f"a row of the spool has the value {value}: its database is damaged")
    return row


def read_identity(connection: sqlite3.Connection) -> tuple[str, int]:
    """Return the identity of the spool, and the oldest offset that is kept."""
    row = connection.execute("SELECT spool_id, oldest FROM spool").fetchone()
    spool_id, oldest = row or (None, None)
    if not isinstance(spool_id, str) or not isinstance(oldest, int):
        raise SpoolFailed("the spool has no identity: its database is damaged")
    return spool_id, oldest


_EDGE = "SELECT first, count, number, before, cost, stored_at FROM batches ORDER BY first"
_WHOLE = (*(int,) * 5, float)


def read_extent(connection: sqlite3.Connection) -> Extent:
    """Read the extent from the database: two rows, however many there are.

    Raises:
        SpoolFailed: The tables contradict each other.
    """
    with snapshot(connection):
        return extent_within(connection)


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Read in one transaction, as another connection may delete batches meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # Some errors have ended it already.
            connection.execute("ROLLBACK")


def extent_within(connection: sqlite3.Connection) -> Extent:
    """Read the extent, within a transaction.

    Raises:
        SpoolFailed: The tables contradict each other.
    """
    _, oldest = read_identity(connection)
    row = connection.execute(f"{_EDGE} LIMIT 1").fetchone()
    if row is None:
        return Extent(oldest=oldest, head=oldest, size=0, batches=0, number=0, before=0)
    first, _, first_number, first_before, _, oldest_at = typed(row, *_WHOLE)
    if first != oldest:
        raise SpoolFailed(f"the oldest batch begins at {first}, and not at {oldest}")
    row = connection.execute(f"{_EDGE} DESC LIMIT 1").fetchone()
    last, count, number, before, cost, newest_at = typed(row, *_WHOLE)
    if last + count > MAX_OFFSET:
        raise SpoolFailed(f"the batch at {last} has {count} events: its database is damaged")
    return Extent(
        oldest=oldest,
        head=last + count,
        size=before + cost - first_before,
        batches=number + 1 - first_number,
        number=number + 1,
        before=before + cost,
        oldest_at=oldest_at,
        newest_at=newest_at,
    )
