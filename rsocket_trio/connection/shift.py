"""The state of one task of the crew: `Shift`; and functions that clean up after a handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trio.lowlevel import Abort

from ..errors import fresh_copy
from ..interactions.isolation import outcome_of
from ..interactions.leftovers import Watch

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Iterable, Iterator

    from trio.lowlevel import Task

    from .job import Job

__all__ = [
    "BURST_SECONDS",
    "LOOK",
    "SCOPE_REQUESTS",
    "Shift",
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
"""The number of requests for which one cancel scope lasts. A pair of scopes costs about a turn of
trio's loop. Closing the scope shows whether a handler has left a scope open in it, also where
`Watch` cannot see that."""


class Shift(Watch):
    """The state of one task of the crew, which is watched: see `Watch`.

    Attributes:
        operation: The request whose handler waits in the task, if there is one.
        served: The number of requests run within the present cancel scope.
        longest: The maximum of ``served``: one for a new task, then `SCOPE_REQUESTS`. So a handler
            that always leaves a scope open is found at once, in any task.
    """

    __slots__ = ("_idle", "longest", "operation", "served")

    def __init__(self, idle: dict[Task, None], clean: contextvars.Context) -> None:
        super().__init__(clean)
        self._idle = idle
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
