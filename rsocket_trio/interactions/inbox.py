"""What one task waits for: `OneWaiter`; and what has arrived for it to take: `Inbox`.

Whatever is waited for on a stream, one task waits for it: its reader for items, its producer for
credit. So a wait is that task noted in a slot, and a wake-up reschedules it: there is no event,
lock or queue of waiters (docs/performance.md).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable
from typing import Any, Final, Generic, NoReturn, TypeVar

import trio
from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

from ..errors import fresh_copy

__all__ = ["UNREAD_COST", "Inbox", "OneWaiter"]

UNREAD_COST: Final = 64
"""What an item or a chunk that nobody has read yet is charged beside its bytes, in bytes: tiny ones
cost more as objects than as bytes, and empty ones would cost nothing."""

T = TypeVar("T")


class OneWaiter:
    """Lets one task wait until somebody wakes it.

    It is woken for any change, so it looks again: ``while not ...: await self._until_woken()``.
    Subclasses begin with ``_task = None``: an ``__init__`` here would be a call more per stream.
    """

    __slots__ = ("_task",)

    _task: trio.lowlevel.Task | None

    def _until_woken(self) -> Awaitable[Any]:
        """To be awaited at once; no coroutine of its own, which each wait would pay for."""
        self._task = current_task()
        return wait_task_rescheduled(self._abort)  # noqa: ASYNC105  likewise

    def _wake(self) -> None:
        """Let the task go on that waits, if one does."""
        task = self._task
        if task is not None:
            self._task = None
            reschedule(task)

    def _abort(self, _raise_cancel: Any) -> Abort:
        self._task = None
        return Abort.SUCCEEDED


class Inbox(OneWaiter, Generic[T]):
    """A queue that the connection's reader fills and one task empties, with an end.

    It is the connection's; its user has a view of it, which is a `trio.abc.ReceiveChannel`. What is
    bounded, and how what is taken is accounted for, is the business of the subclasses.

    Attributes:
        queue: What is here.
        ended: Nothing more will arrive.
        closed: Nothing more is wanted.
    """

    __slots__ = ("closed", "ended", "failure", "queue")

    def __init__(self) -> None:
        self._task = None
        self.queue: deque[T] = deque()
        self.failure: Exception | None = None
        self.ended = False
        self.closed = False

    def end(self, failure: Exception | None = None) -> None:
        """Nothing more will arrive; what is here already is delivered first."""
        if not self.ended:
            self.ended = True
            if not self.closed:
                self.failure = failure
            self._wake()

    @abstractmethod
    def close(self) -> None:
        """Nothing more is wanted; what is here is dropped."""

    def drop(self) -> None:
        """Nobody will take what is here: neither items nor an error, each of megabytes perhaps.

        An inbox and its operation know each other, so they are in memory for a while yet.
        """
        self.closed = True
        self.queue.clear()
        self.failure = None

    def check(self) -> None:
        """Raise what there is to raise; returns where there is something, or may be yet."""
        if self.closed:
            raise trio.ClosedResourceError
        if self.ended and not self.queue:
            if self.failure is not None:
                self._fail(self.failure)
            raise trio.EndOfChannel

    def _fail(self, failure: Exception) -> NoReturn:
        # What is raised gets the frames of its reader, and what they hold; what is kept for the
        # next time does not, or all of that would be a cycle.
        self.failure = fresh_copy(failure)
        try:
            raise failure
        finally:
            del failure

    async def wait(self, reader: str) -> None:
        """Wait until there is something.

        Args:
            reader: What its user calls it.

        Raises:
            trio.EndOfChannel: Nothing will ever be; or the failure it ended with.
            trio.ClosedResourceError: It was closed here.
            trio.BusyResourceError: Another task is waiting.

        Checkpoint: always.
        If cancelled: nothing is taken.
        """
        if self.queue or self.ended or self.closed:
            await checkpoint()
        while True:
            self.check()
            if self.queue:
                return
            if self._task is not None:
                raise trio.BusyResourceError(f"another task is receiving from this {reader}")
            await self._until_woken()
