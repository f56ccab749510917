"""Cancel an operation at every place where it can be cancelled, in one run per place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

__all__ = ["cancel_everywhere"]


class _CancelAt(trio.abc.Instrument):
    """Cancels ``scope`` at the moment number ``place``, counted from 1.

    A moment is just before or just after a scheduling step. After a step the task waits, and
    cancellation aborts the wait. Before a step the wait is already over: the task has its value,
    and the cancellation comes at the next checkpoint. Values are lost most easily in that case.
    """

    def __init__(
        self, scope: trio.CancelScope, place: int, task: trio.lowlevel.Task, *, every_task: bool
    ) -> None:
        self.fired = False
        self._scope = scope
        self._left = place
        self._task = task
        self._every_task = every_task

    def _moment(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.fired = True
            self._scope.cancel(reason="cancel_everywhere")

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        # With every task counted, the moment before a step is the moment after the previous one.
        if task is self._task and not self._every_task:
            self._moment()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task or self._every_task:
            self._moment()


async def cancel_everywhere(
    operation: Callable[[], Awaitable[object]],
    check: Callable[[], Awaitable[None]],
    *,
    limit: int = 1000,
    every_task: bool = False,
) -> int:
    """Run ``operation`` repeatedly, and cancel each run one scheduling step later than the last.

    The first run is cancelled before it begins, the next around its first step, and so on, until
    a run completes without cancellation. ``check`` is called after every run, including the
    complete one. It raises if the run left anything behind or broke anything.

    Args:
        operation: The operation to cancel. It runs in the calling task and may open nurseries.
        check: Raises `AssertionError` if the last run left anything behind.
        limit: The largest number of places, in case the operation never completes.
        every_task: Count the steps of all tasks, not only of the task of ``operation``. Then
            cancellation also comes between any two steps of, for example, the reader of a
            connection. This takes many more runs.

    Returns:
        The number of places where the operation was cancelled.

    Raises:
        AssertionError: ``check`` raised it, or the operation did not complete in ``limit`` runs.
            Every exception of ``operation`` and ``check`` has a note with the place.

    Checkpoint: always.
    If cancelled: the current run of ``operation`` is cancelled too, and ``check`` is not called.
    """
    task = trio.lowlevel.current_task()
    for place in range(limit + 1):
        try:
            cancelled = await _run_once(operation, place, task, every_task=every_task)
            await trio.lowlevel.checkpoint()
            await check()
        except Exception as error:  # every failure gets the note
            error.add_note(f"cancel_everywhere: the operation was cancelled at place {place}")
            raise
        if not cancelled:
            return place
    raise AssertionError(f"the operation did not complete in {limit} runs; does it ever end?")


async def _run_once(
    operation: Callable[[], Awaitable[object]],
    place: int,
    task: trio.lowlevel.Task,
    *,
    every_task: bool,
) -> bool:
    """Run the operation once. Return whether it was cancelled."""
    with trio.CancelScope() as scope:
        if place == 0:
            scope.cancel(reason="cancel_everywhere")
            await operation()
            return True
        instrument = _CancelAt(scope, place, task, every_task=every_task)
        trio.lowlevel.add_instrument(instrument)
        try:
            await operation()
        finally:
            trio.lowlevel.remove_instrument(instrument)
        return instrument.fired
    return True
