"""Reading batches with the connection of a reader: `fetch`."""

from __future__ import annotations

import json
import sqlite3
from typing import Final

from .batch import StoredBatch
from .config import SpoolConfig
from .errors import OffsetNotStored, OffsetTrimmed, SpoolFailed
from .extent import read_identity

__all__ = ["check_range", "fetch"]

_BATCHES: Final = """
SELECT first, count, encoding, facts, stored_at, cost, data FROM batches
WHERE first >= (SELECT max(first) FROM batches WHERE first <= :start) AND first < :stop
ORDER BY first LIMIT :most
"""


def fetch(
    connection: sqlite3.Connection, start: int, stop: int, config: SpoolConfig
) -> list[StoredBatch]:
    """Return the batches of a range, in order: at least one, up to the limits of one query.

    The query is one short transaction. It reads row by row, so no more is read than is returned.

    Args:
        connection: A reader's.
        start: The first offset of the range; it is below the head.
        stop: The offset behind the range.
        config: The limits.

    Raises:
        OffsetTrimmed: ``start`` is not kept any more.
        SpoolFailed: Batches are missing.
    """
    found: list[StoredBatch] = []
    size, at = 0, start
    rows = connection.execute(
        _BATCHES, {"start": start, "stop": stop, "most": config.max_read_batches}
    )
    try:
        for first, count, encoding, facts, stored_at, cost, data in rows:
            if not first <= at < first + count or (found and first != at):
                break
            batch = StoredBatch(
                first=first,
                count=count,
                start=at,
                stop=min(first + count, stop),
                data=data,
                encoding=encoding,
                facts=_decode(facts, first),
                stored_at=stored_at,
            )
            found.append(batch)
            at = batch.end
            size += cost
            if size >= config.max_read_size:
                break
    finally:
        rows.close()
    if not found:
        _, oldest = read_identity(connection)
        if start < oldest:
            raise OffsetTrimmed(start, oldest)
        raise SpoolFailed(f"the events from offset {start} on are missing: the spool is damaged")
    return found


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
