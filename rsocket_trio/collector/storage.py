"""Where a collector puts its batches: `Storage`, the spool and what is counted about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import trio

from ..log_policy import logger
from ..lumberjack import Batch as LumberjackBatch
from ..lumberjack import to_store
from ..spool import Batch, BatchTooLarge, Spool, SpoolError, SpoolFailed

__all__ = ["Storage"]


class Storage:
    """Stores batches in a spool.

    Attributes:
        spool: The spool.
        dropped: Events that were not stored: fire_and_forget beyond its limits, batches that are
            larger than the spool, and those that waited when it failed.
        stopping: Set when the collector takes no more events: it is stopped, or the spool failed.
        failure: Why the spool has failed for good.
    """

    def __init__(self, spool: Spool) -> None:
        self.spool: Final = spool
        self.dropped = 0
        self.failure: SpoolFailed | None = None
        self.stopping: Final = trio.Event()

    async def append(self, batch: Batch) -> int:
        """Store a batch, and return the offset of its first event; see `Spool.append`.

        Raises:
            BatchTooLarge: It is larger than the spool.
            SpoolClosed: The spool is closed.
            SpoolFailed: The spool has failed for good.
        """
        try:
            return await self.spool.append(batch)
        except SpoolFailed as error:
            self.failure = error
            self.stopping.set()
            raise

    async def append_or_drop(self, batches: Iterable[Batch], source: str) -> None:
        """Store batches. One that is larger than the spool is dropped, and logged.

        Those that cannot be stored any more count as dropped too.

        Raises:
            SpoolClosed: The spool is closed.
            SpoolFailed: The spool has failed for good.
        """
        left = iter(batches)
        for batch in left:
            try:
                await self.append(batch)
            except BatchTooLarge as error:
                self.dropped += batch.count
                logger.warning("%d events from %s are dropped: %s", batch.count, source, error)
            except SpoolError:
                self.dropped += batch.count + sum(each.count for each in left)
                raise

    async def store_lumberjack(self, batch: LumberjackBatch) -> None:
        """Store a batch of a Lumberjack sender: the handler of its server."""
        await self.append(to_store(batch))
