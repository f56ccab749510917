"""`OneWaiter`: the wait of one task.

On a stream only one task waits for each thing: its reader for items, its producer for credit. So a
wait stores that task in a slot, and a wake-up reschedules it. There is no event, lock or queue of
waiters (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final

import trio
from trio.lowlevel import Abort, current_task, reschedule, wait_task_rescheduled

__all__ = ["OneWaiter"]

_IN_SUBCLASSES: Final[tuple[str, ...]] = ()


class OneWaiter:
    """Lets one task wait until another task wakes it.

    It is woken for any change, so it checks again: ``while not ...: await self._until_woken()``.
    Subclasses have the slot ``_task`` (one of two base classes may have slots), and set it to
    ``None`` themselves: an ``__init__`` here would cost a call per stream.
    """

    __slots__ = _IN_SUBCLASSES

    _task: trio.lowlevel.Task | None

    def _until_woken(self) -> Awaitable[Any]:
        """Wait until woken. The caller awaits this at once; a coroutine here would cost more."""
        self._task = current_task()
        return wait_task_rescheduled(self._abort)  # noqa: ASYNC105  # the caller awaits it

    def _wake(self) -> None:
        """Wake the task that waits, if there is one."""
        task = self._task
        if task is not None:
            self._task = None
            reschedule(task)

    def _abort(self, _raise_cancel: Any) -> Abort:
        self._task = None
        return Abort.SUCCEEDED
