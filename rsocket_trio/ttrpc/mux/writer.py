"""The task that writes the pieces of all streams of a trunk: `PieceWriter`."""

from __future__ import annotations

from collections import deque

import trio
from trio.lowlevel import ParkingLot

from ...sockets.failures import describe_failure

__all__ = ["Piece", "PieceWriter"]


class Piece:
    """A piece that waits for the writing task, or is being written.

    Attributes:
        data: The piece with its header.
        begun: Whether its writing has begun, so that it will be written as a whole.
        over: Set when it is written or will not be.
        error: Why it was not written; ``None`` if it was.
    """

    __slots__ = ("begun", "data", "error", "over")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.begun = False
        self.over = trio.Event()
        self.error: Exception | None = None

    def end(self, error: Exception | None) -> None:
        """Wake the sender, which raises the error."""
        if not self.over.is_set():
            self.error = error
            self.over.set()


class PieceWriter:
    """Writes pieces in the order of their coming. There is at most one of each stream.

    Args:
        stream: Where to write.

    Attributes:
        writing: Whether a piece is being written.
        error: Why nothing more can be written; ``None`` if it can.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.writing = False
        self.error: Exception | None = None
        self._stream = stream
        self._pieces: deque[Piece] = deque()
        self._closing = False
        self._work = ParkingLot()  # The writing task, while there is nothing to do.
        self._idle = ParkingLot()  # Tasks that wait until nothing is being written.

    async def run(self) -> None:
        """Write until the stream breaks; or until `close`, and close the stream then.

        Checkpoint: unless the stream is broken already.
        If cancelled: a piece may have been written in part.
        """
        while self.error is None:
            if self._pieces:
                await self._write(self._pieces.popleft())
            elif self._closing:
                await trio.aclose_forcefully(self._stream)
                return
            else:
                await self._work.park()

    async def _write(self, piece: Piece) -> None:
        piece.begun = self.writing = True
        try:
            await self._stream.send_all(piece.data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.stop(error)
            piece.end(self.broken())
        else:
            piece.end(None)
        self.writing = False
        self.wake_waiting()

    def hand_over(self, piece: Piece) -> None:
        """Have a piece written."""
        self._pieces.append(piece)
        self._work.unpark_all()

    def withdraw(self, piece: Piece) -> None:
        """Do not write a piece, unless its writing has begun."""
        if not (piece.begun or piece.over.is_set()):
            self._pieces.remove(piece)
            piece.over.set()

    async def wait_idle_or_changed(self) -> None:
        """Wait until a piece was written, or `wake_waiting` is called.

        Checkpoint: always.
        If cancelled: nothing changes.
        """
        await self._idle.park()

    def wake_waiting(self) -> None:
        """End all calls of `wait_idle_or_changed`."""
        self._idle.unpark_all()

    def close(self) -> None:
        """Write what has been handed over, then close the stream."""
        self._closing = True
        self._work.unpark_all()

    def stop(self, error: Exception) -> None:
        """Write nothing more."""
        if self.error is None:
            self.error = error
        while self._pieces:
            self._pieces.popleft().end(self.broken())
        self._work.unpark_all()
        self.wake_waiting()

    def broken(self) -> trio.BrokenResourceError:
        """Return the error for a sender."""
        assert self.error is not None
        broken = trio.BrokenResourceError(f"the trunk is broken: {describe_failure(self.error)}")
        broken.__cause__ = self.error
        return broken
