"""The events that wait to be sent: `Backlog`.

It holds the callers' own events. Windows are formed from them only when a connection has room, and
events that were lost with a connection come back to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from .deliveries import Delivery, Piece

__all__ = ["Backlog"]


class Backlog:
    """A queue of deliveries. A window takes events of the first ones, of as many as it needs.

    Events that came back go before all others, in the order of their calls.

    Args:
        ring: Called when there is more to send.

    Attributes:
        waiting: How many events wait.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self.waiting = 0
        self._ring: Final = ring
        # A delivery with unsent events is in one of these two. Not a `deque`, as deliveries are
        # also removed from the middle; not a `dict`, whose first key is not found quickly.
        self._fresh: OrderedDict[Delivery, None] = OrderedDict()
        self._returned: OrderedDict[Delivery, None] = OrderedDict()
        self._open: dict[Delivery, None] = {}

    def add(self, delivery: Delivery) -> None:
        """Queue a delivery behind all others. `remove` it when it is over."""
        self._open[delivery] = None
        self._fresh[delivery] = None
        self.waiting += delivery.unsent
        self._ring()

    def take(self, count: int) -> list[Piece]:
        """Take the first events, at most ``count``."""
        pieces: list[Piece] = []
        for queue in (self._returned, self._fresh):
            while count and queue:
                delivery = next(iter(queue))
                piece = delivery.take(count)
                count -= len(piece)
                self.waiting -= len(piece)
                pieces.append(piece)
                if not delivery.unsent:
                    del queue[delivery]
        return pieces

    def give_back(self, pieces: Iterable[Piece]) -> int:
        """Queue events again before all others; return how many of them are still wanted."""
        count = 0
        for piece in pieces:
            delivery = piece.delivery
            if delivery.give_back(piece):
                count += len(piece)
                self._fresh.pop(delivery, None)
                self._returned[delivery] = None
        if count:
            for delivery in sorted(self._returned, key=lambda each: each.number):
                self._returned.move_to_end(delivery)
            self.waiting += count
            self._ring()
        return count

    def remove(self, delivery: Delivery) -> None:
        """Drop what is unsent of a delivery."""
        if delivery in self._open:
            del self._open[delivery]
        for queue in (self._returned, self._fresh):
            if delivery in queue:
                del queue[delivery]
                self.waiting -= delivery.unsent

    def fail(self, delivery: Delivery, error: Exception | None) -> None:
        """End a delivery: nothing more of it is sent. See `Delivery.fail`."""
        self.remove(delivery)
        delivery.fail(error)

    def fail_all(self, reason: Callable[[Delivery], Exception]) -> None:
        """End all deliveries, each with an error of its own."""
        for delivery in list(self._open):
            self.fail(delivery, reason(delivery))
