"""Room in the outbox, and the tasks that wait for it: `Room`.

Producers of payloads may be a limited number of bytes ahead of the writer. Producers that find no
room wait in a queue and get room in order, so streams take turns: a fragment of one stream, then a
fragment of the next. A producer that is cancelled leaves the queue in constant time, from any
position: a peer may cancel thousands of streams at once, in any order.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from outcome import Error
from trio.lowlevel import (
    Abort,
    checkpoint_if_cancelled,
    current_task,
    reschedule,
    wait_task_rescheduled,
)

from ..entrance import over
from ..errors import fresh_copy

if TYPE_CHECKING:
    from trio.lowlevel import Task

__all__ = ["Room"]


class Room:
    """The bytes of payload frames that may wait for the writer.

    Attributes:
        limit: The maximum number of bytes. The last frame may exceed it.
        used: The bytes of frames that wait, and the bytes reserved for frames.
        waiting: The tasks in the queue, and the bytes that each wants.
    """

    __slots__ = ("_closed", "_handed", "limit", "used", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.waiting: OrderedDict[Task, int] = OrderedDict()
        self._handed = 0  # bytes given to tasks that have not run since
        self._closed: Exception | None = None

    async def wait(self, size: int) -> None:
        """Wait in the queue until this task gets ``size`` bytes.

        Raises:
            Exception: The error with which the room was closed.

        Checkpoint: always.
        If cancelled: nothing is taken.
        """
        if self._closed is not None:
            await over(self._closed)
        task = current_task()
        self.waiting[task] = size

        def abort(_raise_cancel: Any) -> Abort:
            del self.waiting[task]
            return Abort.SUCCEEDED

        try:
            await wait_task_rescheduled(abort)
        except Exception:  # of `fail_waiting`
            await checkpoint_if_cancelled()
            raise
        self._handed -= size

    def try_take(self, size: int) -> bool:
        """Take ``size`` bytes if there is room; if there is room, the queue is empty.

        Return False if `wait` has to wait, or raises as the room was closed.
        """
        if self.used >= self.limit or self._closed is not None:
            return False
        self.used += size
        return True

    def give_back(self, size: int) -> None:
        """Give back room that is not needed; tasks in the queue may get it."""
        self.used -= size
        self.hand_out()

    def empty(self) -> None:
        """Free the room of all queued frames, which were taken. `hand_out` wakes tasks for it."""
        self.used = self._handed

    def hand_out(self) -> None:
        """Give the free room to the tasks in the queue, in order."""
        waiting = self.waiting
        while waiting and self.used < self.limit:
            task, size = waiting.popitem(last=False)
            self.used += size
            self._handed += size
            reschedule(task)

    def set_limit(self, limit: int) -> None:
        """Change ``limit``; 0 allows no payloads. Tasks in the queue get the new room."""
        self.limit = limit
        self.hand_out()

    def close(self, error: Exception) -> None:
        """Give no more room; `fail_waiting` raises ``error`` in the tasks of the queue."""
        self._closed = error

    def fail_waiting(self, at_most: int | None = None) -> None:
        """After `close`, raise the error in ``at_most`` tasks of the queue, or in all of them.

        There may be thousands, and all that are woken run in the next turn of the loop.
        """
        error = self._closed
        waiting = self.waiting
        left = len(waiting) if at_most is None else min(at_most, len(waiting))
        while left > 0 and error is not None:
            task, _ = waiting.popitem(last=False)
            reschedule(task, Error(fresh_copy(error)))
            left -= 1
