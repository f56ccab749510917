"""Batches of one connection that have been read and wait to be handled: `WaitingBatches`."""

from __future__ import annotations

from collections import deque
from typing import Final

import trio

from ..wire.batches import IncomingBatch

__all__ = ["WaitingBatches"]


class WaitingBatches:
    """A queue with a bound, of one task that puts and one that gets.

    Args:
        limit: How many batches may wait.
    """

    def __init__(self, limit: int) -> None:
        self._limit: Final = limit
        self._batches: deque[tuple[IncomingBatch, int, float]] = deque()
        self._closed = False
        self._came = trio.Event()
        self._went = trio.Event()

    async def wait_room(self) -> None:
        """Wait until fewer batches wait than may.

        Checkpoint: if as many wait.
        If cancelled: nothing changes.
        """
        while len(self._batches) >= self._limit:
            self._went = trio.Event()
            await self._went.wait()

    def put(self, batch: IncomingBatch, size: int, arrived: float) -> None:
        """Add a batch of this size that came then, after `wait_room`."""
        self._batches.append((batch, size, arrived))
        self._came.set()

    async def get(self) -> tuple[IncomingBatch, int, float] | None:
        """Wait for the next batch; return what was put, or ``None`` if there will be none.

        Checkpoint: if there is no batch yet.
        If cancelled: no batch is lost.
        """
        while not self._batches:
            if self._closed:
                return None
            self._came = trio.Event()
            await self._came.wait()
        found = self._batches.popleft()
        self._went.set()
        return found

    def close(self) -> None:
        """Put no more; those that wait can still be taken."""
        self._closed = True
        self._came.set()
