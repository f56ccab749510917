"""The ranges that are being read from a collector: `Reads`."""

from __future__ import annotations

from typing import Final

import trio

from ..errors import Rejected
from ..requester import Requester
from ..spool import SpoolReader
from .limits import CollectorLimits
from .range_stream import RangeStream
from .read_memory import ReadMemory
from .refusals import busy

__all__ = ["Reads"]


class Reads:
    """The ranges that are being read, within the limits.

    A reader that takes nothing for a while keeps its place, and its memory, until another reader
    needs it. Then its range ends, and it is told so.

    Attributes:
        memory: Counts the batches of all ranges that are in memory.
    """

    def __init__(self, limits: CollectorLimits) -> None:
        self.memory: Final = ReadMemory(limits)
        self._limits: Final = limits
        self._active: Final[dict[RangeStream, None]] = {}
        # Also those whose place another has, until they have ended.
        self._open: Final[dict[RangeStream, None]] = {}

    def __len__(self) -> int:
        """The ranges that have a place."""
        return len(self._active)

    def begin(self, reader: SpoolReader, size: int | None, peer: Requester) -> RangeStream:
        """Give a range a place.

        Raises:
            StreamError: There is none.
        """
        limits = self._limits
        if sum(each.peer is peer for each in self._open) >= limits.max_reads_per_connection:
            raise Rejected(
                f"{limits.max_reads_per_connection} ranges are open on this connection "
                "(max_reads_per_connection): end one of them"
            )
        if len(self._active) >= limits.max_reads and not self._evict_one():
            raise busy(f"{limits.max_reads} ranges are being read (max_reads): try again later")
        stream = RangeStream(reader, size, peer, self.memory, self._end)
        self._active[stream] = self._open[stream] = None
        return stream

    def _evict_one(self) -> bool:
        """Take the place of the reader that has stalled for the longest time, if there is one."""
        waiting = (each for each in self._active if not each.busy)
        oldest = min(waiting, key=lambda each: each.last_step, default=None)
        if oldest is None or trio.current_time() - oldest.last_step < self._limits.stall_time:
            return False
        oldest.evict()
        del self._active[oldest]
        return True

    def _end(self, stream: RangeStream) -> None:
        self._active.pop(stream, None)
        del self._open[stream]
