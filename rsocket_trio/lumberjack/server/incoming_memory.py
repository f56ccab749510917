"""The memory of what all connections have read and not delivered yet: `IncomingMemory`.

That is their incomplete frames and batches, and the batches that wait for `Room`. Batches are
decoded in one step, so their memory is known only afterwards. So before a connection decodes what
it has read, it waits until the memory is below the bound. Then only one connection can go past it.

While the memory is at the bound, incomplete batches could wait for each other without end. So one
connection at a time has the *turn*: it may take more, until it holds no more than before. Its
sender has a limited time for this.

Senders that begin many batches and finish none would let all others wait. So connections that hold
little go first. If one of them has waited a second for memory that incomplete batches take, the
connection with the largest one is *evicted*. Its sender sends the batch again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

import trio

__all__ = ["IncomingMemory", "ShareOfIncoming"]

_SMALL: Final = 64 * 2**10
"""A connection that holds no more bytes goes first. It may also hold so many at the end of its turn
if it held less before: a part of a batch that came with the end of another one."""

_PATIENCE: Final = 1.0
"""Seconds that a connection that holds little waits before another one is evicted."""


class IncomingMemory:
    """Bounds the bytes. Connections that find no room wait in a queue.

    They are exceeded by what two connections may hold at most: one that decodes below the bound,
    and then the one with the turn. Every other one may have `_SMALL` bytes more, and what it has
    read.

    Args:
        max_size: The bytes.
        turn_time: How long the sender whose turn it is may take, in seconds.

    Attributes:
        size: The bytes that are held.
    """

    def __init__(self, max_size: int, turn_time: float) -> None:
        self.size = 0
        self._max_size: Final = max_size
        self._turn_time: Final = turn_time
        # Those that hold little, and those that hold much; in order, and fast to remove from.
        self._light: dict[ShareOfIncoming, trio.Event] = {}
        self._heavy: dict[ShareOfIncoming, trio.Event] = {}
        self._incomplete = 0  # The bytes of all incomplete batches.
        self._inside: set[ShareOfIncoming] = set()  # Those that hold such bytes.
        self._evicted: ShareOfIncoming | None = None  # It has not given back its memory yet.
        self._called: ShareOfIncoming | None = None  # It may decode, and has not done so yet.
        self._turn: ShareOfIncoming | None = None

    @property
    def waiting(self) -> int:
        """The number of connections that wait to decode what they have read."""
        return len(self._light) + len(self._heavy)

    async def enter(self, share: ShareOfIncoming) -> None:
        """Wait until the share may take more; see `ShareOfIncoming.enter`."""
        if share is self._turn:
            return
        if self._called is None and not self.waiting and self.size < self._max_size:
            return
        line = self._light if share.size <= _SMALL else self._heavy
        called = line[share] = trio.Event()
        self._admit()
        try:
            with trio.move_on_after(_PATIENCE):
                await called.wait()
            if not called.is_set():
                share.overdue = True
                self._admit()
                await called.wait()
        except trio.Cancelled:
            self._leave(share)
            raise
        finally:
            share.overdue = False

    def hold(self, share: ShareOfIncoming, size: int, incomplete: int) -> None:
        """Take note of what a share holds now."""
        self.size += size - share.size
        self._incomplete += incomplete - share.incomplete
        share.size, share.incomplete = size, incomplete
        if incomplete:
            self._inside.add(share)
        else:
            self._inside.discard(share)
            if share is self._evicted:
                self._evicted = None
        if share is self._called:
            self._called = None
        if share is self._turn and size <= share.allowance:
            self._end_turn()
        self._admit()

    def close(self, share: ShareOfIncoming) -> None:
        """Take note that the connection is over."""
        self._leave(share)
        self.hold(share, 0, 0)

    def _leave(self, share: ShareOfIncoming) -> None:
        self._light.pop(share, None)
        self._heavy.pop(share, None)
        if share is self._called:  # It was called after it was cancelled, and before it ran.
            self._called = None
        if share is self._turn:
            self._end_turn()
        self._admit()

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.deadline = inf
            self._turn = None

    def _admit(self) -> None:
        """Call the next connection. The one after that comes when this one has decoded."""
        free = self.size < self._max_size
        if free:
            self._end_turn()
        line = self._light or self._heavy
        if not line or self._called is not None:
            return
        if not free and self._turn is not None:
            if self._light and next(iter(line)).overdue:
                self._evict()
            return
        share = next(iter(line))
        called = line.pop(share)
        if not free:
            share.allowance = max(share.size, _SMALL)
            share.deadline = trio.current_time() + self._turn_time
            self._turn = share
        self._called = share
        called.set()

    def _evict(self) -> None:
        """End the connection with the largest incomplete batch, if such batches are the cause.

        Complete batches give back their memory when they find room, so others wait for that.
        """
        if self._evicted is not None or 2 * self._incomplete <= self._max_size:
            return
        # One whose complete batches wait for room would not end before that.
        found = [share for share in self._inside if share.size == share.incomplete]
        if found:
            self._evicted = max(found, key=lambda share: share.incomplete)
            self._evicted.evict()


class ShareOfIncoming:
    """What one connection holds of an `IncomingMemory`.

    Args:
        intake: What all connections share.
        evict: Called to end the connection. It must give back its memory soon, and may not do so in
            this call.

    Attributes:
        size: The bytes that it holds.
        incomplete: Those of them that belong to an incomplete batch.
        overdue: It has waited for longer than it should.
        allowance: Its turn ends when it holds no more than this.
        deadline: Its sender has until then, if it has the turn.
    """

    def __init__(self, intake: IncomingMemory, evict: Callable[[], None]) -> None:
        self.size = 0
        self.incomplete = 0
        self.evict: Final = evict
        self.overdue = False
        self.allowance = 0
        self.deadline = inf
        self._intake: Final = intake

    async def enter(self) -> None:
        """Wait until this connection may decode what it has read. Then decode, and call `hold`.

        Checkpoint: if it may not yet.
        If cancelled: it may not, and has left the queue.
        """
        await self._intake.enter(self)

    def hold(self, size: int, incomplete: int) -> None:
        """Take note of the bytes that the connection holds now.

        Args:
            size: All of them.
            incomplete: Those of an incomplete batch.
        """
        self._intake.hold(self, size, incomplete)

    def close(self) -> None:
        """Give everything back, as the connection is over."""
        self._intake.close(self)
