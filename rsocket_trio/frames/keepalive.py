"""KEEPALIVE: a sign of life, and the position up to which frames were received.

Protocol.md, "KEEPALIVE Frame".
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

import attrs

from rsocket_trio.frames.header import (
    FLAG_BITS,
    HEADER_SIZE,
    MAX_U31,
    MAX_U63,
    RESPOND,
    FrameType,
    check_range,
    check_size,
    read_number,
)

__all__ = ["KeepaliveFrame", "decode_keepalive", "encode_keepalive"]

_TYPE: Final = FrameType.KEEPALIVE.value << FLAG_BITS
_POSITION_END: Final = HEADER_SIZE + 8
_pack = Struct(">IHQ").pack


def encode_keepalive(respond: bool, position: int, data: bytes) -> bytes:
    """Encode a KEEPALIVE frame on stream 0, without length prefix.

    Args:
        respond: R: the peer must answer.
        position: How many bytes of tracked frames we have received; 0 without resumption.
        data: The peer's answer repeats it.

    Raises:
        LocalProtocolError: ``position`` is not 0 to 2^63-1, or the frame would be longer than
            16,777,215 bytes.
    """
    return KeepaliveFrame(respond, position, data).encode()


@attrs.frozen
class KeepaliveFrame:
    """One KEEPALIVE frame; fields as in `encode_keepalive`.

    Attributes:
        stream_id: 0 in a legal frame.
    """

    frame_type: ClassVar[FrameType] = FrameType.KEEPALIVE

    respond: bool
    position: int = 0
    data: bytes = b""
    stream_id: int = 0

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_range("stream id", self.stream_id, MAX_U31)
        check_range("last received position", self.position, MAX_U63)
        head = _pack(self.stream_id, _TYPE | RESPOND * self.respond, self.position)
        return check_size(head + self.data)


def decode_keepalive(frame: bytes, flags: int, stream_id: int) -> KeepaliveFrame:
    """Decode a KEEPALIVE frame whose header was read; raises `MalformedFrame`."""
    position = read_number(frame, 8, "last received position", flags, stream_id)
    return KeepaliveFrame(bool(flags & RESPOND), position, frame[_POSITION_END:], stream_id)
