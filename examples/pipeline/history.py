"""The latest items of a stream, for readers that come later, and those that follow."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Final, Generic, TypeVar

import trio

Item = TypeVar("Item")
PART: Final = 256
"""Items that a reader takes at once."""


class History(Generic[Item]):
    """Keeps the latest items, so memory is bounded. A reader that is too slow misses the oldest."""

    def __init__(self, limit: int) -> None:
        self._items: deque[Item] = deque(maxlen=limit)
        self._added = 0
        self._more = trio.Event()

    def add(self, items: Iterable[Item]) -> None:
        """Add items, and wake the readers."""
        before = self._added
        for item in items:
            self._items.append(item)
            self._added += 1
        if self._added > before:
            self._more.set()
            self._more = trio.Event()

    async def follow(self) -> AsyncIterator[Item]:
        """Return the items that are kept, and then each new one. This does not end."""
        following = 0
        while True:
            oldest = self._added - len(self._items)
            following = max(following, oldest)
            # A copy, because items are added while this reader waits.
            some = list(islice(self._items, following - oldest, following - oldest + PART))
            if not some:
                await self._more.wait()
            for item in some:
                yield item
            following += len(some)
