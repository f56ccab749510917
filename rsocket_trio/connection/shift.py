"""What one task of the crew remembers while it works: `Shift`; and what a handler left."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any, Final

from trio.lowlevel import Abort, current_task

from ..errors import fresh_copy
from ..interactions.isolation import outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trio.lowlevel import Task

    from ..interactions.operation import ResponderOperation

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
"""Requests of one read that are run where they are dispatched: as many as a read hands out."""

BURST_SECONDS: Final = 0.005
"""A burst ends after this long as well: handlers that compute must not delay all others."""

LOOK: Final = 7
"""The clock is looked at behind every eighth request."""

SCOPE_REQUESTS: Final = 64
"""A cancel scope lasts for so many requests before it is looked at whether a handler has left one
open in it. A pair of scopes costs about as much as a turn of trio's loop."""


class Shift:
    """What one task of the crew remembers.

    Attributes:
        task: It.
        clean: The context of a task that has run no handler.
        operation: The request that waits in it, if one does.
        served: Requests run within the present cancel scope.
        longest: How many there may be: of a new task one, then `SCOPE_REQUESTS`. So a handler that
            always leaves a scope open is found at once, wherever it runs.
    """

    __slots__ = ("_idle", "clean", "longest", "operation", "served", "task")

    def __init__(self, idle: dict[Task, None]) -> None:
        self._idle = idle
        self.task = current_task()
        self.clean = contextvars.copy_context()
        self.operation: ResponderOperation | None = None
        self.served = 0
        self.longest = 1

    def abort(self, _raise_cancel: Any) -> Abort:
        """The task is cancelled while it is idle: it does not wait for work any more."""
        del self._idle[self.task]
        return Abort.SUCCEEDED


def dismiss(shifts: Iterable[Shift], error: Exception) -> Iterator[None]:
    """The connection is over because of ``error``: each step cancels one request that waits.

    There may be thousands, whose tasks all run in the turn after: whoever iterates lets others run
    in between.
    """
    for shift in list(shifts):
        if shift.operation is not None:
            shift.operation.dismiss(fresh_copy(error))
            yield


def differ(now: contextvars.Context, clean: contextvars.Context) -> bool:
    """Whether a handler has changed the context.

    Another value counts as a change also where it is equal: a dict that is empty now need not stay
    so. And to compare values may take time, or raise anything.
    """
    if len(now) != len(clean):
        return True
    return any(clean.get(variable, differ) is not value for variable, value in now.items())


def settle(operation: ResponderOperation, error: BaseException) -> None:
    """Whatever came out of a handler is the outcome of its stream.

    Raises:
        KeyboardInterrupt: And its like; the stream is over all the same.
    """
    try:
        outcome = outcome_of(error)
    except BaseException:
        operation.close(None)
        raise
    operation.close(outcome)
