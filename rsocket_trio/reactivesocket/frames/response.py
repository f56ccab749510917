"""RESPONSE: an item, its completion, or both; and fragments. Draft, "Response Frame"."""

from __future__ import annotations

from typing import ClassVar

import attrs

from ...escapes import size_only
from .header import COMPLETE, FOLLOWS, HEADER_SIZE, FrameType, encode_frame, split_metadata

__all__ = ["ResponseFrame", "decode_response"]


@attrs.frozen
class ResponseFrame:
    """One RESPONSE frame.

    Attributes:
        stream_id: The stream.
        follows: F: more fragments follow; without meaning together with C.
        complete: C: the stream ends here.
        metadata: ``None`` when absent.
        data: May be empty.
    """

    frame_type: ClassVar[FrameType] = FrameType.RESPONSE

    stream_id: int
    follows: bool = False
    complete: bool = False
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        flags = FOLLOWS * self.follows | COMPLETE * self.complete
        return encode_frame(
            FrameType.RESPONSE, flags, self.stream_id, metadata=self.metadata, data=self.data
        )


def decode_response(frame: bytes, flags: int, stream_id: int) -> ResponseFrame:
    """Decode a RESPONSE frame whose header was read; raises `MalformedFrame`."""
    metadata, data = split_metadata(frame, HEADER_SIZE, flags, stream_id)
    return ResponseFrame(stream_id, bool(flags & FOLLOWS), bool(flags & COMPLETE), metadata, data)
