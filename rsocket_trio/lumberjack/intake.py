"""The memory of what all connections have read and not delivered yet: `Intake`.

That is their incomplete frames and batches, and the batches that wait for `Room`. Batches are
decoded in one step, so their memory is known only afterwards. So before a connection decodes what
it has read, it waits until the memory is below the bound. Then only one connection can go past it.

While the memory is at the bound, incomplete batches could wait for each other without end. So one
connection at a time has the *turn*: it may take more, until it holds no more than before. Its
sender has a limited time for this.
"""

from __future__ import annotations

from math import inf
from typing import Final

import trio

__all__ = ["Intake", "ShareOfIntake"]

_SMALL: Final = 64 * 2**10
"""Bytes that a connection may hold at the end of its turn, although it held less before: a part of
a batch that came with the end of another one."""


class Intake:
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
        self._waiting: dict[ShareOfIntake, trio.Event] = {}  # In order, and fast to remove from.
        self._called: ShareOfIntake | None = None  # It may decode, and has not done so yet.
        self._turn: ShareOfIntake | None = None

    @property
    def waiting(self) -> int:
        """The number of connections that wait to decode what they have read."""
        return len(self._waiting)

    async def enter(self, share: ShareOfIntake) -> None:
        """Wait until the share may take more; see `ShareOfIntake.enter`."""
        if share is self._turn:
            return
        if self._called is None and not self._waiting and self.size < self._max_size:
            return
        called = self._waiting[share] = trio.Event()
        self._admit()
        try:
            await called.wait()
        except trio.Cancelled:
            self._leave(share)
            raise

    def hold(self, share: ShareOfIntake, size: int) -> None:
        """Take note of what a share holds now."""
        self.size += size - share.size
        share.size = size
        if share is self._called:
            self._called = None
        if share is self._turn and size <= share.allowance:
            self._end_turn()
        self._admit()

    def close(self, share: ShareOfIntake) -> None:
        """Take note that the connection is over."""
        self._leave(share)
        self.hold(share, 0)

    def _leave(self, share: ShareOfIntake) -> None:
        self._waiting.pop(share, None)
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
        if not self._waiting or self._called is not None or not (free or self._turn is None):
            return
        share = next(iter(self._waiting))
        called = self._waiting.pop(share)
        if not free:
            share.allowance = max(share.size, _SMALL)
            share.deadline = trio.current_time() + self._turn_time
            self._turn = share
        self._called = share
        called.set()


class ShareOfIntake:
    """What one connection holds of an `Intake`.

    Attributes:
        size: The bytes that it holds.
        allowance: Its turn ends when it holds no more than this.
        deadline: Its sender has until then, if it has the turn.
    """

    def __init__(self, intake: Intake) -> None:
        self.size = 0
        self.allowance = 0
        self.deadline = inf
        self._intake: Final = intake

    async def enter(self) -> None:
        """Wait until this connection may decode what it has read. Then decode, and call `hold`.

        Checkpoint: if it may not yet.
        If cancelled: it may not, and has left the queue.
        """
        await self._intake.enter(self)

    def hold(self, size: int) -> None:
        """Take note of the bytes that the connection holds now."""
        self._intake.hold(self, size)

    def close(self) -> None:
        """Give everything back, as the connection is over."""
        self._intake.close(self)
