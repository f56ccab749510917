"""The complete batches that all connections of a server hold: `Room`."""

from __future__ import annotations

from typing import Final

import trio

__all__ = ["Room", "ShareOfRoom"]


class _Waiter:
    __slots__ = ("granted", "share", "size")

    def __init__(self, share: ShareOfRoom, size: int) -> None:
        self.share = share
        self.size = size
        self.granted = trio.Event()


class Room:
    """Bounds the batches and their bytes. Connections that find no room wait in a queue.

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
        self._waiting: dict[_Waiter, None] = {}  # In order, and fast to remove from.

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
        self._waiting[waiter] = None
        try:
            await waiter.granted.wait()
        except trio.Cancelled:
            if waiter in self._waiting:
                del self._waiting[waiter]
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

    def _admit(self) -> None:
        while self._waiting:
            waiter = next(iter(self._waiting))
            if not self._fits(waiter.size):
                return
            del self._waiting[waiter]
            self._grant(waiter.share, waiter.size)
            waiter.granted.set()


class ShareOfRoom:
    """What one connection holds of a `Room`.

    Attributes:
        batches: The batches that it holds.
        size: Their bytes.
    """

    def __init__(self, room: Room) -> None:
        self.batches = 0
        self.size = 0
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
