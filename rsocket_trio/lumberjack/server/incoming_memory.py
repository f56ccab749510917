"""The memory of what all connections have read and not delivered yet: `IncomingMemory`.

That is their incomplete frames and batches, and the batches that wait for `Room`. How much memory
a step of decoding takes is known only afterwards. So before a connection decodes what it has read,
it waits until the memory is below the bound. Then only one connection can go past it.

While the memory is at the bound, incomplete batches could wait for each other without end. So one
connection at a time has the *turn*: it may take more, until it holds no more than before. Its
sender has a limited time for this.

A connection that holds little does not wait, so nobody can delay the small batches of others. While
the memory is at the bound, it decodes in small steps. So it can exceed the bound a little, and then
it waits as those that hold much.

Senders that begin many batches and finish none would let the others wait. So if one of those has
waited a second, and the turn lasts long, connections are *evicted*: those whose incomplete batches
have taken the most memory for the longest time. Their senders send the batches again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

import trio

__all__ = ["IncomingMemory", "ShareOfIncoming"]

_SMALL: Final = 64 * 2**10
"""A connection may hold so many bytes at the end of its turn if it held less before: a part of a
batch that came with the end of another one."""

_LITTLE: Final = 32 * 2**10
"""A connection that holds fewer bytes does not wait."""

_PATIENCE: Final = 1.0
"""Seconds that a connection waits before another one is evicted."""

_PART: Final = 64
"""This part of the memory is made free by an eviction for each one that waits, in MiB 4 of 256. Of
many senders that began small batches several are evicted, as a single one would not make room for a
batch. And who waits behind many others would wait two seconds for each of them."""

_MOST_PARTS: Final = 16
"""An eviction makes no more of them free: a quarter of the memory."""

_LONG_TURN: Final = 2.0
"""Seconds of one turn after which others need not wait any longer. Otherwise senders that send a
byte now and then would have their turns one after the other, of half a minute each."""


class IncomingMemory:
    """Bounds the bytes. Connections that find no room wait in a queue.

    They are exceeded by a step of decoding below the bound, by what the connection with the turn
    may hold, and by 256 KiB of every other one: `_LITTLE` bytes, what it has read, a small step.

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
        # In order, and fast to remove from.
        self._line: dict[ShareOfIncoming, trio.Event] = {}
        self._incomplete = 0  # The bytes of all incomplete batches.
        self._inside: set[ShareOfIncoming] = set()  # Those that hold such bytes.
        self._turn_began = 0.0
        self._evicted: set[ShareOfIncoming] = set()  # They have not given back their memory yet.
        self._called: ShareOfIncoming | None = None  # It may decode, and has not done so yet.
        self._turn: ShareOfIncoming | None = None

    @property
    def waiting(self) -> int:
        """The number of connections that wait to decode what they have read."""
        return len(self._line)

    @property
    def free(self) -> bool:
        """Whether nobody needs to wait."""
        return self.size < self._max_size and self._called is None and not self._line

    async def enter(self, share: ShareOfIncoming) -> bool:
        """Wait until the share may take more; see `ShareOfIncoming.enter`."""
        if self.free or share is self._turn:
            return True
        if share.size < _LITTLE:
            return False
        called = self._line[share] = trio.Event()
        share.waits_since = trio.current_time()
        self._admit()
        try:
            while not called.is_set():
                with trio.move_on_after(_PATIENCE):
                    await called.wait()
                if not called.is_set() and share is next(iter(self._line)):
                    self._admit()
        except trio.Cancelled:
            self._leave(share)
            raise
        return True

    def hold(self, share: ShareOfIncoming, size: int, incomplete: int) -> None:
        """Take note of what a share holds now."""
        self.size += size - share.size
        self._incomplete += incomplete - share.incomplete
        share.size, share.incomplete = size, incomplete
        if incomplete:
            self._inside.add(share)
        else:
            self._inside.discard(share)
            self._evicted.discard(share)
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
        self._line.pop(share, None)
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
        if not self._line or self._called is not None:
            return
        share = next(iter(self._line))
        if not free and self._turn is not None:
            latest = max(share.waits_since + _PATIENCE, self._turn_began + _LONG_TURN)
            if trio.current_time() >= latest:
                self._evict()
            return
        called = self._line.pop(share)
        if not free:
            share.allowance = max(share.size, _SMALL)
            self._turn_began = trio.current_time()
            share.deadline = self._turn_began + self._turn_time
            self._turn = share
        self._called = share
        called.set()

    def _evict(self) -> None:
        """End the connections whose incomplete batches cost most, if such batches are the cause.

        Complete batches give back their memory when they find room, so others wait for that.
        """
        if self._evicted or 2 * self._incomplete <= self._max_size:
            return
        # One whose complete batches wait for room would not end before that.
        found = [share for share in self._inside if share.size == share.incomplete]
        # Not just the largest one: then a sender whose batches are larger than those of many
        # others, which finish none, would be evicted again and again.
        now = trio.current_time()
        found.sort(key=lambda each: (each.incomplete * (now - each.began), each.incomplete))
        wanted = min(len(self._line), _MOST_PARTS) * self._max_size // _PART
        freed = 0
        while found and freed < wanted:
            share = found.pop()
            freed += share.incomplete
            self._evicted.add(share)
            share.evict()


class ShareOfIncoming:
    """What one connection holds of an `IncomingMemory`.

    Args:
        intake: What all connections share.
        evict: Called to end the connection. It must give back its memory soon, and may not do so in
            this call.

    Attributes:
        size: The bytes that it holds.
        incomplete: Those of them that belong to an incomplete batch.
        began: When this batch began.
        waits_since: When it began to wait, if it waits.
        allowance: Its turn ends when it holds no more than this.
        deadline: Its sender has until then, if it has the turn.
    """

    def __init__(self, intake: IncomingMemory, evict: Callable[[], None]) -> None:
        self.size = 0
        self.incomplete = 0
        self.began = trio.current_time()
        self.evict: Final = evict
        self.waits_since = 0.0
        self.allowance: int  # set when its turn begins
        self.deadline = inf
        self._intake: Final = intake

    @property
    def free(self) -> bool:
        """Whether `enter` would not wait."""
        return self._intake.free

    async def enter(self) -> bool:
        """Wait until this connection may decode what it has read. Then decode, and call `hold`.

        Returns:
            Whether it may make a step of the usual size; otherwise only a small one.

        Checkpoint: if it may not yet.
        If cancelled: it may not, and has left the queue.
        """
        return await self._intake.enter(self)

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
