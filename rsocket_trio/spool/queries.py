"""Reading batches with the connection of a reader: `look_ahead` and `fetch`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator
from contextlib import closing
from typing import Any, Final

import attrs

from .batch import StoredBatch
from .config import SpoolConfig
from .errors import OffsetNotStored, OffsetTrimmed, SpoolFailed
from .extent import read_identity, typed

__all__ = ["BatchesAhead", "check_range", "fetch", "fetch_ahead", "look_ahead"]

_FROM: Final = """FROM batches
WHERE first >= (SELECT max(first) FROM batches WHERE first <= :start) AND first < :stop
ORDER BY first LIMIT :most
"""
_BATCHES: Final = f"SELECT first, count, encoding, facts, stored_at, data {_FROM}"
_HEADS: Final = f"SELECT first, count, encoding, facts, stored_at, length(data), cost {_FROM}"
# SQLite knows the length of the data without reading them.
_HEAD_TYPES: Final = (int, int, str, str, float, int, int)
_BATCH_TYPES: Final = (int, int, str, str, float, bytes)


@attrs.frozen(kw_only=True)
class BatchesAhead:
    """The batches that one query of a reader is going to return.

    Attributes:
        head: The first of them, without its data.
        size: The bytes of its data.
        count: How many they are.
        stop: The offset behind the last of their events that is in the range.
        cost: The bytes that they cost in all.
    """

    head: StoredBatch
    size: int
    count: int
    stop: int
    cost: int


def fetch(
    connection: sqlite3.Connection, start: int, stop: int, config: SpoolConfig
) -> list[StoredBatch]:
    """Return the batches of a range, in order: at least one, up to the limits of one query.

    Args:
        connection: A reader's.
        start: The first offset of the range; it is below the head.
        stop: The offset behind the range.
        config: The limits.

    Raises:
        OffsetTrimmed: ``start`` is not kept any more.
        SpoolFailed: Batches are missing.
    """
    return fetch_ahead(connection, look_ahead(connection, start, stop, config))


def look_ahead(
    connection: sqlite3.Connection, start: int, stop: int, config: SpoolConfig
) -> BatchesAhead:
    """Find out what `fetch` returns for the same arguments, without reading data of batches.

    Batches never change. So `fetch_ahead` returns the same later, unless they are deleted first.

    Raises:
        OffsetTrimmed: ``start`` is not kept any more.
        SpoolFailed: Batches are missing.
    """
    head, size, cost, count, at = None, 0, 0, 0, start
    with closing(
        _rows(connection, _HEADS, _HEAD_TYPES, start, stop, config.max_read_batches)
    ) as rows:
        for row, first_wanted in rows:
            if head is None:
                head, size = _batch(row, first_wanted, stop, b""), row[5]
            elif cost + row[6] > config.max_read_size:
                break
            count += 1
            cost += row[6]
            at = row[0] + row[1]
    if head is None:
        raise _missing(connection, start)
    return BatchesAhead(head=head, size=size, count=count, stop=min(at, stop), cost=cost)


def fetch_ahead(connection: sqlite3.Connection, ahead: BatchesAhead) -> list[StoredBatch]:
    """Return the batches that `look_ahead` has found.

    The query is one short transaction, and reads row by row.

    Raises:
        OffsetTrimmed: The first of them is not kept any more.
        SpoolFailed: Batches are missing.
    """
    start, stop = ahead.head.start, ahead.stop
    with closing(_rows(connection, _BATCHES, _BATCH_TYPES, start, stop, ahead.count)) as rows:
        found = [_batch(row, at, stop, row[5]) for row, at in rows]
    if not found:
        raise _missing(connection, start)
    return found


def _rows(
    connection: sqlite3.Connection,
    query: str,
    types: tuple[type, ...],
    start: int,
    stop: int,
    most: int,
) -> Generator[tuple[tuple[Any, ...], int], None, None]:
    """Iterate over rows without a gap, each with the offset of its first event in the range."""
    at, begun = start, False
    rows = connection.execute(query, {"start": start, "stop": stop, "most": most})
    try:
        for row in rows:
            first, count = typed(row, *types)[:2]
            if not first <= at < first + count or (begun and first != at):
                break
            yield row, at
            at, begun = first + count, True
    finally:
        rows.close()


def _batch(row: tuple[Any, ...], at: int, stop: int, data: bytes) -> StoredBatch:
    first, count, encoding, facts, stored_at = row[:5]
    return StoredBatch(
        first=first,
        count=count,
        start=at,
        stop=min(first + count, stop),
        data=data,
        encoding=encoding,
        facts=_decode(facts, first),
        stored_at=stored_at,
    )


def _missing(connection: sqlite3.Connection, start: int) -> OffsetTrimmed | SpoolFailed:
    """Return why there is no batch with an offset below the head."""
    _, oldest = read_identity(connection)
    if start < oldest:
        return OffsetTrimmed(start, oldest)
    return SpoolFailed(f"the events from offset {start} on are missing: the spool is damaged")


def _decode(facts: str, first: int) -> dict[str, str]:
    """Return the facts of the batch at an offset.

    Raises:
        SpoolFailed: They are not what `encode_facts` writes.
    """
    try:
        found = json.loads(facts)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise SpoolFailed(f"the batch at offset {first} has no valid facts: the spool is damaged")
    return found


def check_range(start: int, stop: int | None, oldest: int, head: int) -> None:
    """Check a range of offsets against what a spool holds.

    Raises:
        TypeError, ValueError: It is no range.
        OffsetTrimmed: It begins before ``oldest``.
        OffsetNotStored: It ends, or begins, beyond ``head``.
    """
    for offset in (start, start if stop is None else stop):
        if not isinstance(offset, int):
            raise TypeError(f"an offset is an int, not {type(offset).__name__}")
    end = start if stop is None else stop
    if not 0 <= start <= end:
        raise ValueError(f"{start} to {stop} is not a range of offsets")
    if start < oldest:
        raise OffsetTrimmed(start, oldest)
    if end > head:
        raise OffsetNotStored(end, head)
