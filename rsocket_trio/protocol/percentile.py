"""How long most of the last requests took: `Percentile`."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Final

__all__ = ["Percentile"]

_KEPT: Final = 128
_ENOUGH: Final = 20
"""With fewer times the 95th percentile would be the longest of them, by chance."""


class Percentile:
    """A percentile of the last 128 times, in seconds.

    Args:
        part: The part of the times that are not longer, e.g. 0.95.
    """

    def __init__(self, part: float) -> None:
        self._part = part
        self._times: deque[float] = deque()
        self._sorted: list[float] = []

    def add(self, seconds: float) -> None:
        """Add a time."""
        if len(self._times) == _KEPT:
            oldest = self._times.popleft()
            del self._sorted[bisect_left(self._sorted, oldest)]
        self._times.append(seconds)
        insort(self._sorted, seconds)

    @property
    def value(self) -> float | None:
        """The percentile; ``None`` while there are fewer than 20 times."""
        count = len(self._sorted)
        return None if count < _ENOUGH else self._sorted[min(int(count * self._part), count - 1)]
