"""The memory for batches that are on the way to readers: `ReadMemory`, and one range's `Share`.

A range asks for memory before it reads batches from the disk, and gives it back when the last of
them is in the queue of its connection, or when it ends. So the memory is bounded, whatever the size
of the batches is, and whether the readers take them or not.

While there is no room, ranges wait in a line. Those wait at its end, and not in front of others,
whose own connection has taken all that one connection may have. A range that holds memory and does
not move is evicted once another one waits: see `CollectorLimits.stall_time`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import trio

from ..requester import Requester
from .limits import CollectorLimits
from .refusals import busy

__all__ = ["ReadMemory", "Share"]

_LOOKS: Final = 8
"""A range that waits looks for stalled ones this many times in `CollectorLimits.stall_time`."""


@attrs.define(eq=False)
class Share:
    """What one range has in memory.

    Attributes:
        peer: Its connection.
        evict: Ends the range.
        size: Bytes.
        since: When its batches were complete in memory, by the clock of trio.
        loading: They are still being read from the disk: the reader is not the one to blame.
        evicted: The range is going to end, and then to give its memory back.
    """

    peer: Requester
    evict: Callable[[], None]
    size: int = 0
    since: float = 0.0
    loading: bool = False
    evicted: bool = False


@attrs.define(eq=False)
class _Connection:
    """What the ranges of one connection have in memory.

    Attributes:
        size: Bytes.
        moved_at: When one of the ranges got on.
    """

    moved_at: float
    size: int = 0


@attrs.define(eq=False)
class _Waiter:
    share: Share
    size: int
    granted: trio.Event = attrs.field(factory=trio.Event)


class ReadMemory:
    """Counts the bytes of batches that are on the way to readers."""

    def __init__(self, limits: CollectorLimits) -> None:
        self._limits: Final = limits
        self._used = 0
        # In the order in which they got it; each has the same few hundred ranges at most as the
        # line has (`max_reads`), so going through all of them takes no time to speak of.
        self._holders: Final[dict[Share, None]] = {}
        self._connections: Final[dict[Requester, _Connection]] = {}
        self._line: Final[dict[_Waiter, None]] = {}

    @property
    def used(self) -> int:
        """The bytes that are counted now."""
        return self._used

    async def take(self, share: Share, size: int) -> None:
        """Wait for ``size`` bytes. A range that has got them calls `loaded`, and `give_back`.

        Raises:
            StreamError: There was no room for `CollectorLimits.max_read_wait`.

        Checkpoint: only if there is no room.
        If cancelled: the share is as `give_back` leaves it, or it has the bytes.
        """
        waiter = _Waiter(share, size)
        self._line[waiter] = None
        self._serve()
        if waiter.granted.is_set():
            return
        limits = self._limits
        deadline = trio.current_time() + limits.max_read_wait
        try:
            while not waiter.granted.is_set():
                self._evict_stalled(waiter)
                now = trio.current_time()
                if now >= deadline:
                    raise busy(self._why(waiter))
                with trio.move_on_at(min(deadline, now + limits.stall_time / _LOOKS)):
                    await waiter.granted.wait()
        finally:
            if not waiter.granted.is_set():
                del self._line[waiter]
                self._serve()

    def loaded(self, share: Share) -> None:
        """Note that the batches of a range are in memory: from now on its reader is waited for."""
        if share.loading:
            share.loading = False
            share.since = trio.current_time()
            self.moved(share)

    def moved(self, share: Share) -> None:
        """Note that a part of the batches of a range has left."""
        found = self._connections.get(share.peer)
        if found is not None:
            found.moved_at = trio.current_time()

    def give_back(self, share: Share) -> None:
        """Free what a range has. Safe to call twice."""
        if share not in self._holders:
            return
        del self._holders[share]
        connection = self._connections[share.peer]
        self._used -= share.size
        connection.size -= share.size
        if not connection.size:
            del self._connections[share.peer]
        share.size, share.loading = 0, False
        self._serve()

    def _serve(self) -> None:
        """Give memory to those who wait, in their order.

        One that is too large for now holds back those behind it, or it would wait for ever. One
        whose connection has its part holds back only those of its connection.
        """
        limits = self._limits
        full = set[Requester]()
        for waiter in list(self._line):
            peer = waiter.share.peer
            if peer in full:
                continue
            found = self._connections.get(peer)
            if not _fits(
                waiter.size,
                0 if found is None else found.size,
                limits.max_read_memory_per_connection,
            ):
                full.add(peer)
            elif not _fits(waiter.size, self._used, limits.max_read_memory):
                return
            else:
                self._grant(waiter)

    def _grant(self, waiter: _Waiter) -> None:
        del self._line[waiter]
        share, now = waiter.share, trio.current_time()
        share.size, share.since, share.loading = waiter.size, now, True
        self._holders[share] = None
        self._connections.setdefault(share.peer, _Connection(now)).size += share.size
        self._used += share.size
        waiter.granted.set()

    def _evict_stalled(self, waiter: _Waiter) -> None:
        """End the ranges that do not move, and whose memory is missing."""
        own = self._is_own_fault(waiter)
        now = trio.current_time()
        for share in self._holders:
            if (not own or share.peer is waiter.share.peer) and self._has_stalled(share, now):
                share.evicted = True
                share.evict()

    def _has_stalled(self, share: Share, now: float) -> bool:
        if share.loading or share.evicted:
            return False
        limits = self._limits
        patience = limits.stall_time + share.size / limits.min_read_rate
        still = now - self._connections[share.peer].moved_at
        return still >= limits.stall_time or now - share.since >= patience

    def _is_own_fault(self, waiter: _Waiter) -> bool:
        found = self._connections.get(waiter.share.peer)
        most = self._limits.max_read_memory_per_connection
        return found is not None and not _fits(waiter.size, found.size, most)

    def _why(self, waiter: _Waiter) -> str:
        limits = self._limits
        if self._is_own_fault(waiter):
            size = self._connections[waiter.share.peer].size
            which, most = "max_read_memory_per_connection", limits.max_read_memory_per_connection
            whose = "this reader"
        else:
            size, which, most, whose = (
                self._used, "max_read_memory", limits.max_read_memory, "readers"
            )  # fmt: skip
        return (
            f"batches of {size} bytes are on the way to {whose}, and there is no room for"
            f" {waiter.size} more: {which} is {most}. Ask again later"
        )


def _fits(size: int, used: int, most: int) -> bool:
    """Return whether there is room; one that is larger than all the room fits alone."""
    return not used or used + size <= most
