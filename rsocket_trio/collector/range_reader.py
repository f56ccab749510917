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
from .refusals import has_stalled, refused

__all__ = ["OpenPiece", "RangeReader"]

_read_head = DEFAULT_CODECS.decoder(BatchHead, MIME.CBOR)

OpenPiece = Callable[[int, int], AbstractAsyncContextManager[PayloadStream]]
"""Asks for the first batches of a range."""


@final
class RangeReader(metaclass=Sealed, given="CollectorClient.read gives one"):
    """An iterator over the batches of a range, for one task at a time.

    It asks for the range in pieces of some megabytes. So the bytes that wait here are bounded,
    although the demand of a stream counts batches, and batches may be small or large.
    """

    def __init__(self, open_piece: OpenPiece, start: int, stop: int) -> None:
        self._open_piece = open_piece
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
                    raise refused(error) from None
            else:
                batch = self._batch(payload)
                self._at = batch.stop
                return batch
        await trio.lowlevel.checkpoint()
        raise StopAsyncIteration

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
