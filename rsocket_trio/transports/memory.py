"""A pair of connected transports in one process: `memory_transport_pair`. For tests."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import final

import trio

from ..sealed import Sealed, make
from .base import FrameTransport, TransportInfo

__all__ = ["MemoryTransport", "memory_transport_pair"]


class _Pipe:
    """One direction: a queue of frames, limited in bytes, with one writer and one reader."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.frames: deque[bytes] = deque()
        self.size = 0
        self.writer_closed = False
        self.reader_closed = False
        self.changed = trio.lowlevel.ParkingLot()

    def put(self, frame: bytes) -> None:
        self.frames.append(frame)
        # Three bytes for the length, as on a byte stream, so that empty frames are limited too.
        self.size += len(frame) + 3
        self.changed.unpark_all()

    def take_all(self) -> list[bytes]:
        frames = list(self.frames)
        self.frames.clear()
        self.size = 0
        self.changed.unpark_all()
        return frames


@final
class MemoryTransport(FrameTransport, metaclass=Sealed, given="memory_transport_pair gives two"):
    """One end of a pair; see `memory_transport_pair`."""

    def __init__(self, outgoing: _Pipe, incoming: _Pipe) -> None:
        self.info = TransportInfo(scheme="memory")
        self._outgoing = outgoing
        self._incoming = incoming

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """See `FrameTransport.send_frames`: waits while the other end has too much to read.

        Raises:
            trio.BrokenResourceError: The other end is closed.
            trio.ClosedResourceError: This end is closed.

        Checkpoint: always.
        If cancelled: some of the first frames may have been sent, each as a whole.
        """
        await trio.lowlevel.checkpoint()
        pipe = self._outgoing
        for frame in frames:
            while pipe.size >= pipe.max_bytes and not (pipe.writer_closed or pipe.reader_closed):
                await pipe.changed.park()
            self._check_sendable()
            pipe.put(bytes(frame))
        self._check_sendable()

    def _check_sendable(self) -> None:
        if self._outgoing.writer_closed:
            raise trio.ClosedResourceError("this transport is closed")
        if self._outgoing.reader_closed:
            raise trio.BrokenResourceError("the other end is closed")

    async def receive_frames(self) -> list[bytes]:
        """See `FrameTransport.receive_frames`: all the queued frames.

        Raises:
            trio.ClosedResourceError: This end is closed.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """
        await trio.lowlevel.checkpoint()
        pipe = self._incoming
        while not (pipe.frames or pipe.writer_closed or pipe.reader_closed):
            await pipe.changed.park()
        if pipe.reader_closed:
            raise trio.ClosedResourceError("this transport is closed")
        return pipe.take_all()

    async def close_sending(self) -> bool:
        """See `FrameTransport.close_sending`.

        Checkpoint: always.
        If cancelled: the peer was told nevertheless.
        """
        self._outgoing.writer_closed = True
        self._outgoing.changed.unpark_all()
        await trio.lowlevel.checkpoint()
        return True

    def close(self) -> None:
        """Close, synchronously. The other end can still receive the frames that were sent."""
        self._outgoing.writer_closed = True
        self._incoming.reader_closed = True
        self._incoming.take_all()
        self._outgoing.changed.unpark_all()

    async def aclose(self) -> None:
        """Close. The other end can still receive the frames that were sent.

        Checkpoint: always.
        If cancelled: closed nevertheless.
        """
        self.close()
        await trio.lowlevel.checkpoint()


def memory_transport_pair(
    *, max_bytes: int = 256 * 2**10
) -> tuple[MemoryTransport, MemoryTransport]:
    """Make two transports: each receives the frames that the other one sends.

    Args:
        max_bytes: The sender waits for the reader while a direction holds this many bytes or more.
    """
    if max_bytes < 1:
        raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
    there, back = _Pipe(max_bytes), _Pipe(max_bytes)
    return make(MemoryTransport, there, back), make(MemoryTransport, back, there)
