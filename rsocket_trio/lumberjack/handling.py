"""Call the application for one batch: `handle`.

The handler has a task of its own. An error, a nursery or a cancel scope that it leaves open ends
only its own connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import trio

from ..errors import ConnectionLost, single_error
from ..interactions.isolation import being_cancelled, leave_nurseries, outcome_of, split
from ..log_policy import logger
from .batch import Batch, PoisonHook, decode_with_hook

__all__ = ["Handler", "handle"]

_LONGEST_WAIT: Final = 1.0
"""Seconds for the tasks in a nursery that a handler has left open, before it is abandoned."""

Handler: TypeAlias = Callable[[Batch], Awaitable[None]]
"""An async function that is called with each batch."""


async def handle(handler: Handler, on_poison: PoisonHook | None, batch: Batch) -> bool:
    """Call the handler, in a task of its own.

    Returns:
        Whether it returned. If it raised, this is logged.

    Checkpoint: always.
    If cancelled: the handler is cancelled.
    """
    error: BaseException | None = None

    async def call() -> None:
        nonlocal error
        try:
            if on_poison is not None:
                await decode_with_hook(batch, on_poison)
            await handler(batch)
        except BaseException as raised:  # judged below, where no scope of the handler is open
            error = raised
        task = trio.lowlevel.current_task()
        if task.child_nurseries:
            error = error or RuntimeError("the handler left a nursery open")
            # With a time, as the handler may also have left a shielded scope open.
            with trio.move_on_after(_LONGEST_WAIT):
                await leave_nurseries(task)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
    except BaseException as raised:  # judged below, as above
        error = error or raised
    return error is None or _judge(error, batch)


def _judge(error: BaseException, batch: Batch) -> bool:
    """Log the failure of a handler, and return false.

    Raises:
        trio.Cancelled: The connection is being cancelled.
        KeyboardInterrupt: Also `SystemExit`: they end the program.
    """
    lost = being_cancelled()
    cancelled, rest = split(error, trio.Cancelled) if lost else (None, error)
    if rest is not None and not (lost and isinstance(single_error(rest), ConnectionLost)):
        logger.error(
            "the handler failed with %d of %d events of a batch from %s not acknowledged; the "
            "connection is closed, and the sender will send them again",
            len(batch) - batch.acknowledged,
            len(batch),
            batch.transport.peer or "a peer",
            exc_info=outcome_of(rest),
        )
    if cancelled is not None:
        raise cancelled
    return False
