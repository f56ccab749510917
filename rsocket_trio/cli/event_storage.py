"""Keep the events of Lumberjack senders in a spool: `EventStorage`."""

from __future__ import annotations

import sys
from typing import Final

import trio

from rsocket_trio.lumberjack import Batch, LumberjackServer, store_in
from rsocket_trio.spool import Spool, SpoolFailed

from .exits import LOCAL_IO, Failure
from .logs import logger
from .progress import Progress

__all__ = ["EventStorage"]

_INTERVAL: Final = 0.5
"""Seconds between two looks at the spool."""
_LOOKS: Final = 3
"""A spool that is full, or has room, in so many looks is reported: it may alternate quickly."""


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
        spool = self._spool
        reported_full = False
        differing = 0
        try:
            while self._failure is None:
                differing = differing + 1 if spool.full != reported_full else 0
                if differing == _LOOKS:
                    reported_full = not reported_full
                    differing = 0
                    self._report(full=reported_full)
                self._show(server)
                with trio.move_on_after(_INTERVAL):
                    await self._failed.wait()
        finally:
            self._progress.clear()
        raise Failure(str(self._failure), LOCAL_IO) from self._failure

    def _report(self, *, full: bool) -> None:
        if full:
            logger.warning(
                "the spool in %s is full (%d bytes): senders wait until its consumers commit, or "
                "until it is started with more --spool-size, or with --keep-size or --keep-age",
                self._spool.directory,
                self._spool.max_size,
            )
        else:
            logger.info("the spool in %s has room again", self._spool.directory)

    def _show(self, server: LumberjackServer) -> None:
        if self._progress.shown:
            numbers, kept = server.statistics(), self._spool.statistics()
            self._progress.show(
                f"events: {numbers.acknowledged:,}  connections: {numbers.connections:,}  "
                f"spool: {kept.size:,} of {self._spool.max_size:,} bytes"
            )
