"""The length prefix of frames on byte streams: TCP, TLS, Unix sockets.

Protocol.md, "Framing Format": 24 bits, big endian. The length does not count its own bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from rsocket_trio.config import MAX_FRAME_SIZE
from rsocket_trio.errors import FrameTooLong, LocalProtocolError

__all__ = ["PREFIX_SIZE", "LengthPrefixDecoder", "encode_length", "join_frames", "too_long"]

PREFIX_SIZE: Final = 3
_SHOWN: Final = 64
"""The octets of a frame in `LengthPrefixDecoder.unfinished`."""
_unpack: Final = struct.Struct(">HB").unpack_from


def too_long(what: str, size: int, *, at_most: int, max_frame_size: int) -> FrameTooLong:
    """Return the error for a frame of the peer, on any transport.

    Args:
        what: What it is there, e.g. ``"a frame"``.
        size: Its length in bytes.
        at_most: The longest one now, by `rsocket_trio.transports.base.FrameTransport.limit_frames`.
        max_frame_size: The longest one of a peer that is accepted.
    """
    limit, setting = max_frame_size, "max_frame_size"
    if size <= limit:
        limit, setting = at_most, "of a peer that is not accepted yet"
    text = f"{what} of {size} bytes is longer than the limit of {limit} ({setting})"
    return FrameTooLong(text, size=size, limit=limit)


def encode_length(frame: bytes) -> bytes:
    """Return the three bytes to send before ``frame``.

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
"""The prefixes of most frames: looking one up takes a fifth of the time of making one."""


def join_frames(frames: Sequence[bytes]) -> bytes:
    """Return all the frames as one string of bytes, each behind its length.

    Raises:
        LocalProtocolError: A frame is longer than 16,777,215 bytes.
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

    It keeps at most one unfinished frame, of at most ``max_frame_size`` bytes. One task feeds it.
    The time is linear in the bytes fed, however they are cut.

    Args:
        max_frame_size: The longest frame, in bytes without the prefix; longer ones are refused.

    Attributes:
        refused: Whether every further `feed` raises.
    """

    __slots__ = (
        "_at_most",
        "_body",
        "_first",
        "_max_frame_size",
        "_missing",
        "_prefix",
        "_too_long",
        "refused",
    )

    def __init__(self, max_frame_size: int) -> None:
        self._max_frame_size = self._at_most = max_frame_size
        self._first: _FirstFrame | None = None
        self._prefix = b""  # The first one or two bytes of a length, until the third comes.
        self._body = bytearray()  # The received part of a frame whose length is known.
        self._missing = 0  # The bytes of this frame that are still to come. 0: no such frame.
        self._too_long = 0  # The invalid length; after it, every `feed` raises.
        self.refused = False

    @property
    def pending(self) -> bool:
        """Whether a part of a frame or of its length has arrived; an end now is not clean."""
        return bool(self._missing or self._prefix or (self._first and self._first.received))

    @property
    def unfinished(self) -> bytes:
        """The beginning of the frame that is not whole, with its length; some octets of it."""
        if self._first is not None:
            return bytes(self._first.received[: PREFIX_SIZE + _SHOWN])
        if not self._missing:
            return self._prefix
        size = len(self._body) + self._missing
        return size.to_bytes(PREFIX_SIZE, "big") + self._body[:_SHOWN]

    def limit_frames(self, at_most: int | None) -> None:
        """See `rsocket_trio.transports.base.FrameTransport.limit_frames`."""
        first, self._first = self._first, None
        if first is not None:
            self._prefix = bytes(first.received)  # what came behind the first frame
        self._at_most = self._max_frame_size
        if at_most is not None:
            self._at_most = min(at_most, self._at_most)
            self._first = _FirstFrame()
            self._first.received += self._prefix
            self._prefix = b""

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Take bytes from the stream.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            All frames that are whole now, without prefix, in order.

        Raises:
            FrameTooLong: A length is greater than ``max_frame_size``. This is raised as soon as
                its three bytes have arrived, and no byte of the frame is kept. Frames completed in
                the same call are returned first; then the next call raises, even without bytes,
                and every later call too.
        """
        if self.refused:
            raise self._refusal()
        if self._first is not None:
            return self._feed_first(self._first, data)
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

    def _feed_first(self, first: _FirstFrame, data: bytes | bytearray) -> list[bytes]:
        """Return the first frame once it is whole, and cut nothing behind it."""
        received = first.received
        received += data
        if first.whole or len(received) < PREFIX_SIZE:
            return []
        size = int.from_bytes(received[:PREFIX_SIZE], "big")
        if size > self._at_most:
            self._too_long = size
            self.refused = True
            del received[PREFIX_SIZE + _SHOWN :]  # it may show which protocol the peer speaks
            raise self._refusal()
        if len(received) < PREFIX_SIZE + size:
            return []
        first.whole = True
        frame = bytes(received[PREFIX_SIZE : PREFIX_SIZE + size])
        del received[: PREFIX_SIZE + size]
        return [frame]

    def _refusal(self) -> FrameTooLong:
        return too_long(
            "a frame", self._too_long, at_most=self._at_most, max_frame_size=self._max_frame_size
        )


class _FirstFrame:
    """The frame of a peer that is not accepted yet, and what came behind it.

    Attributes:
        received: What has come and was not returned: the frame, or at most one read behind it.
        whole: Whether the frame was returned.
    """

    __slots__ = ("received", "whole")

    def __init__(self) -> None:
        self.received = bytearray()
        self.whole = False
