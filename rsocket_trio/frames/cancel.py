"""CANCEL: the end of a stream, from the side that receives. Protocol.md, "CANCEL Frame"."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from rsocket_trio.frames.header import FLAG_BITS, HEADER, MAX_U31, FrameType, check_range

__all__ = ["CancelFrame", "decode_cancel", "encode_cancel"]

_TYPE: Final = FrameType.CANCEL.value << FLAG_BITS
_pack = HEADER.pack


def encode_cancel(stream_id: int) -> bytes:
    """Encode a CANCEL frame, without length prefix.

    Raises:
        LocalProtocolError: ``stream_id`` is not 0 to 2^31-1.
    """
    if stream_id >> 31:
        check_range("stream id", stream_id, MAX_U31)
    return _pack(stream_id, _TYPE)


@attrs.frozen
class CancelFrame:
    """One CANCEL frame."""

    frame_type: ClassVar[FrameType] = FrameType.CANCEL

    stream_id: int

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_cancel(self.stream_id)


def decode_cancel(frame: bytes, flags: int, stream_id: int) -> CancelFrame:
    """Decode a CANCEL frame whose header was read. Bytes behind the header are ignored."""
    return CancelFrame(stream_id)
