"""PAYLOAD: an item, its completion, or both; and fragments of either.

Protocol.md, "PAYLOAD Frame".
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

import attrs

from rsocket_trio.config import MAX_FRAME_SIZE
from rsocket_trio.escapes import size_only
from rsocket_trio.frames.header import (
    COMPLETE,
    FLAG_BITS,
    FOLLOWS,
    HEADER,
    HEADER_SIZE,
    METADATA,
    NEXT,
    NOT_BARE_FLAGS,
    NOT_FLAGS,
    FrameType,
    bad_header,
    check_range,
    check_size,
    split_metadata,
)

__all__ = ["PayloadFrame", "decode_payload", "encode_payload"]

_TYPE: Final = FrameType.PAYLOAD.value << FLAG_BITS
_TYPE_WITH_METADATA: Final = _TYPE | METADATA
_pack_bare = HEADER.pack
_pack_with_metadata = Struct(">IHBH").pack


def encode_payload(stream_id: int, flags: int, metadata: bytes | None, data: bytes) -> bytes:
    """Encode a PAYLOAD frame, without length prefix.

    Args:
        stream_id: 0 to 2^31-1.
        flags: ``NEXT``, ``COMPLETE``, ``FOLLOWS``; M is added if there is metadata.
        metadata: ``None`` when absent; ``b""`` is present and empty.
        data: The data, or this fragment of it.

    Raises:
        LocalProtocolError: A value does not fit its field, or the frame would be longer than
            16,777,215 bytes.
    """
    # One check per field: a negative or too large id is not 0 after the shift.
    if metadata is None:
        if stream_id >> 31 or flags & NOT_BARE_FLAGS:
            raise bad_header(stream_id, flags)
        frame = _pack_bare(stream_id, _TYPE | flags) + data
    else:
        if stream_id >> 31 or flags & NOT_FLAGS:
            raise bad_header(stream_id, flags)
        length = len(metadata)
        if length > MAX_FRAME_SIZE:
            check_range("metadata length", length, MAX_FRAME_SIZE)
        head = _pack_with_metadata(
            stream_id, _TYPE_WITH_METADATA | flags, length >> 16, length & 0xFFFF
        )
        frame = b"".join((head, metadata, data))
    return frame if len(frame) <= MAX_FRAME_SIZE else check_size(frame)


@attrs.frozen
class PayloadFrame:
    """One PAYLOAD frame.

    Attributes:
        stream_id: The stream.
        next: N: the frame holds an item, or a part of one.
        complete: C: the sender's half of the stream ends here.
        follows: F: more fragments follow.
        metadata: ``None`` when absent.
        data: May be empty.
    """

    frame_type: ClassVar[FrameType] = FrameType.PAYLOAD

    stream_id: int
    next: bool = False
    complete: bool = False
    follows: bool = False
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        flags = NEXT * self.next | COMPLETE * self.complete | FOLLOWS * self.follows
        return encode_payload(self.stream_id, flags, self.metadata, self.data)


def decode_payload(frame: bytes, flags: int, stream_id: int) -> PayloadFrame:
    """Decode a PAYLOAD frame whose header was read; raises `MalformedFrame`."""
    metadata, data = split_metadata(frame, HEADER_SIZE, flags, stream_id)
    return PayloadFrame(
        stream_id,
        next=bool(flags & NEXT),
        complete=bool(flags & COMPLETE),
        follows=bool(flags & FOLLOWS),
        metadata=metadata,
        data=data,
    )
