"""The complete batches that all connections of a server hold: `Room`.

Those without room wait in a `FairQueue`: a small batch passes the large ones of others.
"""

from __future__ import annotations

from typing import Final

import trio

from .fair_queue import Account, FairQueue

__all__ = ["Room", "ShareOfRoom"]


class _Waiter:
    __slots__ = ("granted", "share", "size")

    def __init__(self, share: ShareOfRoom, size: int) -> None:
        self.share = share
        self.size = size
        self.granted = trio.Event()


class Room:
    """Bounds the batches and their bytes. Connections that find no room wait in a queue.

    The first one in the queue is not overtaken by those that would fit: it comes without end of
    others. But a batch that costs less may become the first one.

    One batch may always be held, so a batch that is larger than the room is not stuck.

    Args:
        max_batches: The number of batches.
        max_size: Their bytes.

    Attributes:
        batches: The batches that are held.
        size: Their bytes.
    """

    def __init__(self, max_batches: int, max_size: int) -> None:
        self.batches = 0
        self.size = 0
        self._max_batches: Final = max_batches
        self._max_size: Final = max_size
        self._per_batch: Final = max_size // max_batches  # So both bounds are shared.
        self._waiting: Final[FairQueue[_Waiter]] = FairQueue()

    @property
    def waiting(self) -> int:
        """The number of connections that wait for room."""
        return len(self._waiting)

    async def take(self, share: ShareOfRoom, size: int) -> None:
        """Wait for room for one batch, and take it; see `ShareOfRoom.take`."""
        if not self._waiting and self._fits(size):
            self._grant(share, size)
            return
        waiter = _Waiter(share, size)
        place = self._waiting.put(share.account, size + self._per_batch, waiter)
        self._admit()  # It may have become the first one.
        try:
            await waiter.granted.wait()
        except trio.Cancelled:
            if place.waits:
                self._waiting.remove(place)
                self._admit()  # The next one may be smaller.
            else:
                share.give_back(size)
            raise

    def give_back(self, batches: int, size: int) -> None:
        """Make room."""
        self.batches -= batches
        self.size -= size
        self._admit()

    def _fits(self, size: int) -> bool:
        if not self.batches:
            return True
        return self.batches < self._max_batches and self.size + size <= self._max_size

    def _grant(self, share: ShareOfRoom, size: int) -> None:
        self.batches += 1
        self.size += size
        share.batches += 1
        share.size += size
        self._waiting.charge(share.account, size + self._per_batch)

    def _admit(self) -> None:
        while (place := self._waiting.first()) is not None:
            waiter = place.item
            if not self._fits(waiter.size):
                return
            self._waiting.remove(place)
            self._grant(waiter.share, waiter.size)
            waiter.granted.set()


class ShareOfRoom:
    """What one connection holds of a `Room`.

    Attributes:
        batches: The batches that it holds.
        size: Their bytes.
        account: What it has held so far.
    """

    def __init__(self, room: Room) -> None:
        self.batches = 0
        self.size = 0
        self.account: Final = Account()
        self._room: Final = room

    async def take(self, size: int) -> None:
        """Wait for room for one batch, and take it.

        Checkpoint: if there is no room yet.
        If cancelled: nothing is taken.
        """
        await self._room.take(self, size)

    def give_back(self, size: int) -> None:
        """Give back the room of one batch."""
        self.batches -= 1
        self.size -= size
        self._room.give_back(1, size)

    def close(self) -> None:
        """Give back the room of all batches, as the connection is over."""
        batches, size = self.batches, self.size
        self.batches = self.size = 0
        self._room.give_back(batches, size)
