"""One range that is being read from a collector: `RangeStream`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from math import inf
from typing import Final, Self, TypeVar

import trio

from ..codecs import DEFAULT_CODECS
from ..metadata import MIME, CompositeMetadata, MetadataEntry
from ..payload import Payload
from ..requester import Requester
from ..spool import BatchesAhead, SpoolError, SpoolReader, StoredBatch
from ..streamed import AnyPayload, StreamedPayload
from .messages import BatchHead
from .read_memory import ReadMemory, Share
from .refusals import refusal, stalled

__all__ = ["RangeStream"]

T = TypeVar("T")

LARGE: Final = 2**20
"""Bytes. A batch that is larger is read when the reader has demand for it, so a range that pauses
has at most this much in memory. It needs a round trip to the disk of its own."""

CHUNK: Final = 2**18
"""Bytes of a large batch that are handed over at a time. There are two copies of them: the chunk,
and what is left of it to be cut into fragments."""

_write_head = DEFAULT_CODECS.encoder(BatchHead, MIME.CBOR)


class RangeStream:
    """The batches of a range, as items of a stream.

    Args:
        reader: Reads the range.
        size: The stream ends with this many bytes.
        peer: The connection of its reader.
        memory: Counts what is in memory.
        on_end: Called once, when the range is over.

    Attributes:
        peer: The connection of its reader.
        busy: Batches are being read from the spool, or wait for memory.
        last_step: When the reader took something, by the clock of trio.
    """

    def __init__(
        self,
        reader: SpoolReader,
        size: int | None,
        peer: Requester,
        memory: ReadMemory,
        on_end: Callable[[RangeStream], None],
    ) -> None:
        self.peer: Final = peer
        self._reader: Final = reader
        self._left = inf if size is None else size
        self._memory: Final = memory
        self._share: Final = Share(peer, self.evict)
        self._on_end: Final = on_end
        self._scope: Final = trio.CancelScope()
        self._items: Final = self._make_items()
        self._ended = False
        self.busy = False
        self.last_step = trio.current_time()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AnyPayload:
        """Return the next batch.

        Raises:
            StreamError: The spool has an error, the reader has stalled, or there is no memory.
        """
        return await anext(self._items)

    async def athrow(self, error: BaseException) -> AnyPayload:
        """Raise an error where the item that was given last waits to be sent."""
        return await self._items.athrow(error)

    async def aclose(self) -> None:
        """Give the place and the memory back."""
        try:
            await self._items.aclose()
        finally:
            if not self._ended:
                self._ended = True
                self._memory.give_back(self._share)
                self._on_end(self)

    def evict(self) -> None:
        """End the range, and the wait for its reader; the reader is told so."""
        self._scope.cancel(reason="the reader has stalled")

    async def _make_items(self) -> AsyncGenerator[AnyPayload, None]:
        # The cancellation drops the item that waits to be sent: see `send_items`.
        with self._scope:
            while (ahead := await self._while_busy(self._reader.look_ahead)) is not None:
                for number in range(ahead.count):
                    if number == 0 and ahead.size > LARGE:
                        yield StreamedPayload(self._chunks(ahead), _metadata_of(ahead.head))
                    else:
                        if number == 0:
                            await self._load(ahead)
                        # In no variable: it is to be free when it has been sent.
                        yield await self._payload()
                    self._step()
                    if self._left <= 0:
                        return
                self._memory.give_back(self._share)
            return
        raise stalled()

    async def _chunks(self, ahead: BatchesAhead) -> AsyncGenerator[bytes, None]:
        """Read a large batch, and yield its data. This begins when there is credit for it."""
        self._step()
        await self._load(ahead)
        data = (await self._next()).data
        for at in range(0, len(data), CHUNK):
            yield data[at : at + CHUNK]
            self._step()

    async def _payload(self) -> Payload:
        batch = await self._next()
        return Payload(batch.data, _metadata_of(batch))

    async def _next(self) -> StoredBatch:
        batch = await self._while_busy(self._reader.__anext__)
        self._memory.loaded(self._share)
        self._left -= len(batch.data)
        return batch

    async def _load(self, ahead: BatchesAhead) -> None:
        """Wait for the memory for what the next step reads from the disk."""
        more = 2 * CHUNK if ahead.size > LARGE else 0
        await self._while_busy(lambda: self._memory.take(self._share, ahead.cost + more))

    async def _while_busy(self, action: Callable[[], Awaitable[T]]) -> T:
        self.busy = True
        try:
            return await action()
        except SpoolError as error:
            raise refusal(error) from None
        finally:
            self.busy = False
            self.last_step = trio.current_time()

    def _step(self) -> None:
        self.last_step = trio.current_time()
        self._memory.moved(self._share)


def _metadata_of(batch: StoredBatch) -> bytes:
    head = BatchHead(
        first=batch.first,
        count=batch.count,
        start=batch.start,
        stop=batch.stop,
        encoding=batch.encoding,
        facts=batch.facts,
        stored_at=batch.stored_at,
    )
    return CompositeMetadata([MetadataEntry(MIME.CBOR, _write_head(head))]).encode()
