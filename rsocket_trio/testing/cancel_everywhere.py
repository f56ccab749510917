"""Cancel an operation at every place where it can be cancelled, one run per place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

__all__ = ["cancel_everywhere"]


class _CancelAt(trio.abc.Instrument):
    """Cancels ``scope`` when the ``place``-th moment comes; moments are counted from 1.

    A moment is just before or just after a scheduling step. The two differ: after a step the
    task waits, and what it waits for is aborted; before a step the outcome of its wait is already
    decided, so the value was handed over and the cancellation comes at the next checkpoint. That
    second race is where things get lost.
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
    """Run ``operation`` again and again, cancelling each run one scheduling step later.

    The first run is cancelled before it begins, the next around its first step, and so on, until
    a run completes before its turn to be cancelled comes. ``check`` is called after every run,
    the complete one included: it raises if the run left something behind, or broke something.

    Args:
        operation: What is cancelled. Runs in the calling task; may open nurseries.
        check: Raises `AssertionError` when the last run left a trace.
        limit: How many places to cancel at before giving up on an operation that never completes.
        every_task: Count the steps of all tasks of the run, not only of the operation's own: it
            is then also cancelled between any two steps of, say, a connection's reader. Takes
            many more runs.

    Returns:
        The number of places it was cancelled at.

    Raises:
        AssertionError: Of ``check``; or ``limit`` runs did not bring a complete one. What
            ``operation`` or ``check`` raise carries a note that tells the place.

    Checkpoint: always.
    If cancelled: the current run of ``operation`` is cancelled too, and ``check`` is not called.
    """
    task = trio.lowlevel.current_task()
    for place in range(limit + 1):
        try:
            cancelled = await _run_once(operation, place, task, every_task=every_task)
            await trio.lowlevel.checkpoint()
            await check()
        except Exception as error:
            error.add_note(f"cancel_everywhere: the operation was cancelled at place {place}")
            raise
        if not cancelled:
            return place
    raise AssertionError(f"the operation did not complete in {limit} runs; is it endless?")


async def _run_once(
    operation: Callable[[], Awaitable[object]],
    place: int,
    task: trio.lowlevel.Task,
    *,
    every_task: bool,
) -> bool:
    """Run it once; tell whether it was cancelled."""
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
