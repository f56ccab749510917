"""METADATA_PUSH: metadata for the connection as a whole.

Protocol.md, "METADATA_PUSH Frame". The metadata has no length: it is the rest of the frame.
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from rsocket_trio.escapes import size_only
from rsocket_trio.frames.header import (
    FLAG_BITS,
    HEADER,
    HEADER_SIZE,
    MAX_U31,
    METADATA,
    FrameType,
    check_range,
    check_size,
)

__all__ = ["MetadataPushFrame", "decode_metadata_push", "encode_metadata_push"]

_BITS: Final = FrameType.METADATA_PUSH.value << FLAG_BITS | METADATA


def encode_metadata_push(metadata: bytes) -> bytes:
    """Encode a METADATA_PUSH frame on stream 0, without length prefix.

    Raises:
        LocalProtocolError: The frame would be longer than 16,777,215 bytes.
    """
    return MetadataPushFrame(metadata).encode()


@attrs.frozen
class MetadataPushFrame:
    """One METADATA_PUSH frame.

    Attributes:
        metadata: May be empty.
        stream_id: 0 in a legal frame.
    """

    frame_type: ClassVar[FrameType] = FrameType.METADATA_PUSH

    metadata: bytes = attrs.field(repr=size_only)
    stream_id: int = 0

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_range("stream id", self.stream_id, MAX_U31)
        return check_size(HEADER.pack(self.stream_id, _BITS) + self.metadata)


def decode_metadata_push(frame: bytes, flags: int, stream_id: int) -> MetadataPushFrame:
    """Decode a METADATA_PUSH frame whose header was read.

    M is always 1 in this frame, so it is not checked.
    """
    return MetadataPushFrame(frame[HEADER_SIZE:], stream_id)
