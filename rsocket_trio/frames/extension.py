"""EXT: a frame for further frame types. Protocol.md, "EXT (Extension) Frame"."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

import attrs

from rsocket_trio.escapes import size_only
from rsocket_trio.frames.header import (
    FLAG_BITS,
    HEADER_SIZE,
    IGNORE,
    MAX_U31,
    METADATA,
    FrameType,
    check_range,
    check_size,
    join_metadata,
    read_number,
    split_metadata,
)

__all__ = ["ExtFrame", "decode_ext"]

_TYPE: Final = FrameType.EXT.value << FLAG_BITS
_EXTENDED_END: Final = HEADER_SIZE + 4
_pack = Struct(">IHI").pack


@attrs.frozen
class ExtFrame:
    """One EXT frame.

    Attributes:
        stream_id: Any stream id.
        extended_type: The number of the extension.
        ignore: I: a receiver that does not know the extension skips the frame.
        metadata: ``None`` when absent.
        data: The extension defines its meaning.
    """

    frame_type: ClassVar[FrameType] = FrameType.EXT

    stream_id: int
    extended_type: int
    ignore: bool = False
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_range("stream id", self.stream_id, MAX_U31)
        check_range("extended type", self.extended_type, MAX_U31)
        flags = IGNORE * self.ignore
        if self.metadata is not None:
            flags |= METADATA
        head = _pack(self.stream_id, _TYPE | flags, self.extended_type)
        return check_size(head + join_metadata(self.metadata, self.data))


def decode_ext(frame: bytes, flags: int, stream_id: int) -> ExtFrame:
    """Decode an EXT frame whose header was read; raises `MalformedFrame`."""
    extended_type = read_number(frame, 4, "extended type", flags, stream_id)
    metadata, data = split_metadata(frame, _EXTENDED_END, flags, stream_id)
    return ExtFrame(stream_id, extended_type, bool(flags & IGNORE), metadata, data)
