"""Lines in the log about a spool that is full, or has room again: `RoomReports`."""

from __future__ import annotations

from typing import Final

from rsocket_trio.escapes import escaped
from rsocket_trio.spool import Spool

from .logs import logger
from .status_table import instance_name

__all__ = ["RoomReports"]

_LOOKS: Final = 3
"""A spool that is full, or has room, in so many looks is reported: it may alternate quickly."""


class RoomReports:
    """Reports that a spool is full, and that it has room again.

    Args:
        spool: The spool.
        option: The option that gives it more room.
    """

    def __init__(self, spool: Spool, option: str) -> None:
        self._spool: Final = spool
        self._option: Final = option
        self._reported_full = False
        self._differing = 0

    def look(self) -> None:
        """Look at the spool; call this every now and then."""
        self._differing = self._differing + 1 if self._spool.full != self._reported_full else 0
        if self._differing == _LOOKS:
            self._reported_full = not self._reported_full
            self._differing = 0
            self._report()

    def _report(self) -> None:
        if self._reported_full:
            logger.warning(
                "the spool in %s is full (%d bytes): senders wait until %s",
                self._spool.directory,
                self._spool.max_size,
                self._remedy(),
            )
        else:
            logger.info("the spool in %s has room again", self._spool.directory)

    def _remedy(self) -> str:
        """Return what makes room. Options of the retention delete nothing that a consumer needs."""
        restart = f"it is started with more {self._option}"
        lowest = min(self._spool.instances(), key=lambda each: each.offset, default=None)
        if lowest is None:
            return f"{restart}, or with --keep-size or --keep-age: it has no consumer"
        name = escaped(instance_name(*lowest.key))
        return (
            f"its consumers commit or are forgotten, or {restart}; its oldest event is kept for"
            f" {name}, which is at {lowest.offset}"
        )
