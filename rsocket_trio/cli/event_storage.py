"""Keep the events of Lumberjack senders in a spool: `EventStorage`."""

from __future__ import annotations

import sys
from typing import Final

import trio

from rsocket_trio.lumberjack import Batch, LumberjackServer, store_in
from rsocket_trio.spool import Spool, SpoolFailed

from .exits import LOCAL_IO, Failure
from .progress import Progress
from .room_reports import RoomReports

__all__ = ["EventStorage"]

_INTERVAL: Final = 0.5
"""Seconds between two looks at the spool."""


class EventStorage:
    """Stores batches in a spool.

    Args:
        spool: Where to store them.
        quiet: Show no progress.
    """

    def __init__(self, spool: Spool, *, quiet: bool) -> None:
        self._spool: Final = spool
        self._store: Final = store_in(spool)
        self._progress: Final = Progress(sys.stderr, quiet=quiet)
        self._failure: SpoolFailed | None = None
        self._failed: Final = trio.Event()

    async def handle(self, batch: Batch) -> None:
        """Store a batch: the handler of the server.

        Raises:
            BatchTooLarge: It is larger than the spool.
            SpoolFailed: The database failed for good. `watch` raises then too.

        Checkpoint: always.
        If cancelled: the batch may be stored or not.
        """
        try:
            await self._store(batch)
        except SpoolFailed as error:
            self._failure = error
            self._failed.set()
            raise

    async def watch(self, server: LumberjackServer) -> None:
        """Report how full the spool is, until it fails.

        Raises:
            Failure: The database failed for good.

        Checkpoint: always.
        If cancelled: it ends.
        """
        reports = RoomReports(self._spool, "--spool-size")
        try:
            while self._failure is None:
                reports.look()
                self._show(server)
                with trio.move_on_after(_INTERVAL):
                    await self._failed.wait()
        finally:
            self._progress.clear()
        raise Failure(str(self._failure), LOCAL_IO) from self._failure

    def _show(self, server: LumberjackServer) -> None:
        if self._progress.shown:
            numbers, kept = server.statistics(), self._spool.statistics()
            self._progress.show(
                f"events: {numbers.acknowledged:,}  connections: {numbers.connections:,}  "
                f"spool: {kept.size:,} of {self._spool.max_size:,} bytes"
            )
