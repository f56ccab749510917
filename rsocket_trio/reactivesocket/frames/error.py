"""ERROR: the end of a stream, or of the connection. Draft, "Error Frame"."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from ...escapes import size_only
from .header import (
    HEADER_SIZE,
    U32,
    FrameType,
    check_u32,
    encode_frame,
    read_u32,
    split_metadata,
)

__all__ = ["ErrorFrame", "decode_error"]

_CODE_END: Final = HEADER_SIZE + 4


@attrs.frozen
class ErrorFrame:
    """One ERROR frame; ``metadata`` may hold the reason of a REJECTED."""

    frame_type: ClassVar[FrameType] = FrameType.ERROR

    stream_id: int
    code: int
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_u32("error code", self.code)
        code = U32.pack(self.code)
        return encode_frame(FrameType.ERROR, 0, self.stream_id, code, self.metadata, self.data)


def decode_error(frame: bytes, flags: int, stream_id: int) -> ErrorFrame:
    """Decode an ERROR frame whose header was read; raises `MalformedFrame`."""
    code = read_u32("error code", frame, HEADER_SIZE, flags, stream_id)
    metadata, data = split_metadata(frame, _CODE_END, flags, stream_id)
    return ErrorFrame(stream_id, code, metadata, data)
