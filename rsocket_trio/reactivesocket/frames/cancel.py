"""CANCEL: the requester wants no more. Draft, "Cancel Frame"."""

from __future__ import annotations

from typing import ClassVar

import attrs

from ...escapes import size_only
from .header import HEADER_SIZE, FrameType, encode_frame, split_metadata

__all__ = ["CancelFrame", "decode_cancel"]


@attrs.frozen
class CancelFrame:
    """One CANCEL frame, which may have metadata in this draft."""

    frame_type: ClassVar[FrameType] = FrameType.CANCEL

    stream_id: int
    metadata: bytes | None = attrs.field(default=None, repr=size_only)

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_frame(FrameType.CANCEL, 0, self.stream_id, metadata=self.metadata)


def decode_cancel(frame: bytes, flags: int, stream_id: int) -> CancelFrame:
    """Decode a CANCEL frame whose header was read; raises `MalformedFrame`."""
    metadata, _ = split_metadata(frame, HEADER_SIZE, flags, stream_id)
    return CancelFrame(stream_id, metadata)
