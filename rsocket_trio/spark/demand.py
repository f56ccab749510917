"""How many elements a responder may send: `Window`. It has no clock, and knows no connection."""

from __future__ import annotations

from typing import Final

__all__ = ["Window"]


class Window:
    """Counts the credit of one stream.

    An element is first on the way, then held here, then consumed by Spark. Elements on the way or
    held are at most ``items``. They take at most ``size`` bytes, as far as the sizes of the
    elements so far can tell: a responder that has small elements first and large ones then can
    exceed it, by the elements that are on the way.

    Args:
        items: The largest number of elements on the way or held.
        size: Bytes of elements on the way or held.
        limit: The number of elements to read at all; None: there is no limit.

    Attributes:
        outstanding: The elements on the way.
    """

    def __init__(self, items: int, size: int, limit: int | None = None) -> None:
        self._items: Final = items
        self._size: Final = size
        self._left = limit
        self._held = 0
        self._held_size = 0
        self._largest = 0
        self.outstanding = 0

    @property
    def is_over(self) -> bool:
        """Whether all elements up to the limit have arrived."""
        return self._left == 0 and not self.outstanding

    def arrived(self, sizes: list[int]) -> None:
        """Count elements that have arrived, by the size of each."""
        self.outstanding -= len(sizes)
        self._held += len(sizes)
        self._held_size += sum(sizes)
        # It falls again by and by: one large element must not slow down all later ones.
        self._largest = max(*sizes, self._largest // 2, 1)

    def consumed(self, count: int, size: int) -> None:
        """Count elements that Spark has taken."""
        self._held -= count
        self._held_size -= size

    def grant(self) -> int:
        """Return how many more elements to grant now, and count them as on the way.

        Few are not granted while others are on the way, as each grant costs a frame.
        """
        free = self._items - self.outstanding - self._held
        if self._largest:
            by_size = (self._size - self._held_size) // self._largest - self.outstanding
            free = min(free, by_size)
        if not self.outstanding and not self._held:
            free = max(free, 1)  # An element that is larger than the window must pass, too.
        if self._left is not None:
            free = min(free, self._left)
        if free < 1 or (self.outstanding and free < self._items // 4 and free != self._left):
            return 0
        self.outstanding += free
        if self._left is not None:
            self._left -= free
        return free
