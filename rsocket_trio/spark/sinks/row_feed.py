"""The rows of a task, from Spark's iterator to trio: `RowFeed`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, Self, TypeVar

import trio

__all__ = ["HasRows", "RowFeed"]

B = TypeVar("B", bound="HasRows")
C = TypeVar("C")


class HasRows(Protocol):
    """A record batch."""

    @property
    def num_rows(self) -> int:
        """The number of its rows."""
        ...


class RowFeed(Generic[B, C]):
    """Takes batches from Spark in a thread, converts them there, and hands them to a task of trio.

    Spark may take minutes for its next batch, so trio must not wait for it in its own thread: the
    connection has to be kept alive. The next batch is taken and converted while this one is sent.

    Args:
        batches: Spark's iterator.
        convert: Called with each batch, in the thread.

    Attributes:
        waiting: Whether the consumer waits for Spark.
    """

    def __init__(self, batches: Iterator[B], convert: Callable[[B], C]) -> None:
        self.waiting = False
        self._batches = batches
        self._convert = convert
        self._send, self._receive = trio.open_memory_channel[C](0)

    async def pump(self) -> None:
        """Take batches until there are no more. It runs beside the consumer."""
        with self._send:
            while True:
                # If the task fails meanwhile, its process ends, and the thread with it.
                found = await trio.to_thread.run_sync(self._next, abandon_on_cancel=True)
                if found is None:
                    return
                await self._send.send(found[0])

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> C:
        """Return what was converted next."""
        self.waiting = True
        try:
            return await self._receive.__anext__()
        finally:
            self.waiting = False

    def drain(self) -> int:
        """Take the rest of the batches, and drop them; return the number of their rows.

        The operators before the sink may keep state, e.g. for aggregations. They have to see all
        rows, also if the sink needs none.
        """
        return sum(batch.num_rows for batch in self._batches)

    def _next(self) -> tuple[C] | None:
        for batch in self._batches:
            return (self._convert(batch),)
        return None
