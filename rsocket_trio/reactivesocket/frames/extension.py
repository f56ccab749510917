"""EXT: a frame for further frame types. Draft, "Extension Frame".

The draft's diagram shows no stream id. We read the whole header, as for the other types. The bytes
behind the extended type are not interpreted, metadata included.
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from .header import (
    HEADER_SIZE,
    IGNORE,
    METADATA,
    U32,
    FrameType,
    check_u32,
    encode_frame,
    read_u32,
)

__all__ = ["ExtFrame", "decode_ext"]

_TYPE_END: Final = HEADER_SIZE + 4


@attrs.frozen
class ExtFrame:
    """One EXT frame.

    Attributes:
        stream_id: The stream id, although the draft's diagram has none.
        extended_type: Any 32-bit number.
        ignore: I: a receiver that does not know the type skips the frame.
        has_metadata: M: ``data`` begins with metadata, in the form that the type defines.
        data: The bytes behind the extended type.
    """

    frame_type: ClassVar[FrameType] = FrameType.EXT

    stream_id: int
    extended_type: int
    ignore: bool = False
    has_metadata: bool = False
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_u32("extended type", self.extended_type)
        flags = IGNORE * self.ignore | METADATA * self.has_metadata
        extended_type = U32.pack(self.extended_type)
        return encode_frame(FrameType.EXT, flags, self.stream_id, extended_type, data=self.data)


def decode_ext(frame: bytes, flags: int, stream_id: int) -> ExtFrame:
    """Decode an EXT frame whose header was read; raises `MalformedFrame`."""
    extended_type = read_u32("extended type", frame, HEADER_SIZE, flags, stream_id)
    return ExtFrame(
        stream_id,
        extended_type,
        ignore=bool(flags & IGNORE),
        has_metadata=bool(flags & METADATA),
        data=frame[_TYPE_END:],
    )
