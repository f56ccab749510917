"""Which batches are deleted: `Trim`, `trim_for`; and a step of it, `delete_step`."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

import attrs

from .ages import Age, Ages
from .config import Retention
from .extent import Extent

__all__ = ["Trim", "delete_step", "trim_for"]


@attrs.frozen(kw_only=True)
class Trim:
    """Which batches may be deleted: those that end at ``floor`` or before, and are not kept.

    Attributes:
        floor: No consumer needs an event before this offset.
        keep: Batches within this retention are kept; ``None``: no batch is kept.
        incoming: The bytes that come next. They count as newer than all that are stored.
    """

    floor: int
    keep: Retention | None
    incoming: int


def trim_for(
    positions: Collection[int],
    retention: Retention | None,
    head: int,
    *,
    incoming: int,
    pressed: bool,
) -> Trim | None:
    """Return what may be deleted; ``None`` if nothing is.

    Args:
        positions: What the instances of consumers need, all that are stored.
        retention: The retention that the user has chosen.
        head: The head of the spool.
        incoming: The bytes that come next.
        pressed: A batch waits for room, so batches that all consumers have read are not kept.
    """
    if positions:
        keep = None if pressed else retention
        return Trim(floor=min(positions), keep=keep, incoming=incoming)
    if retention is None:
        return None
    return Trim(floor=head, keep=retention, incoming=incoming)


def delete_step(
    connection: sqlite3.Connection,
    trim: Trim,
    extent: Extent,
    max_batches: int,
    max_size: int,
    ages: Ages,
) -> tuple[Extent, bool]:
    """Delete batches, oldest first, up to the limits of one transaction.

    Args:
        connection: The writer's, in a transaction.
        trim: What may be deleted.
        extent: What the spool holds.
        max_batches: How many are deleted, at most.
        max_size: Their bytes, at most; or one batch if that is larger.
        ages: Tells how old batches are. A batch whose age is not certain is at least as old as a
            later one, so it is deleted with it.

    Returns:
        The extent that is left, and whether there is more to delete.
    """
    rows = connection.execute(
        "SELECT first, count, cost, stored_at FROM batches WHERE first < ? ORDER BY first LIMIT ?",
        (trim.floor, max_batches),
    ).fetchall()
    left = behind = extent
    more = False
    for first, count, cost, stored_at in rows:
        end, age = first + count, ages.of(first, stored_at)
        kept = _is_kept(trim.keep, behind.size + trim.incoming, age)
        if end > trim.floor or (kept and age.certain):
            break
        size = extent.size - behind.size
        if size and size + cost > max_size:
            more = left is behind
            break
        behind = behind.trimmed(end, cost, 1)
        if not kept:
            left = behind
    else:
        more = extent.batches - left.batches == max_batches
    if left is not extent:
        connection.execute("DELETE FROM batches WHERE first < ?", (left.oldest,))
        connection.execute("UPDATE spool SET oldest = ?", (left.oldest,))
        connection.execute("DELETE FROM runs WHERE first <= ?", (left.oldest,))
        left = left.dated(connection)
    return left, more


def _is_kept(keep: Retention | None, size: int, age: Age) -> bool:
    """Return whether the retention keeps the oldest batch, of this age, of so many bytes in all."""
    return (
        keep is not None
        and (keep.max_size is None or size <= keep.max_size)
        and (keep.max_age is None or age.seconds <= keep.max_age)
    )
