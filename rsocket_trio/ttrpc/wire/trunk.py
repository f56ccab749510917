"""Several streams in one, without I/O: the header of containerd's NRI, and how bytes are cut.

NRI (Node Resource Interface) runs two connections of ttrpc over one socket. Each piece of a
connection has a header of eight bytes in front: the number of the connection and the length of the
piece, big-endian. There is no other message: nothing opens, closes or acknowledges.
"""

from __future__ import annotations

import struct
from typing import Final

from rsocket_trio.errors import RemoteProtocolError

from .frames import HEADER_SIZE, MAX_BODY

__all__ = [
    "MAX_PIECE",
    "TRUNK_HEADER",
    "PieceLengths",
    "TrunkDecoder",
    "encode_piece",
]

TRUNK_HEADER: Final = struct.Struct(">II")
"""The number of the connection, and the length of the piece that follows."""

MAX_PIECE: Final = HEADER_SIZE + MAX_BODY
"""The longest piece, in bytes: one frame of ttrpc. Without it a header could announce 4 GiB."""

_SMALL: Final = 4096
"""The longest piece that a peer in Go can always read, in bytes. See `PieceLengths`."""

_LARGE: Final = 64 * 2**10
"""The longest piece that we send, in bytes, so that the streams of a trunk take turns. A peer in Go
holds 256 unread pieces of a stream, and ends the trunk at the next one: so pieces are not made
smaller than this without need."""

_unpack: Final = TRUNK_HEADER.unpack_from


def encode_piece(connection: int, payload: bytes | bytearray | memoryview) -> bytes:
    """Return a piece with its header.

    Args:
        connection: From 1 to 2**32 - 1.
        payload: At most `MAX_PIECE` bytes.
    """
    return b"".join((TRUNK_HEADER.pack(connection, len(payload)), payload))


class TrunkDecoder:
    """Takes the pieces of the streams out of the bytes of a trunk.

    A piece is handed out as its bytes come, so nothing is kept but a part of a header.

    Attributes:
        refusal: The peer has broken the rules: a piece is too long. Nothing can be read behind it,
            because it is not known where the next header is.
    """

    __slots__ = ("_connection", "_head", "_missing", "refusal")

    def __init__(self) -> None:
        self._head = b""  # The first bytes of a header, until the eighth comes.
        self._connection = 0
        self._missing = 0  # The bytes of a piece that are still to come.
        self.refusal: RemoteProtocolError | None = None

    @property
    def pending(self) -> bool:
        """Whether a part of a piece or of its header has arrived; an end now is not clean."""
        return bool(self._missing or self._head)

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Take bytes of the trunk.

        Args:
            data: Any number of bytes, cut anywhere.

        Returns:
            Connections and bytes for them, in order; none are empty. Behind a piece that is too
            long there are none; look at `refusal`.
        """
        if self._head:
            data = self._head + data
            self._head = b""
        pieces: list[tuple[int, bytes]] = []
        position, end = 0, len(data)
        missing, connection = self._missing, self._connection
        while position < end and self.refusal is None:
            if missing:
                piece = data[position : position + missing]
                pieces.append((connection, piece))
                position += len(piece)
                missing -= len(piece)
            elif end - position < TRUNK_HEADER.size:
                self._head = data[position:]
                break
            else:
                connection, missing = _unpack(data, position)
                position += TRUNK_HEADER.size
                if missing > MAX_PIECE:
                    self.refusal = RemoteProtocolError(
                        f"a piece of {missing} bytes on connection {connection} of a trunk is "
                        f"longer than the limit of {MAX_PIECE}"
                    )
        self._missing, self._connection = missing, connection
        return pieces


class PieceLengths:
    """Says how long the next piece of a stream may be, so that every peer can read it.

    To us the division means nothing. But the multiplexer of NRI in Go hands out a piece as a whole:
    a read with a smaller buffer fails, and the connection ends. The reader of ttrpc in Go asks for
    4096 bytes, or for the rest of a frame's body if that is more. So a piece has at most 4096
    bytes, or lies in the rest of a body. This follows the frames in the bytes that are sent.
    """

    __slots__ = ("_body", "_head")

    def __init__(self) -> None:
        self._head = b""  # The first bytes of a frame's header, until the tenth comes.
        self._body = 0  # The bytes of its body that are still to be sent.

    def next(self) -> int:
        """Return the most bytes that the next piece may have."""
        return _SMALL if self._body < _SMALL else min(self._body, _LARGE)

    def sent(self, piece: bytes | bytearray | memoryview) -> None:
        """Follow the frames of a piece that is being sent."""
        position, end = 0, len(piece)
        while position < end:
            if self._body:
                step = min(self._body, end - position)
                self._body -= step
                position += step
            else:
                step = HEADER_SIZE - len(self._head)
                self._head += bytes(piece[position : position + step])
                position += step
                if len(self._head) == HEADER_SIZE:
                    self._body = int.from_bytes(self._head[:4])
                    self._head = b""
