"""Whose turn is next, without I/O: `FairQueue`.

Each connection has an *account*: the point of virtual time up to which it has used its share. The
virtual time goes on by the cost of what is served, divided by the number of those that compete. So
a connection that uses less than its share is at the present when it asks, and one that uses more is
ahead of it. Those come first that would be ready earliest: what costs little passes a queue of what
costs much. Nobody waits without end, as the present passes every point in the end, and whoever
comes later begins at the present. (This is self-clocked fair queueing, a form of deficit round
robin in which costs need not be known exactly.)
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

__all__ = ["Account", "FairQueue", "Place"]


class Account:
    """What one connection has used.

    Attributes:
        ready: The point of virtual time up to which it has used its share.
    """

    __slots__ = ("ready",)

    def __init__(self) -> None:
        self.ready = 0.0


ItemT = TypeVar("ItemT")


class Place(Generic[ItemT]):
    """The place of one who waits.

    Attributes:
        item: As given.
        cost: As given.
        waits: Whether it is in the queue.
    """

    __slots__ = ("cost", "item", "waits")

    def __init__(self, item: ItemT, cost: int) -> None:
        self.item: Final = item
        self.cost: Final = cost
        self.waits = True


class FairQueue(Generic[ItemT]):
    """Those that wait, by the point of virtual time at which they would be ready."""

    def __init__(self) -> None:
        self._now = 0.0
        self._waiting = 0
        self._heap: list[tuple[float, int, Place[ItemT]]] = []
        self._numbers: Final = count()  # Equal ones come in the order of their asking.

    def __len__(self) -> int:
        return self._waiting

    def put(self, account: Account, cost: int, item: ItemT) -> Place[ItemT]:
        """Add one who waits.

        Args:
            account: Whose cost it will be.
            cost: What it costs, as far as is known.
            item: What `first` gives.
        """
        place = Place(item, cost)
        ready = max(account.ready, self._now) + cost
        heappush(self._heap, (ready, next(self._numbers), place))
        self._waiting += 1
        return place

    def first(self) -> Place[ItemT] | None:
        """Return the place of the next one, or ``None``."""
        heap = self._heap
        while heap:
            if heap[0][2].waits:
                return heap[0][2]
            heappop(heap)
        return None

    def remove(self, place: Place[ItemT]) -> None:
        """Remove one who waits."""
        place.waits = False
        self._waiting -= 1
        if 2 * self._waiting < len(self._heap):
            # Those that are gone keep nothing: the queue may never be empty.
            self._heap = [entry for entry in self._heap if entry[2].waits]
            self._heap.sort()

    def charge(self, account: Account, cost: int) -> None:
        """Take note of a cost."""
        account.ready = max(account.ready, self._now) + cost
        self._now += cost / (self._waiting + 1)
