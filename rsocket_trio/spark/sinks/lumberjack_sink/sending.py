"""What a task of a write does on its connections to receivers of Lumberjack: `ship_rows`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import trio

from .... import LocalProtocolError, lumberjack
from ..errors import SinkError
from ..patience import Patience
from ..row_feed import RowFeed
from .settings import LumberjackSinkSettings

__all__ = ["ship_rows"]

_AHEAD: Final = 2
"""Record batches of Spark that are on the way: the next one leaves while this one is handled."""


async def ship_rows(
    settings: LumberjackSinkSettings,
    batches: Iterator[Any],
    convert: Callable[[Any], list[bytes]],
) -> int:
    """Ship the rows of a task, and return their number when all are acknowledged.

    Args:
        settings: Where to.
        batches: Spark's iterator.
        convert: Returns the events of a batch. It runs in a thread.

    Raises:
        SinkError: Not all are acknowledged. Some of them may have arrived.
    """
    feed = RowFeed(batches, convert)
    where = f"Lumberjack at {', '.join(settings.hosts)}"
    rows = 0
    on_the_way = trio.Semaphore(_AHEAD)

    async def send(
        shipper: lumberjack.Shipper,
        events: list[bytes],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await shipper.send(events, task_status=task_status)
        finally:
            on_the_way.release()

    def idle() -> bool:
        return feed.waiting and on_the_way.value == _AHEAD

    failure: BaseExceptionGroup[Exception] | None = None
    try:
        async with lumberjack.connect(
            settings.hosts, config=settings.config(), ssl_context=settings.tls.context()
        ) as shipper:
            acknowledged = lambda: shipper.statistics().acknowledged  # noqa: E731 - short
            patience = Patience(settings.timeout, idle, acknowledged)
            async with patience.guard(where) as nursery:
                nursery.start_soon(feed.pump)
                async for events in feed:
                    await on_the_way.acquire()
                    await nursery.start(send, shipper, events)
                    rows += len(events)
                for _ in range(_AHEAD):  # until all are back
                    await on_the_way.acquire()
    except* (lumberjack.ShipError, LocalProtocolError) as group:
        failure = group
    if failure is not None:
        # All that were on the way fail for the same reason.
        first: BaseException = failure
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise SinkError(f"{where}: {first}") from first
    return rows
