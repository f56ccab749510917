"""What the instances of consumers need, as the spool stores it: `ConsumerInstance`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import attrs

from .extent import typed

__all__ = [
    "ConsumerInstance",
    "Key",
    "check_name",
    "lowest",
    "read_instances",
    "store_instances",
]

_MAX_NAME: Final = 200
"""Characters of the names of a consumer and of an instance."""

_COLUMNS = ("consumer", "name", "offset", "seen_at", "lease", "absent")

Key: TypeAlias = "tuple[str, str]"
"""A consumer, and the name of an instance: `ConsumerInstance.key`."""


@attrs.frozen(kw_only=True)
class ConsumerInstance:
    """What an instance of a consumer needs. No event from its offset on is deleted.

    Attributes:
        consumer: The name of the consumer.
        name: The name of the instance; empty for a consumer that has no instances.
        offset: The first offset that it needs.
        seen_at: When it said so last, in seconds since 1970, by the clock of the host. Nothing is
            decided by it.
        lease: How long it may be away while other instances of its consumer are not, in seconds.
            ``None``: as long as the program says that keeps the spool. A spool does not end
            leases itself.
        absent: The seconds of its lease that have passed.
    """

    consumer: str
    name: str
    offset: int
    seen_at: float
    lease: float | None = None
    absent: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """Its consumer and its name."""
        return self.consumer, self.name


def check_name(what: str, name: str) -> None:
    """Check the name of a consumer, or of an instance.

    Raises:
        ValueError: It is none.
    """
    if not (isinstance(name, str) and 0 < len(name) <= _MAX_NAME):
        raise ValueError(f"the name of the {what} must have 1 to {_MAX_NAME} characters")
    name.encode()  # Half of a surrogate pair is no text.


def lowest(instances: Iterable[ConsumerInstance]) -> dict[str, int]:
    """Return the lowest offset of each consumer."""
    found: dict[str, int] = {}
    for each in instances:
        found[each.consumer] = min(each.offset, found.get(each.consumer, each.offset))
    return found


def read_instances(connection: sqlite3.Connection) -> list[ConsumerInstance]:
    """Read all instances, in the order of their keys.

    Raises:
        SpoolFailed: The database is damaged.
    """
    rows = connection.execute(
        'SELECT consumer, name, "offset", seen_at, lease, absent FROM instances'
        " ORDER BY consumer, name"
    )
    found = []
    for row in rows.fetchall():
        lease = type(None) if row[4] is None else float
        fields = typed(row, str, str, int, float, lease, float)
        found.append(ConsumerInstance(**dict(zip(_COLUMNS, fields, strict=True))))
    return found


def store_instances(
    connection: sqlite3.Connection, changes: Mapping[Key, ConsumerInstance | None]
) -> None:
    """Write what has changed, within a transaction; ``None`` forgets an instance."""
    for key, each in changes.items():
        if each is None:
            connection.execute("DELETE FROM instances WHERE consumer = ? AND name = ?", key)
        else:
            values = (*key, each.offset, each.seen_at, each.lease, each.absent)
            connection.execute("INSERT OR REPLACE INTO instances VALUES (?, ?, ?, ?, ?, ?)", values)
