"""REQUEST_N: more credit. Draft, "Request N Frame"."""

from __future__ import annotations

from typing import ClassVar

import attrs

from .header import HEADER_SIZE, U32, FrameType, check_u32, encode_frame, read_u32

__all__ = ["RequestNFrame", "decode_request_n"]


@attrs.frozen
class RequestNFrame:
    """One REQUEST_N frame: ``n`` more items, a number of 32 bits."""

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_N

    stream_id: int
    n: int

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_u32("request n", self.n)
        return encode_frame(FrameType.REQUEST_N, 0, self.stream_id, U32.pack(self.n))


def decode_request_n(frame: bytes, flags: int, stream_id: int) -> RequestNFrame:
    """Decode a REQUEST_N frame whose header was read; raises `MalformedFrame`."""
    return RequestNFrame(stream_id, read_u32("request n", frame, HEADER_SIZE, flags, stream_id))
