"""What one task waits for: `OneWaiter`; and what has arrived for it to take: `Arrivals`.

Whatever is waited for on a stream, one task waits for it: its reader for items, its producer for
credit. So a wait is that task noted in a slot, and a wake-up reschedules it: there is no event,
lock or queue of waiters (docs/performance.md).
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable
from typing import Any, Generic, TypeVar

import trio
from trio.lowlevel import Abort, checkpoint, current_task, reschedule, wait_task_rescheduled

__all__ = ["Arrivals", "OneWaiter"]

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


class Arrivals(OneWaiter, trio.abc.ReceiveChannel[T], Generic[T]):
    """A queue that the connection's reader fills and one task empties, with an end.

    What is bounded, and how what is taken is accounted for, is the business of the subclasses.
    """

    __slots__ = ("_closed", "_ended", "_failure", "_queue")

    def __init__(self) -> None:
        self._task = None
        self._queue: deque[T] = deque()
        self._failure: Exception | None = None
        self._ended = False  # nothing more will arrive
        self._closed = False  # nothing more is wanted

    def end(self, failure: Exception | None = None) -> None:
        """Nothing more will arrive; what is here already is delivered first."""
        if not self._ended:
            self._ended = True
            self._failure = failure
            self._wake()

    @abstractmethod
    def close(self) -> None:
        """Stop reading; what is here is dropped."""

    async def aclose(self) -> None:
        """`close`, and a checkpoint.

        Checkpoint: always.
        If cancelled: closed all the same.
        """
        self.close()
        await checkpoint()

    def _check(self) -> None:
        """Raise what there is to raise; returns where there is something, or may be yet."""
        if self._closed:
            raise trio.ClosedResourceError
        if self._ended and not self._queue:
            if self._failure is not None:
                raise self._failure
            raise trio.EndOfChannel

    async def _wait(self) -> None:
        """Wait until there is something. Always a checkpoint; takes nothing if cancelled."""
        if self._queue or self._ended or self._closed:
            await checkpoint()
        while True:
            self._check()
            if self._queue:
                return
            if self._task is not None:
                name = type(self).__name__
                raise trio.BusyResourceError(f"another task is receiving from this {name}")
            await self._until_woken()
