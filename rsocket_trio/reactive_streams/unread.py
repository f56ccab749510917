"""The bytes of the elements that wait for their readers: `UnreadAccount`.

Demand counts elements. Where a peer chooses how large they are, their bytes are counted, too: all
readers of a connection share one account.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Final

from .errors import TooMuchUnread

__all__ = ["ELEMENT_COST", "UnreadAccount"]

ELEMENT_COST: Final = 64
"""Bytes that an element counts in addition to its own, for what keeps it."""


class UnreadAccount:
    """Counts bytes against a limit.

    Args:
        limit: The most bytes.
        setting: The name of the limit, for the text of the error.

    Attributes:
        unread: The bytes of elements that have arrived and are unread.
    """

    __slots__ = ("_limit", "_setting", "unread")

    def __init__(self, limit: int, setting: str) -> None:
        self._limit = limit
        self._setting = setting
        self.unread = 0

    def add(self, element: Sized) -> TooMuchUnread | None:
        """Count an element; return an error, and do not count it, if it exceeds the limit."""
        unread = self.unread + len(element) + ELEMENT_COST
        if unread > self._limit:
            return TooMuchUnread(
                f"more than {self._limit} bytes are unread on this connection ({self._setting}); "
                "read faster, or use a smaller prefetch"
            )
        self.unread = unread
        return None

    def remove(self, element: Sized) -> None:
        """An element was read."""
        self.unread -= len(element) + ELEMENT_COST

    def remove_all(self, elements: Iterable[Sized]) -> None:
        """Elements were dropped."""
        for element in elements:
            self.unread -= len(element) + ELEMENT_COST
