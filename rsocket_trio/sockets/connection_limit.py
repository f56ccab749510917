"""How many connections may be open at once: `ConnectionLimit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..field_checks import COUNT, argument, optional

__all__ = ["ConnectionCounts", "ConnectionLimit", "counts_of"]

_MAX_REFUSING: Final = 16
"""Connections past the limit that are refused with HTTP 503 at the same time. Further ones are
closed without an answer: answering takes a task, and on TLS a handshake."""


class ConnectionLimit:
    """A limit for connections that several listeners share (``max_connections``).

    A connection counts from the moment it is accepted: handshakes take tasks and memory too.

    Args:
        max_connections: The number of connections that may be open; ``None`` is no limit.
    """

    def __init__(self, max_connections: int | None) -> None:
        argument("max_connections", max_connections, optional(COUNT))
        self._counts = ConnectionCounts(max_connections)

    @property
    def open(self) -> int:
        """The number of open connections."""
        return self._counts.open


class ConnectionCounts:
    """The connections of a `ConnectionLimit`.

    Attributes:
        open: The number of open connections.
        refusing: The number of connections that are being refused with an answer.
        refused: How many were refused before they were served, by reason.
    """

    def __init__(self, max_connections: int | None) -> None:
        self._max_connections = max_connections
        self.open = 0
        self.refusing = 0
        self.refused: Counter[str] = Counter()

    @property
    def full(self) -> bool:
        """Whether no further connection may be open."""
        return self._max_connections is not None and self.open >= self._max_connections

    @contextmanager
    def count_open(self) -> Iterator[None]:
        """Count a connection as open for the time of the block."""
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    @property
    def full_of_refused(self) -> bool:
        """Whether too many connections are being refused to answer one more."""
        return self.refusing >= _MAX_REFUSING

    @contextmanager
    def count_refused(self) -> Iterator[None]:
        """Count a connection as being refused for the time of the block."""
        self.refusing += 1
        try:
            yield
        finally:
            self.refusing -= 1


def counts_of(limit: int | ConnectionLimit | None) -> ConnectionCounts:
    """Return the counts for the argument ``max_connections``."""
    if not isinstance(limit, ConnectionLimit):
        limit = ConnectionLimit(limit)
    return limit._counts  # noqa: SLF001 - same module; applications must not use it
