"""What a stream and the tasks of its trunk know together: `Branch`."""

from __future__ import annotations

from typing import Final

import trio
from trio.lowlevel import ParkingLot

from ...entrance import Home
from .writer import Piece, PieceWriter

__all__ = ["Branch"]

_SLICES: Final = 10
"""The wait for a reader is this many waits: if a handler blocks the event loop for a time, this
ends one of them, and the reader still has its chance."""


class Branch:
    """The unread bytes of a stream, and how it has ended.

    Attributes:
        connection: The number of the stream in its trunk.
        unread: The bytes that have arrived.
        piece: The piece that the stream has handed to the writer.
        closed: Whether the stream was closed here.
        failure: Why the trunk has ended this stream alone; empty if it has not.
        ended: Whether no more bytes arrive on the trunk.
        end: Why not; ``None`` is a clean end.
        home: The thread of the trunk.
    """

    def __init__(self, connection: int, writer: PieceWriter, max_unread: int) -> None:
        self.connection = connection
        self.unread = bytearray()
        self.piece: Piece | None = None
        self.closed = False
        self.failure = ""
        self.ended = False
        self.end: Exception | None = None
        self.home = Home()
        self._writer = writer
        self._max_unread = max_unread
        self._arrived = ParkingLot()  # The reader, while there is nothing to read.
        self._drained = ParkingLot()  # The trunk, while there is no room.

    @property
    def full(self) -> bool:
        """Whether the trunk has to wait for the reader."""
        return len(self.unread) >= self._max_unread

    def put(self, data: bytes) -> None:
        """Give bytes to the reader. A stream that is over drops them."""
        if not (self.closed or self.failure):
            self.unread += data
            self._arrived.unpark_all()

    def take(self, at_most: int) -> bytes:
        """Return the first unread bytes."""
        with memoryview(self.unread) as view, view[:at_most] as part:
            data = bytes(part)
        del self.unread[:at_most]
        self._drained.unpark_all()
        return data

    async def wait_for_change(self) -> None:
        """Wait until there are bytes, or an end.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        await self._arrived.park()

    async def wait_for_room(self, patience: float) -> bool:
        """Wait until the reader has taken some bytes, or is gone.

        Args:
            patience: How long to wait, in seconds.

        Returns:
            Whether it happened in time.

        Checkpoint: if there is no room.
        If cancelled: nothing changes.
        """
        for _ in range(_SLICES):
            with trio.move_on_after(patience / _SLICES):
                while self.full:
                    await self._drained.park()
                return True
        return not self.full

    def set_end(self, error: Exception | None) -> None:
        """No more bytes arrive on the trunk."""
        self.ended, self.end = True, error
        self._arrived.unpark_all()

    def close(self) -> None:
        """The user has closed the stream."""
        self.closed = True
        self._stop(trio.ClosedResourceError("this stream was closed"))

    def fail(self, why: str) -> None:
        """End this stream alone."""
        self.failure = why
        self._stop(trio.BrokenResourceError(why))

    def _stop(self, error: Exception) -> None:
        """Free the memory, and wake all who wait."""
        self.unread.clear()
        if self.piece is not None:
            self.piece.error = error
            self._writer.withdraw(self.piece)
            self.piece.over.set()
        self._arrived.unpark_all()
        self._drained.unpark_all()
        self._writer.wake_waiting()

    def check_open(self) -> None:
        """Raise the error of a stream that is closed or has failed.

        Raises:
            trio.ClosedResourceError: It was closed here.
            trio.BrokenResourceError: The trunk has ended it.
        """
        if self.closed:
            raise trio.ClosedResourceError("this stream was closed")
        if self.failure:
            raise trio.BrokenResourceError(self.failure)

    def check_sending(self) -> None:
        """Raise as `check_open`, or the error of a trunk that writes no more.

        Raises:
            trio.ClosedResourceError: It was closed here.
            trio.BrokenResourceError: The trunk is broken, or has ended it.
        """
        self.check_open()
        if self._writer.error is not None:
            raise self._writer.broken()
