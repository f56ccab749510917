"""Frames over any byte stream: `ByteStreamTransport`. TCP, TLS and Unix sockets are that.

Protocol.md, "Framing Protocol Usage" and "Framing Format": each frame follows its length, an
unsigned 24-bit number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from ..config import MAX_FRAME_SIZE
from ..errors import RemoteProtocolError
from ..frames.length import LengthPrefixDecoder, encode_length
from .base import FrameTransport, TransportInfo
from .direct import DirectStream

__all__ = ["RECEIVE_SIZE", "ByteStreamTransport", "FrameDecoder"]

RECEIVE_SIZE: Final = 64 * 2**10
"""How much one read may bring, in bytes: enough for thousands of small frames in one go."""


class FrameDecoder(Protocol):
    """Cuts a stream of bytes into frames, as `rsocket_trio.frames.LengthPrefixDecoder` does."""

    @property
    def pending(self) -> bool:
        """Whether a frame, or its length, is half received."""

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Take bytes, return the frames that are whole now."""


class ByteStreamTransport(FrameTransport):
    """Carries frames over a `trio.abc.Stream` of yours or of `open_transport`.

    It owns the stream: closing the one closes the other.

    Args:
        stream: What carries the bytes.
        info: Facts for acceptors and logs.
        max_frame_size: The peer's frames may be this long, in bytes.
        decoder: For another protocol whose frames have another length before them.
        encode_length: Likewise: the length of a frame to send.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        info: TransportInfo,
        max_frame_size: int = MAX_FRAME_SIZE,
        decoder: FrameDecoder | None = None,
        encode_length: Callable[[bytes], bytes] = encode_length,
    ) -> None:
        self.info = info
        self.stream = stream
        self.immediate = isinstance(stream, DirectStream)
        self._decoder = LengthPrefixDecoder(max_frame_size) if decoder is None else decoder
        self._encode_length = encode_length
        self._pushed = b""
        self._ended = False
        self._closed = False

    async def send_frames(self, frames: Sequence[bytes]) -> None:
        """See `FrameTransport.send_frames`: one write, however many frames.

        Raises:
            LocalProtocolError: A frame is longer than 24 bits can say; nothing was sent.
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: as the stream's ``send_all``; a cancellation point always.
        If cancelled: frames may have been sent in part; the transport is good only for closing.
        """
        await self.stream.send_all(self._encode(frames))

    def send_frames_nowait(self, frames: Sequence[bytes]) -> bool:
        """See `FrameTransport.send_frames_nowait`: one write."""
        assert isinstance(self.stream, DirectStream)
        return self.stream.send_nowait(self._encode(frames))

    def _encode(self, frames: Sequence[bytes]) -> bytes:
        if self._closed:
            raise trio.ClosedResourceError("this transport is closed")
        pieces: list[bytes] = []
        encode_length = self._encode_length
        for frame in frames:
            pieces.append(encode_length(frame))
            pieces.append(frame)
        return b"".join(pieces)

    def push_back(self, data: bytes) -> None:
        """Let `receive_frames` find bytes that have been read from the stream already."""
        self._pushed += data

    async def receive_frames(self) -> list[bytes]:
        """See `FrameTransport.receive_frames`: all the frames that one read completes.

        Raises:
            RemoteProtocolError: A frame is too long. Frames before it are returned first.
            trio.BrokenResourceError: The connection broke, or ended inside a frame.
            trio.ClosedResourceError: This transport was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost; call again.
        """
        if self._closed:
            raise trio.ClosedResourceError("this transport is closed")
        decoder = self._decoder
        try:
            # A frame that is too long may have come right behind those returned last time.
            pushed, self._pushed = self._pushed, b""
            frames = decoder.feed(pushed)
        except RemoteProtocolError:
            await trio.lowlevel.checkpoint()
            raise
        if frames:
            await trio.lowlevel.checkpoint()
            return frames
        if self._ended:
            await trio.lowlevel.checkpoint()
        while not self._ended:
            data = await self.stream.receive_some(RECEIVE_SIZE)
            if frames := decoder.feed(data):
                return frames
            self._ended = not data
        if decoder.pending:
            raise trio.BrokenResourceError("the connection ended inside a frame")
        return []

    async def close_sending(self) -> bool:
        """See `FrameTransport.close_sending`.

        Checkpoint: always, where the stream can do it.
        If cancelled: it may or may not have been said; close the transport.
        """
        if self._closed or not isinstance(self.stream, trio.abc.HalfCloseableStream):
            return False
        await self.stream.send_eof()
        return True

    async def aclose(self) -> None:
        """Close the stream. What was sent still arrives; what was not read is lost.

        Checkpoint: always.
        If cancelled: closed all the same, forcefully.
        """
        self._closed = True
        await self.stream.aclose()
