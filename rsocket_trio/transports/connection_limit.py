"""How many connections may be open at once: `ConnectionLimit`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["ConnectionLimit"]

_AT_THE_DOOR: Final = 16
"""Connections past the limit that are told so at a time, where there is a way to. Those past this
are closed without a word: telling takes a task, and on TLS a handshake."""


class ConnectionLimit:
    """Counts connections, over all the listeners that share it.

    A connection counts from the moment it is accepted: handshakes take tasks and memory too.

    Args:
        at_most: So many may be open; ``None`` is no limit.

    Attributes:
        open: How many are.
        at_the_door: How many are being told that there is no place.
    """

    def __init__(self, at_most: int | None) -> None:
        if at_most is not None and not isinstance(at_most, int):
            raise TypeError(f"max_connections is a number, not {type(at_most).__name__}")
        if at_most is not None and at_most < 1:
            raise ValueError(f"max_connections is 1 at least, not {at_most}")
        self._at_most = at_most
        self.open = 0
        self.at_the_door = 0

    @property
    def reached(self) -> bool:
        """Whether there is no place for one more."""
        return self._at_most is not None and self.open >= self._at_most

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Around the life of a connection."""
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    @property
    def crowded(self) -> bool:
        """Whether there are too many at the door to tell one more."""
        return self.at_the_door >= _AT_THE_DOOR

    @contextmanager
    def told(self) -> Iterator[None]:
        """Around telling a connection that there is no place for it."""
        self.at_the_door += 1
        try:
            yield
        finally:
            self.at_the_door -= 1
