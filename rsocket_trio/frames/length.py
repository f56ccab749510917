"""The length prefix of frames on byte streams: TCP, TLS, Unix sockets.

Protocol.md, "Framing Format": 24 bits, big endian, not counting themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from rsocket_trio.config import MAX_FRAME_SIZE
from rsocket_trio.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["PREFIX_SIZE", "LengthPrefixDecoder", "encode_length", "join_frames"]

PREFIX_SIZE: Final = 3
_unpack: Final = struct.Struct(">HB").unpack_from


def encode_length(frame: bytes) -> bytes:
    """The three bytes to send before ``frame``.

    Raises:
        LocalProtocolError: The frame is longer than 16,777,215 bytes.
    """
    try:
        return len(frame).to_bytes(PREFIX_SIZE, "big")
    except OverflowError:
        raise LocalProtocolError(
            f"a frame of {len(frame)} bytes is longer than the protocol's maximum of"
            f" {MAX_FRAME_SIZE}"
        ) from None


_SHORT: Final = tuple(length.to_bytes(PREFIX_SIZE, "big") for length in range(1024))
"""The prefixes of most frames: to look one up costs a fifth of making it."""


def join_frames(frames: Sequence[bytes]) -> bytes:
    """All the frames, each behind its length.

    Raises:
        LocalProtocolError: One is longer than 16,777,215 bytes.
    """
    short = len(_SHORT)
    if len(frames) == 1 and len(frames[0]) < short:
        return _SHORT[len(frames[0])] + frames[0]
    pieces: list[bytes] = []
    for frame in frames:
        size = len(frame)
        pieces.append(_SHORT[size] if size < short else encode_length(frame))
        pieces.append(frame)
    return b"".join(pieces)


class LengthPrefixDecoder:
    """Cuts a stream of bytes into frames.

    Holds at most one unfinished frame, of at most ``max_frame_size`` bytes. One task feeds it.
    Time is linear in the bytes fed, however they are cut.

    Args:
        max_frame_size: Longer frames are refused, in bytes without the prefix.

    Attributes:
        refused: Whether every further `feed` raises.
    """

    __slots__ = ("_body", "_max_frame_size", "_missing", "_prefix", "_too_long", "refused")

    def __init__(self, max_frame_size: int) -> None:
        self._max_frame_size = max_frame_size
        self._prefix = b""  # Up to two bytes of a length, while the third has not come.
        self._body = bytearray()  # What has come of a frame whose length is known...
        self._missing = 0  # ...and how much has not. 0: no such frame.
        self._too_long = 0  # The length that ended it all.
        self.refused = False

    @property
    def pending(self) -> bool:
        """Whether a frame, or its length, is half received, so that an end now is no clean end."""
        return bool(self._missing or self._prefix)

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Take what the stream brought.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            All frames that are whole now, without prefix, in order.

        Raises:
            RemoteProtocolError: A length was greater than ``max_frame_size``. Raised as soon as
                its three bytes are there and before anything of the frame is kept; but frames
                completed in the same call are returned first, and the next call raises, even
                with no bytes. So does every call after it.
        """
        if self.refused:
            raise self._refusal()
        if not isinstance(data, bytes):  # Some streams of trio give bytearrays.
            data = bytes(data)
        frames: list[bytes] = []
        end = len(data)
        position = 0
        if self._missing:
            if end < self._missing:
                self._body += data
                self._missing -= end
                return frames
            position = self._missing
            self._body += data[:position]
            frames.append(bytes(self._body))
            self._body = bytearray()
            self._missing = 0
        elif self._prefix:
            data = self._prefix + data
            end = len(data)
            self._prefix = b""

        maximum = self._max_frame_size
        append = frames.append
        unpack = _unpack
        start = position + PREFIX_SIZE
        while start <= end:
            high, low = unpack(data, position)
            length = high << 8 | low
            if length > maximum:
                self._too_long = length
                self.refused = True
                if frames:
                    return frames
                raise self._refusal()
            position = start + length
            if position > end:
                self._body += data[start:]
                self._missing = position - end
                return frames
            append(data[start:position])
            start = position + PREFIX_SIZE
        self._prefix = data[position:]
        return frames

    def _refusal(self) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"a frame of {self._too_long} bytes is longer than the limit of {self._max_frame_size}"
            " (max_frame_size)"
        )
