"""How many events the next window of a host may have: `WindowSize`."""

from __future__ import annotations

from typing import Final

__all__ = ["WindowSize"]


class WindowSize:
    """A number of events that grows with each full window, and is halved by trouble.

    It doubles until it reaches the size at which the last trouble came. From there on it grows by
    an eighth, because a host that failed at this size may fail at it again. It can fall to 1: then
    a single event that the server cannot handle harms only itself, while it is sent alone.

    Args:
        initial: The first size.
        maximum: It grows up to this.

    Attributes:
        size: The present size.
    """

    __slots__ = ("_maximum", "_threshold", "size")

    def __init__(self, initial: int, maximum: int) -> None:
        self.size = min(initial, maximum)
        self._maximum: Final = maximum
        self._threshold = maximum

    def acknowledged(self, count: int) -> None:
        """Take note that a window of ``count`` events was acknowledged.

        Only a window that is as large as it may be shows that the server handles this size.
        """
        if count < self.size:
            return
        if self.size < self._threshold:
            larger = min(2 * self.size, self._threshold)
        else:
            larger = self.size + max(1, self.size // 8)
        self.size = min(larger, self._maximum)

    def trouble(self) -> None:
        """Take note that a connection was lost while events were on the way."""
        self._threshold = max(1, self.size // 2)
        self.size = self._threshold
