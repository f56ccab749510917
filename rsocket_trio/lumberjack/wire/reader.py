"""`BatchReader`: the receiving end of a connection, without I/O: bytes in, batches out."""

from __future__ import annotations

from enum import Enum
from typing import Final

from rsocket_trio.errors import RemoteProtocolError, fresh_copy

from .batches import BatchBuilder, IncomingBatch
from .decoder import STEP, FrameDecoder
from .limits import DEFAULT_LUMBERJACK_LIMITS, LumberjackLimits

__all__ = ["BatchReader", "ReaderState"]


class ReaderState(Enum):
    """What a `BatchReader` waits for. It decides which deadline applies."""

    BETWEEN = "between batches"
    """All that has arrived is delivered. The peer may be silent."""

    UNFLUSHED = "events wait"
    """Whole events wait, but no W frame announced more. If the peer is silent, call `flush`."""

    INSIDE = "inside a batch"
    """A frame or an announced window is not complete. The peer must go on."""


class BatchReader:
    """Turns the bytes of a connection into batches.

    Versions 1 and 2 may alternate, batch by batch. The time is linear in the number of bytes,
    however they are cut. The reader keeps one incomplete frame and one incomplete batch, within the
    limits. One task feeds it.

    Args:
        limits: The limits for this peer.

    Attributes:
        received: How many bytes have been fed. Progress inside a batch shows here.
    """

    __slots__ = ("_builder", "_decoder", "_position", "_refusal", "_waiting", "received")

    def __init__(self, limits: LumberjackLimits = DEFAULT_LUMBERJACK_LIMITS) -> None:
        self._builder: Final = BatchBuilder(limits)
        self._decoder: Final = FrameDecoder(limits, self._builder)
        self._refusal: RemoteProtocolError | None = None
        self._waiting = b""  # Bytes that are not decoded yet begin in it at this position.
        self._position = 0
        self.received = 0

    @property
    def refused(self) -> bool:
        """Whether the peer broke the protocol, so that every further `feed` raises."""
        return self._refusal is not None

    @property
    def more(self) -> bool:
        """Whether bytes wait to be decoded. Call ``feed(b"")`` after you have used the batches."""
        return bool(self._waiting) or self._decoder.opened

    @property
    def work(self) -> int:
        """How much work the last `feed` was, in bytes that are inflated, of a nanosecond each."""
        return self._decoder.work

    @property
    def held(self) -> int:
        """The memory of what has arrived and is not delivered, in bytes."""
        return self._builder.held + self._decoder.held + len(self._waiting)

    @property
    def state(self) -> ReaderState:
        """What the reader waits for."""
        if self._builder.waits or self._decoder.partial or self._waiting:
            return ReaderState.INSIDE
        return ReaderState.UNFLUSHED if self._builder.flushable else ReaderState.BETWEEN

    @property
    def flushable(self) -> bool:
        """Whether `flush` would return a batch."""
        return self._builder.flushable and not self._decoder.opened

    def feed(self, data: bytes | bytearray, step: int = STEP) -> list[IncomingBatch]:
        """Take bytes of the connection.

        Args:
            data: Any number of bytes, cut anywhere.
            step: The `work` after which this call returns, by default 1 MiB. It may be exceeded by
                as much, and by 64 KiB and a frame.

        Returns:
            The batches that are complete now, in order. A batch without events only asks for its
            ACK. These are all, unless the bytes are much work, as compressed frames can be: after
            some milliseconds this call returns, `more` is true, and the next call goes on. So call
            it until `more` is false, before you read from the connection again.

        Raises:
            RemoteProtocolError: The peer broke the protocol or went past a limit: close the
                connection. The batches that were complete before are returned first. Then `refused`
                is true, and the next call raises, even without bytes, and every later call too.
        """
        if self._refusal is not None:
            raise fresh_copy(self._refusal)
        self.received += len(data)
        if not isinstance(data, bytes):
            data = bytes(data)
        position = 0
        if self._waiting:
            if data:
                data = self._waiting[self._position :] + data
            else:
                data, position = self._waiting, self._position
            self._waiting = b""
        try:
            position = self._decoder.feed(data, position, step)
        except RemoteProtocolError as error:
            self._refusal = fresh_copy(error)
            self.drop()
            done = self._builder.take()
            if not done:
                raise
            return done
        if position < len(data):
            self._waiting = data
            self._position = position
        return self._builder.take()

    def drop(self) -> None:
        """Forget what has arrived and is not delivered, as the connection is over."""
        self._waiting = b""
        self._builder.drop()
        self._decoder.drop()

    def flush(self) -> IncomingBatch | None:
        """Return the events that wait in a window that no W frame announced, or ``None``.

        Call it when the connection is idle or has ended. Some clients announce one window for a
        whole connection; without this call the last of their events would wait without end.
        The events of an announced window are not returned: the peer owes the rest of them.
        """
        if not self.flushable:
            return None
        self._builder.finish()
        return self._builder.take()[0]
