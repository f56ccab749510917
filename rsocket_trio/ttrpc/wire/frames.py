"""The frames of ttrpc: ten bytes of header, then the body.

PROTOCOL.md, "Message Frame": the length of the body and the stream ID are big-endian numbers of
four bytes; the message type and the flags are one byte each. The length does not count the header.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from rsocket_trio.errors import LocalProtocolError, MalformedFrame

__all__ = [
    "HEADER",
    "HEADER_SIZE",
    "MAX_BODY",
    "NO_DATA",
    "REMOTE_CLOSED",
    "REMOTE_OPEN",
    "MessageType",
    "encode_frame",
    "split",
]

HEADER: Final = struct.Struct(">IIBB")
"""Length of the body, stream ID, message type, flags."""

HEADER_SIZE: Final = HEADER.size

MAX_BODY: Final = 4 * 2**20
"""The longest body, in bytes (PROTOCOL.md, "Message Frame": 4MB). A body of just this size is
legal: implementations in Go refuse only what is larger."""

REMOTE_CLOSED: Final = 0x01
"""Flag of REQUEST and DATA: the sender sends no more data on this stream."""

REMOTE_OPEN: Final = 0x02
"""Flag of REQUEST: the sender will send data on this stream."""

NO_DATA: Final = 0x04
"""Flag of DATA: this is no message. Without it, an empty body is a message with default values."""


class MessageType(IntEnum):
    """The types of PROTOCOL.md, "Message Types". A peer may send any number from 0 to 255."""

    REQUEST = 1
    RESPONSE = 2
    DATA = 3


_pack: Final = HEADER.pack
_unpack: Final = HEADER.unpack_from


def encode_frame(stream_id: int, message_type: int, flags: int, body: bytes) -> bytes:
    """Return a whole frame.

    Args:
        stream_id: From 0 to 2**32 - 1; streams that a client begins have odd ones.
        message_type: A `MessageType`.
        flags: What the flags mean depends on the type.
        body: At most `MAX_BODY` bytes.

    Raises:
        LocalProtocolError: The body is too long, or a number does not fit into the header.
    """
    size = len(body)
    if size > MAX_BODY:
        raise LocalProtocolError(
            f"a body of {size} bytes is longer than the protocol's maximum of {MAX_BODY}"
        )
    try:
        return _pack(size, stream_id, message_type, flags) + body
    except struct.error:
        raise LocalProtocolError(
            f"stream ID {stream_id}, type {message_type} or flags {flags}: it does not fit into"
            " the header"
        ) from None


def split(frame: bytes) -> tuple[int, int, int, int, bytes]:
    """Return the parts of a frame: length, stream ID, message type, flags, body.

    Args:
        frame: As `FrameDecoder.feed` returns it. If the body was refused for its length, it is
            ``b""``, and the length is that of the header.

    Raises:
        MalformedFrame: There are fewer bytes than a header has.
    """
    if len(frame) < HEADER_SIZE:
        raise MalformedFrame(f"{len(frame)} bytes are no frame: the header alone has {HEADER_SIZE}")
    return *_unpack(frame), frame[HEADER_SIZE:]
