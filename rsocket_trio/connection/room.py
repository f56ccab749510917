"""Room in the outbox, and the tasks that wait for it: `Room`.

Producers of payloads may be a bounded number of bytes ahead of the writer. Who finds no room waits
in line and is handed room in order, which makes streams take turns: a fragment of this one, a
fragment of that one. Whoever gives up waiting leaves the line in constant time, wherever it
stands: a peer may cancel thousands of streams at once, in any order.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from outcome import Error
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

from ..errors import fresh_copy

if TYPE_CHECKING:
    from trio.lowlevel import Task

__all__ = ["Room"]


class Room:
    """The bytes of payload frames that may wait for the writer.

    Attributes:
        limit: How many there may be. The last to come may go past it.
        used: Bytes of frames that wait, or for which room has been handed out.
        waiting: The tasks in line, and the bytes each wants.
    """

    __slots__ = ("_closed", "_handed", "limit", "used", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.waiting: OrderedDict[Task, int] = OrderedDict()
        self._handed = 0  # given to tasks that have not run since
        self._closed: Exception | None = None

    async def wait(self, size: int) -> None:
        """Stand in line until ``size`` bytes have been handed to this task.

        Raises:
            Exception: What the room was closed with.

        Checkpoint: always.
        If cancelled: nothing is taken.
        """
        task = current_task()
        self.waiting[task] = size

        def abort(_raise_cancel: Any) -> Abort:
            del self.waiting[task]
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)
        self._handed -= size

    def try_take(self, size: int) -> bool:
        """Take ``size`` bytes if there is room; then nobody is in line.

        Raises:
            Exception: What the room was closed with.
        """
        if self._closed is not None:
            raise fresh_copy(self._closed)
        if self.used >= self.limit:
            return False
        self.used += size
        return True

    def give_back(self, size: int) -> None:
        """Room that was taken is not needed: others may be waiting for it."""
        self.used -= size
        self.hand_out()

    def empty(self) -> None:
        """All frames that waited have been taken; `hand_out` follows where tasks may be woken."""
        self.used = self._handed

    def hand_out(self) -> None:
        """Give the room there is to those in line, in order."""
        waiting = self.waiting
        while waiting and self.used < self.limit:
            task, size = waiting.popitem(last=False)
            self.used += size
            self._handed += size
            reschedule(task)

    def set_limit(self, limit: int) -> None:
        """Change ``limit``; 0 lets nothing in. Those in line get the room that comes of it."""
        self.limit = limit
        self.hand_out()

    def close(self, error: Exception) -> None:
        """No room will come any more: those in line get ``error``, each one of its own.

        `let_go` tells them.
        """
        self._closed = error

    def let_go(self, at_most: int | None = None) -> None:
        """After `close`, tell those in line; all of them, or so many.

        There may be thousands, whose tasks all run in the turn after.
        """
        error = self._closed
        waiting = self.waiting
        left = len(waiting) if at_most is None else min(at_most, len(waiting))
        while left > 0 and error is not None:
            task, _ = waiting.popitem(last=False)
            reschedule(task, Error(fresh_copy(error)))
            left -= 1
