"""How many connections may be open at once: `ConnectionLimit`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["ConnectionLimit"]

_MAX_REFUSING: Final = 16
"""Connections past the limit that are refused with HTTP 503 at the same time. Further ones are
closed without an answer: answering takes a task, and on TLS a handshake."""


class ConnectionLimit:
    """Counts connections, over all the listeners that share it.

    A connection counts from the moment it is accepted: handshakes take tasks and memory too.

    Args:
        at_most: The number of connections that may be open; ``None`` is no limit.

    Attributes:
        open: The number of open connections.
        at_the_door: The number of connections that are being refused with an answer.
    """

    def __init__(self, at_most: int | None) -> None:
        if at_most is not None and not isinstance(at_most, int):
            raise TypeError(f"max_connections must be an int, not {type(at_most).__name__}")
        if at_most is not None and at_most < 1:
            raise ValueError(f"max_connections must be at least 1, not {at_most}")
        self._at_most = at_most
        self.open = 0
        self.at_the_door = 0

    @property
    def reached(self) -> bool:
        """Whether no further connection may be open."""
        return self._at_most is not None and self.open >= self._at_most

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Count a connection as open for the time of the block."""
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    @property
    def crowded(self) -> bool:
        """Whether too many connections are being refused to answer one more."""
        return self.at_the_door >= _MAX_REFUSING

    @contextmanager
    def told(self) -> Iterator[None]:
        """Count a connection as being refused for the time of the block."""
        self.at_the_door += 1
        try:
            yield
        finally:
            self.at_the_door -= 1
