"""Call the application for one batch: `handle`.

The handler has a task of its own. An error, a nursery or a cancel scope that it leaves open ends
only its own connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ...errors import ConnectionLost, single_error
from ...interactions.isolation import being_cancelled, parted
from ...interactions.leftovers import isolated
from ...log_policy import logger
from .batch import Batch, PoisonHook, decode_with_hook

__all__ = ["Handler", "RefusedBatch", "handle"]

Handler: TypeAlias = Callable[[Batch], Awaitable[None]]
"""An async function that is called with each batch."""


class RefusedBatch(Exception):
    """A guard has refused a batch. This is no failure of the handler, which is not called."""


async def handle(handler: Handler, on_poison: PoisonHook | None, batch: Batch) -> bool:
    """Call the handler, in a task of its own.

    Returns:
        Whether it returned. If it raised, this is logged.

    Checkpoint: always.
    If cancelled: the handler is cancelled.
    """

    async def call() -> None:
        if on_poison is not None:
            await decode_with_hook(batch, on_poison)
        await handler(batch)

    error = await isolated(call)
    return error is None or _judge(error, batch)


def _judge(error: BaseException, batch: Batch) -> bool:
    """Log the failure of a handler, and return false.

    Raises:
        trio.Cancelled: The connection is being cancelled.
        KeyboardInterrupt: Also `SystemExit`: they end the program.
    """
    lost = being_cancelled()
    cancelled, failure = parted(error)
    alone = None if failure is None else single_error(failure)
    if isinstance(alone, RefusedBatch):
        logger.info(
            "refused a batch of %d events from %s; the connection is closed: %s",
            len(batch),
            batch.transport.peer or "a peer",
            alone,
        )
    elif failure is not None and not (lost and isinstance(alone, ConnectionLost)):
        logger.error(
            "the handler failed with %d of %d events of a batch from %s not acknowledged; the "
            "connection is closed, and the sender will send them again",
            len(batch) - batch.acknowledged,
            len(batch),
            batch.transport.peer or "a peer",
            exc_info=failure,
        )
    if cancelled is not None:
        raise cancelled
    return False
