"""The batches that are on the way: `Sender`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from .counts import Counts
from .tail import Batch

__all__ = ["Sender"]


class Sender:
    """Reads batches in threads and sends them, a bounded number at the same time.

    A batch takes one of the places before it is read, and gives it back when it is acknowledged. So
    the memory is bounded by the number of places, however many files there are.

    Args:
        send: Sends events, and returns when they are acknowledged.
        places: How many batches there may be.
        nursery: Where the batches are sent.
        counts: What was read and acknowledged.
        fail: Ends the shipment with an exception.
    """

    def __init__(
        self,
        send: Callable[[list[bytes]], Awaitable[None]],
        *,
        places: int,
        nursery: trio.Nursery,
        counts: Counts,
        fail: Callable[[Exception], None],
    ) -> None:
        self.counts = counts
        self._send = send
        self._places = trio.Semaphore(places, max_value=places)
        self._nursery = nursery
        self._fail = fail

    async def forward(
        self, read: Callable[[], Batch], begin: Callable[[Batch], Callable[[], None]]
    ) -> Batch:
        """Read a batch and begin to send it.

        Args:
            read: Reads it. This runs in a thread.
            begin: Is called before it is sent, if it has events. Returns what to call when it is
                acknowledged.

        Returns:
            The batch, before it is acknowledged.

        Checkpoint: always.
        If cancelled: the batch was not read, or it is sent.
        """
        await self._places.acquire()
        begun = False
        try:
            batch = await trio.to_thread.run_sync(read)
            self.counts.skipped_bytes += batch.skipped
            if batch.events:
                self.counts.read(batch)
                # In the order of the file: the task of the batch before began to run at the latest
                # while this batch was read in its thread.
                self._nursery.start_soon(self._carry, batch, begin(batch))
                begun = True
        finally:
            if not begun:
                self._places.release()
        return batch

    async def _carry(self, batch: Batch, acknowledged: Callable[[], None]) -> None:
        try:
            await self._send(batch.events)
            self.counts.acknowledged(batch)
            acknowledged()
        except Exception as error:  # ends the shipment; the nursery would wrap it in a group
            self._fail(error)
        finally:
            self._places.release()
