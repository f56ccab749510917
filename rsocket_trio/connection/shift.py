"""The state of one task of the crew: `Shift`; and functions that clean up after a handler."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, Final

from trio.lowlevel import Abort, current_task

from ..errors import fresh_copy
from ..interactions.isolation import outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trio.lowlevel import Task

    from .job import Job

__all__ = [
    "BURST_SECONDS",
    "LOOK",
    "SCOPE_REQUESTS",
    "Shift",
    "differ",
    "dismiss",
    "settle",
]

AT_ONCE: Final = 512
"""The number of requests of one read that may run where they are dispatched: as many as a
transport returns in one read."""

BURST_SECONDS: Final = 0.005
"""A burst also ends after this time: handlers that compute must not delay all others."""

LOOK: Final = 7
"""A mask: the clock is read after every eighth request."""

SCOPE_REQUESTS: Final = 64
"""The number of requests for which one cancel scope lasts. Closing the scope shows whether a
handler has left a scope open in it. A pair of scopes costs about a turn of trio's loop."""


class Shift:
    """The state of one task of the crew.

    Attributes:
        task: The task.
        operation: The request whose handler waits in the task, if there is one.
        served: The number of requests run within the present cancel scope.
        longest: The maximum of ``served``: one for a new task, then `SCOPE_REQUESTS`. So a handler
            that always leaves a scope open is found at once, in any task.
    """

    __slots__ = ("_idle", "longest", "operation", "served", "task")

    def __init__(self, idle: dict[Task, None]) -> None:
        self._idle = idle
        self.task = current_task()
        self.operation: Job | None = None
        self.served = 0
        self.longest = 1

    def abort(self, _raise_cancel: Any) -> Abort:
        """The task is cancelled while it is idle: it does not wait for work any more."""
        del self._idle[self.task]
        return Abort.SUCCEEDED


def dismiss(shifts: Iterable[Shift], error: Exception) -> Iterator[None]:
    """Cancel the requests that wait, one in each step: the connection is over with ``error``.

    There may be thousands, and all that are woken run in the next turn of the loop. So the caller
    lets other tasks run between steps.
    """
    for shift in list(shifts):
        if shift.operation is not None:
            shift.operation.dismiss(fresh_copy(error))
            yield


def differ(now: contextvars.Context, clean: contextvars.Context) -> bool:
    """Whether a handler has changed the context.

    A different object counts as a change even if it is equal: for example, an empty dict may be
    filled later. Also, comparing values may take time, or raise any error.
    """
    if len(now) != len(clean):
        return True
    return any(clean.get(variable, differ) is not value for variable, value in now.items())


def settle(operation: Job, error: BaseException) -> None:
    """End the stream of a handler with the error that it raised.

    Raises:
        KeyboardInterrupt: Or another `BaseException` that is not for the peer; the stream is over
            all the same.
    """
    try:
        outcome = outcome_of(error)
    except BaseException:  # raised again; the stream must be over first
        operation.close(None)
        raise
    operation.close(outcome)
