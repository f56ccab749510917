"""Call the application for one batch: `call`; and what its failure means: `judge`.

Handlers run in a task that does nothing else. An error, a nursery or a cancel scope that one leaves
open ends only its own connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ...errors import ConnectionLost, single_error
from ...interactions.isolation import being_cancelled, parted
from ...log_policy import logger
from .batch import Batch, PoisonHook, decode_with_hook

__all__ = ["Handler", "RefusedBatch", "call", "judge"]

Handler: TypeAlias = Callable[[Batch], Awaitable[None]]
"""An async function that is called with each batch."""


class RefusedBatch(Exception):
    """A guard has refused a batch. This is no failure of the handler, which is not called."""


async def call(handler: Handler, on_poison: PoisonHook | None, batch: Batch) -> None:
    """Call the handler.

    Checkpoint: as the handler.
    If cancelled: the handler is cancelled.
    """
    if on_poison is not None:
        await decode_with_hook(batch, on_poison)
    await handler(batch)


def judge(error: BaseException, batch: Batch) -> None:
    """Log the failure of a handler, in another task than its own.

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
