"""Cuts a stream of bytes into frames: `FrameDecoder`."""

from __future__ import annotations

import struct
from typing import Final

from rsocket_trio.errors import RemoteProtocolError
from rsocket_trio.foreign import ENOUGH, recognise_foreign

from .frames import HEADER_SIZE, MAX_BODY

__all__ = ["FrameDecoder"]

_unpack: Final = struct.Struct(">I").unpack_from

_RESERVED: Final = 1 << 24
"""A length from here on has a first byte that is not 0."""


class FrameDecoder:
    """Cuts a stream of bytes into frames.

    It keeps at most one unfinished frame: its header and the part of its body that has arrived, at
    most ``max_body`` bytes. Of a longer body it keeps nothing. One task feeds it. The time is
    linear in the bytes fed, however they are cut.

    Args:
        max_body: The longest body, in bytes; at most `MAX_BODY`.

    Attributes:
        refused: Whether every further `feed` raises.

    Raises:
        ValueError: ``max_body`` is negative, or more than the protocol allows.
    """

    __slots__ = ("_foreign", "_head", "_max_body", "_missing", "_partial", "_surplus", "refused")

    def __init__(self, max_body: int = MAX_BODY) -> None:
        if not 0 <= max_body <= MAX_BODY:
            raise ValueError(f"max_body is {max_body}, but it must be from 0 to {MAX_BODY}")
        self._max_body: Final = max_body
        self._head = b""  # The first bytes of a header, until the tenth comes.
        self._partial = bytearray()  # The received part of a frame whose header is known.
        self._missing = 0  # The bytes of this frame that are still to come. 0: no such frame.
        self._surplus = 0  # The bytes still to come of a body that is too long.
        self._foreign = b""  # The beginning of a frame whose first byte was not 0.
        self.refused = False

    @property
    def pending(self) -> bool:
        """Whether a part of a frame has arrived; an end now is not clean."""
        return bool(self._missing or self._head or self._surplus)

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Take bytes of the stream.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            All frames that are whole now, with their headers, in order. A frame whose body is
            longer than ``max_body`` is its header alone, returned as soon as that has arrived: the
            length in the header tells. Its body is dropped as it comes, and the frames behind it
            follow.

            The first byte of a frame is reserved and has to be 0 (PROTOCOL.md, "Message Frame").
            If it is not, the header is the last one that is returned, and ``refused`` is true: a
            length that large is no mistake of a ttrpc peer, and what follows cannot be trusted.

        Raises:
            RemoteProtocolError: ``refused`` is true.
        """
        if self.refused:
            first = self._foreign
            text = (
                f"a frame begins with the byte 0x{first[0]:02x}; this byte is reserved, and must "
                "be 0"
            )
            spoken = recognise_foreign(first)
            if spoken is not None:
                text = f"the peer does not speak ttrpc, but {spoken}: {text}"
            raise RemoteProtocolError(text)
        if not isinstance(data, bytes):  # Some streams of trio give bytearrays.
            data = bytes(data)
        frames: list[bytes] = []
        end = len(data)
        position = 0
        if self._missing:
            if end < self._missing:
                self._partial += data
                self._missing -= end
                return frames
            position = self._missing
            self._partial += data[:position]
            frames.append(bytes(self._partial))
            self._partial = bytearray()
            self._missing = 0
        elif self._surplus:
            position = min(self._surplus, end)
            self._surplus -= position
            if self._surplus:
                return frames
        elif self._head:
            data = self._head + data
            end = len(data)
            self._head = b""

        maximum = self._max_body
        append = frames.append
        unpack = _unpack
        start = position + HEADER_SIZE
        while start <= end:
            (length,) = unpack(data, position)
            if length > maximum:
                append(data[position:start])
                if length >= _RESERVED:
                    self._foreign = data[position : position + ENOUGH]
                    self.refused = True
                    return frames
                position = start + length
                if position > end:
                    self._surplus = position - end
                    return frames
            else:
                stop = start + length
                if stop > end:
                    self._partial += data[position:]
                    self._missing = stop - end
                    return frames
                append(data[position:stop])
                position = stop
            start = position + HEADER_SIZE
        self._head = data[position:]
        return frames
