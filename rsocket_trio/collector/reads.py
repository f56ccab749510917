"""The ranges that are being read from a collector: `Reads`, and one of them, `RangeStream`."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final, Self

import trio

from ..codecs import DEFAULT_CODECS
from ..errors import Rejected
from ..metadata import MIME, CompositeMetadata, MetadataEntry
from ..payload import Payload
from ..requester import Requester
from ..spool import SpoolError, SpoolReader, StoredBatch
from .limits import CollectorLimits
from .messages import BatchHead
from .refusals import refusal, stalled

__all__ = ["RangeStream", "Reads"]

_write_head = DEFAULT_CODECS.encoder(BatchHead, MIME.CBOR)


class Reads:
    """The ranges that are being read, within the limits.

    A reader that takes no batches for a while keeps its place until another reader needs it. Then
    the batches that wait for it leave the memory, and it is told so when it goes on.
    """

    def __init__(self, limits: CollectorLimits) -> None:
        self._limits: Final = limits
        # Ordered by the time of the last step, the oldest first.
        self._active: Final[OrderedDict[RangeStream, None]] = OrderedDict()
        self._open: Final[Counter[Requester]] = Counter()

    def __len__(self) -> int:
        """The ranges that have a place."""
        return len(self._active)

    def begin(self, reader: SpoolReader, size: int | None, peer: Requester) -> RangeStream:
        """Give a range a place.

        Raises:
            Rejected: There is none.
        """
        limits = self._limits
        if self._open[peer] >= limits.max_reads_per_connection:
            raise Rejected(
                f"{limits.max_reads_per_connection} ranges are open on this connection "
                "(max_reads_per_connection): end one of them"
            )
        if len(self._active) >= limits.max_reads and not self._evict_one():
            raise Rejected(f"{limits.max_reads} ranges are being read (max_reads): try again later")
        stream = RangeStream(self, reader, size, peer)
        self._active[stream] = None
        self._open[peer] += 1
        return stream

    def _evict_one(self) -> bool:
        """Take the place of a stalled reader, if there is one."""
        now = trio.current_time()
        for stream in self._active:
            if now - stream.last_step < self._limits.stall_time:
                return False
            if not stream.busy:
                stream.evict()
                del self._active[stream]
                return True
        return False

    def stepped(self, stream: RangeStream) -> None:
        """Note that the reader of a range has taken a batch."""
        if stream in self._active:
            self._active.move_to_end(stream)

    def end(self, stream: RangeStream, peer: Requester) -> None:
        """Forget a range."""
        self._active.pop(stream, None)
        self._open[peer] -= 1
        if not self._open[peer]:
            del self._open[peer]


class RangeStream:
    """The batches of a range, as items of a stream.

    Attributes:
        busy: A batch is being read from the spool.
        last_step: When the reader took a batch, by the clock of trio.
    """

    def __init__(
        self, reads: Reads, reader: SpoolReader, size: int | None, peer: Requester
    ) -> None:
        self._reads = reads
        self._reader: SpoolReader | None = reader
        self._left = size
        self._peer = peer
        self._ended = False
        self.busy = False
        self.last_step = trio.current_time()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Payload:
        """Return the next batch.

        Raises:
            StreamError: The spool has an error, or the reader had stalled.
        """
        if self._reader is None:
            raise stalled()
        if self._left is not None and self._left <= 0:
            raise StopAsyncIteration
        self.last_step = trio.current_time()
        self._reads.stepped(self)
        self.busy = True
        try:
            batch = await anext(self._reader)
        except SpoolError as error:
            raise refusal(error) from None
        finally:
            self.busy = False
        if self._left is not None:
            self._left -= len(batch.data)
        self.last_step = trio.current_time()
        return Payload(batch.data, _metadata_of(batch))

    def evict(self) -> None:
        """Drop what is in memory; the reader learns it when it goes on."""
        self._reader = None

    async def aclose(self) -> None:
        """Give the place back."""
        if not self._ended:
            self._ended = True
            self._reader = None
            self._reads.end(self, self._peer)


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
