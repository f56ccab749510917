"""The bytes of the elements that wait for their readers: `UnreadAccount`.

Demand counts elements. Where a peer chooses how large they are, their bytes are counted, too: all
readers of a connection share one account.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any, Protocol

from ..account import ITEM_COST, Account
from .errors import TooMuchUnread

__all__ = ["ElementCounter", "UnreadAccount", "size_of"]


def size_of(element: object) -> int:
    """Return about how many bytes an element takes: those that it has, if it has any."""
    size = ITEM_COST
    for part in (element, getattr(element, "data", None), getattr(element, "metadata", None)):
        if isinstance(part, bytes | bytearray | str):
            size += len(part)
    return size


class ElementCounter(Protocol):
    """Counts the elements of a queue; see `rsocket_trio.reactive_streams.inbox.ElementInbox`."""

    def add(self, element: Any, /) -> Exception | None:
        """Count an element; return an error, and do not count it, if there are too many."""

    def remove(self, element: Any, /) -> None:
        """An element has left the queue."""

    def remove_all(self, elements: Iterable[Any], /) -> None:
        """Elements have left it."""


class UnreadAccount(Account):
    """An account of elements that have arrived and are unread.

    Args:
        limit: The most bytes.
        setting: The name of the limit, for the text of the error.
    """

    __slots__ = ()

    def __init__(self, limit: int, setting: str) -> None:
        super().__init__(limit, setting, "are unread on this connection")

    def add(self, element: Sized) -> TooMuchUnread | None:
        """Count an element; return an error, and do not count it, if it exceeds the limit."""
        if self.take(len(element) + ITEM_COST):
            return None
        return TooMuchUnread(f"{self.refusal}; read faster, or use a smaller prefetch")

    def remove(self, element: Sized) -> None:
        """An element was read."""
        self.held -= len(element) + ITEM_COST

    def remove_all(self, elements: Iterable[Sized]) -> None:
        """Elements were dropped."""
        for element in elements:
            self.remove(element)
