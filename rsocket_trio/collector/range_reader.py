"""A range of a collector, read batch by batch: `RangeReader`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Self, final

import trio

from ..codecs import DEFAULT_CODECS, CodecError
from ..errors import MetadataError, RemoteProtocolError, StreamError
from ..interactions.demand import PayloadStream
from ..metadata import MIME, CompositeMetadata
from ..payload import Payload
from ..sealed import Sealed
from ..spool import StoredBatch
from .messages import BatchHead
from .refusals import CollectorBusy, has_stalled, refused

__all__ = ["OpenPiece", "RangeReader"]

_read_head = DEFAULT_CODECS.decoder(BatchHead, MIME.CBOR)

RETRY_PAUSE: Final = 0.5
"""Seconds until a range is asked for again for which the collector had no room."""

OpenPiece = Callable[[int, int], AbstractAsyncContextManager[PayloadStream]]
"""Asks for the first batches of a range."""


@final
class RangeReader(metaclass=Sealed, given="CollectorClient.read gives one"):
    """An iterator over the batches of a range, for one task at a time.

    It asks for the range in pieces of some megabytes. So the bytes that wait here are bounded,
    although the demand of a stream counts batches, and batches may be small or large.

    If the collector has no place or no memory for the range, or has taken it away because this
    reader has stalled, it asks again after a pause.
    """

    def __init__(self, open_piece: OpenPiece, start: int, stop: int, patience: float) -> None:
        self._open_piece = open_piece
        self._patience: Final = patience
        self._busy_at = -1
        self._busy_since = 0.0
        self._at = start
        self._stop: Final = stop
        self._began_at = -1
        self._opened: AbstractAsyncContextManager[PayloadStream] | None = None
        self._piece: PayloadStream | None = None
        self._busy = False

    @property
    def offset(self) -> int:
        """The offset of the next event."""
        return self._at

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StoredBatch:
        """Return the next batch.

        Raises:
            StopAsyncIteration: All events of the range have come.
            OffsetTrimmed: The next event is not kept any more.
            OffsetNotStored: The range ends beyond the head of the spool.
            WrongSpool: The collector has another spool.
            SpoolRestored: Its spool was restored from an older copy.
            CollectorBusy: The collector has had no place or no memory for the next batch for the
                time of ``patience``. The next call asks again.
            StreamError: The collector refused the request, e.g. `Rejected` beyond a limit.
            RemoteProtocolError: The peer is no collector, or it sent something else.
            ConnectionClosed: The connection is over.
            trio.BusyResourceError: Another task is waiting for a batch of this reader.

        Checkpoint: always.
        If cancelled: no batch is lost; the next call returns it.
        """
        if self._busy:
            raise trio.BusyResourceError("another task is waiting for a batch of this reader")
        self._busy = True
        try:
            return await self._next()
        finally:
            self._busy = False

    async def _next(self) -> StoredBatch:
        while self._piece is not None or self._at < self._stop:
            if self._piece is None:
                await trio.lowlevel.checkpoint()
                opened = self._open_piece(self._at, self._stop)
                self._piece = await opened.__aenter__()
                self._opened = opened
                self._began_at = self._at
            try:
                payload = await self._piece.receive()
            except trio.EndOfChannel:
                await self._end_piece()
                if self._at == self._began_at:
                    raise RemoteProtocolError(
                        f"the collector ended the range at offset {self._at}, before its end at "
                        f"{self._stop}"
                    ) from None
            except StreamError as error:
                await self._end_piece()
                if not has_stalled(error) or self._at == self._began_at:
                    await self._wait_if_busy(refused(error))
            else:
                batch = self._batch(payload)
                self._at = batch.stop
                return batch
        await trio.lowlevel.checkpoint()
        raise StopAsyncIteration

    async def _wait_if_busy(self, error: Exception) -> None:
        """Pause if the collector has no room for the next batch.

        Raises:
            Exception: ``error``, if it means something else, or the patience is over.
        """
        now = trio.current_time()
        if self._busy_at != self._at:
            self._busy_at, self._busy_since = self._at, now
        if not isinstance(error, CollectorBusy) or now - self._busy_since >= self._patience:
            raise error from None
        await trio.sleep(RETRY_PAUSE)

    def _batch(self, payload: Payload) -> StoredBatch:
        try:
            found = CompositeMetadata.decode(payload.metadata or b"").first(MIME.CBOR)
            head: BatchHead = _read_head(found or b"")
        except (MetadataError, CodecError) as error:
            raise RemoteProtocolError("the collector sent a batch without a valid head") from error
        if not (
            head.first <= head.start == self._at < head.stop <= self._stop
            and head.stop <= head.first + head.count
        ):
            raise RemoteProtocolError(
                f"the collector sent the events {head.start} to {head.stop} of a batch from "
                f"{head.first} with {head.count}, instead of those from {self._at} on"
            )
        return StoredBatch(
            first=head.first,
            count=head.count,
            start=head.start,
            stop=head.stop,
            data=payload.data,
            encoding=head.encoding,
            facts=head.facts,
            stored_at=head.stored_at,
        )

    async def _end_piece(self) -> None:
        opened, self._opened, self._piece = self._opened, None, None
        if opened is not None:
            await opened.__aexit__(None, None, None)

    async def _close(self) -> None:
        """End the stream that is open; leaving its block is no checkpoint."""
        await self._end_piece()
