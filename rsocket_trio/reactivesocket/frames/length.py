"""The length before each frame on byte streams: TCP, TLS, Unix sockets.

Draft, "Framing Format": 32 bits, the first of them 0, and the length counts itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rsocket_trio.errors import LocalProtocolError, RemoteProtocolError
from rsocket_trio.frames.length import too_long

from .header import HEADER_SIZE

__all__ = ["PREFIX_SIZE", "LengthDecoder", "encode_length", "join_frames"]

PREFIX_SIZE: Final = 4
_SMALLEST: Final = PREFIX_SIZE + HEADER_SIZE
_LARGEST: Final = 0x7FFFFFFF


def encode_length(frame: bytes) -> bytes:
    """Return the four bytes to send before ``frame``.

    Raises:
        LocalProtocolError: The frame is too long for a 31-bit length.
    """
    length = PREFIX_SIZE + len(frame)
    if length > _LARGEST:
        raise LocalProtocolError(f"a frame of {len(frame)} bytes is too long for a 31-bit length")
    return length.to_bytes(PREFIX_SIZE, "big")


def join_frames(frames: Sequence[bytes]) -> bytes:
    """Return all the frames as one string of bytes, each behind its length.

    Raises:
        LocalProtocolError: A frame is too long for a 31-bit length.
    """
    return b"".join([piece for frame in frames for piece in (encode_length(frame), frame)])


class LengthDecoder:
    """Cuts a stream of bytes into frames.

    It keeps at most one unfinished frame, of at most ``max_frame_size`` bytes, and the bytes of one
    call. One task feeds it. The time is linear in the bytes fed, however they are cut.

    Args:
        max_frame_size: The longest frame, in bytes without the length; longer ones are refused.
    """

    __slots__ = ("_at_most", "_buffer", "_first_only", "_max_frame_size", "_needed", "_refused")

    def __init__(self, max_frame_size: int) -> None:
        self._max_frame_size = self._at_most = max_frame_size
        self._first_only = False
        self._buffer = bytearray()
        self._needed = PREFIX_SIZE  # With fewer bytes no frame is whole.
        self._refused: int | None = None  # The invalid length; after it, every `feed` raises.

    @property
    def refused(self) -> bool:
        """Whether every further `feed` raises."""
        return self._refused is not None

    @property
    def pending(self) -> bool:
        """Whether a part of a frame or of its length has arrived; an end now is not clean."""
        return bool(self._buffer)

    def limit_frames(self, at_most: int | None) -> None:
        """See `rsocket_trio.transports.base.FrameTransport.limit_frames`."""
        self._first_only = at_most is not None
        self._at_most = self._max_frame_size
        if at_most is not None:
            self._at_most = min(at_most, self._at_most)

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Take bytes from the stream.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            All frames that are whole now, without length, in order.

        Raises:
            RemoteProtocolError: A length is too small for a header, or too large. No byte of the
                frame is kept. Frames completed in the same call are returned first; then the next
                call raises, even without bytes, and every later call too.
        """
        if self._refused is not None:
            raise self._impossible(self._refused)
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        if len(buffer) < self._needed:
            return frames
        # A copy as bytes, of one frame and one read at most, so that its slices are bytes.
        whole = bytes(buffer)
        position, end = 0, len(whole)
        self._needed = PREFIX_SIZE
        while end - position >= PREFIX_SIZE and not (frames and self._first_only):
            start = position + PREFIX_SIZE
            length = int.from_bytes(whole[position:start], "big")
            if not _SMALLEST <= length <= PREFIX_SIZE + self._at_most:
                self._refused = length
                buffer.clear()
                if frames:
                    return frames
                raise self._impossible(length)
            if end - position < length:
                self._needed = length
                break
            frames.append(whole[start : position + length])
            position += length
        del buffer[:position]
        return frames

    def _impossible(self, length: int) -> RemoteProtocolError:
        if length < _SMALLEST:
            return RemoteProtocolError(
                f"a frame length of {length} is less than the smallest, {_SMALLEST}"
            )
        return too_long(
            "a frame",
            length - PREFIX_SIZE,
            at_most=self._at_most,
            max_frame_size=self._max_frame_size,
        )
