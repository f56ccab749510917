"""What came out of a handler, and whose business it is: `outcome_of`, and what it left behind.

A handler may raise anything, and misuse cancel scopes in any way; it ends its own stream and
nothing else. So whatever comes out is the outcome of its stream, a `trio.Cancelled` that nobody
asked for included. Two things pass: the cancellation of the connection, which is asked for before
this, and what ends the whole program (`KeyboardInterrupt`, `SystemExit`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from trio.lowlevel import current_task

if TYPE_CHECKING:
    from trio.lowlevel import Task

__all__ = ["being_cancelled", "failure_of", "leave_nurseries", "outcome_of", "split"]

_ENDS_THE_PROGRAM: Final = (KeyboardInterrupt, SystemExit)
_LONGEST_WAIT: Final = 60.0


def outcome_of(error: BaseException) -> Exception:
    """What a stream ends with, because its handler or source raised ``error``.

    Call it where no cancel scope around is cancelled, or for what was raised without any wait: a
    `trio.Cancelled` in it is nobody's then.

    Raises:
        KeyboardInterrupt: And `SystemExit`: it is, or holds, one.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, BaseExceptionGroup):
        urgent, rest = split(error, _ENDS_THE_PROGRAM)
        if urgent is not None:
            raise urgent
        if rest is not None:
            failures, _ = split(rest, Exception)
            if isinstance(failures, Exception):
                return failures
    elif isinstance(error, _ENDS_THE_PROGRAM):
        raise error
    what = "a cancellation" if isinstance(error, trio.Cancelled) else type(error).__name__
    stray = RuntimeError(
        f"{what} came out of it that belongs to no scope around it; a cancel scope must absorb "
        "its own cancellation, and nobody may keep one to raise it later"
    )
    stray.__cause__ = error
    return stray


def failure_of(error: BaseException) -> Exception:
    """As `outcome_of`, for a function of the application's that is no handler, and may have waited.

    Raises:
        BaseException: ``error``, where a cancel scope around is cancelled.
        KeyboardInterrupt: And `SystemExit`: it is, or holds, one.
    """
    if not isinstance(error, Exception) and being_cancelled():
        raise error
    return outcome_of(error)


def split(
    error: BaseException, kinds: type[BaseException] | tuple[type[BaseException], ...]
) -> tuple[BaseException | None, BaseException | None]:
    """What of an error, or of a group of them, is of these kinds, and the rest."""
    if not isinstance(error, BaseExceptionGroup):
        return (error, None) if isinstance(error, kinds) else (None, error)
    try:
        return error.split(kinds)
    except Exception:
        return None, error  # its class has methods of its own for that, which fail


def being_cancelled() -> bool:
    """Whether a cancel scope around this task is cancelled, so that `trio.Cancelled` is due."""
    return trio.current_effective_deadline() == -float("inf")


async def leave_nurseries(task: Task) -> None:
    """Wait until the nurseries are closed that a handler left open in the current task.

    A task must not end while it has one. Their children are cancelled; a generator that was
    forgotten around such a nursery is finalised by trio soon, and closes it. One that was entered
    by hand and is never left is waited for until the connection is over.

    Checkpoint: if there are any.
    If cancelled: they are still open, and trio raises a `RuntimeError` when the task ends.
    """
    assert task is current_task()
    delay = 0.01
    while task.child_nurseries:
        for nursery in task.child_nurseries:
            nursery.cancel_scope.cancel(reason="the handler that opened this nursery left it open")
        await trio.sleep(delay)
        delay = min(2 * delay, _LONGEST_WAIT)
