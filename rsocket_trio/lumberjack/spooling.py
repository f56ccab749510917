"""Between Lumberjack and a spool: `store_in` is a handler that stores batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ..field_checks import argument, instance_of
from ..spool import Spool
from .server.batch import Batch
from .stored import to_store

__all__ = ["store_in"]


def store_in(spool: Spool) -> Callable[[Batch], Awaitable[None]]:
    """Return a handler for `serve` that stores each batch; it is acknowledged once it is durable.

    While the spool is full, or its disk, no batch is acknowledged: senders of version 2 get
    keep-alives, and wait. A batch that is larger than the whole spool fails, and its sender sends
    it again and again; so choose ``max_size`` of the spool far above
    `LumberjackLimits.max_batch_size`.

    Args:
        spool: Where to store them.

    Raises:
        TypeError: ``spool`` is none.
    """
    argument("spool", spool, instance_of(Spool))

    async def store(batch: Batch) -> None:
        await spool.append(to_store(batch))

    return store
