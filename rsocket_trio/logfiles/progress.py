"""The acknowledged offset of a file, while several batches are on the way: `Progress`."""

from __future__ import annotations

from collections import deque

import attrs
import trio

__all__ = ["Part", "Progress"]


@attrs.define(eq=False)
class Part:
    """A batch that is on the way."""

    end: int
    done: bool = False


class Progress:
    """Counts the offset up to which everything is acknowledged.

    Batches may be acknowledged in any order. The offset moves behind a batch when all batches
    before it are acknowledged too.

    Args:
        offset: Everything before this offset is acknowledged.

    Attributes:
        offset: Everything before this offset is acknowledged.
    """

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self._parts: deque[Part] = deque()
        self._settled = trio.Event()
        self._settled.set()

    def begin(self, end: int) -> Part:
        """Add a batch that ends at an offset, behind all others."""
        if not self._parts:
            self._settled = trio.Event()
        part = Part(end)
        self._parts.append(part)
        return part

    def acknowledged(self, part: Part) -> None:
        """Take the acknowledgement of a batch."""
        part.done = True
        while self._parts and self._parts[0].done:
            self.offset = self._parts.popleft().end
        if not self._parts:
            self._settled.set()

    async def settled(self) -> None:
        """Wait until no batch is on the way.

        Checkpoint: always.
        If cancelled: nothing is lost.
        """
        await self._settled.wait()
