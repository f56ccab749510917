"""REQUEST_N: more credit for a stream. Protocol.md, "REQUEST_N Frame"."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

import attrs

from rsocket_trio.frames.header import (
    FLAG_BITS,
    MAX_U31,
    FrameType,
    check_range,
    read_number,
)

__all__ = ["RequestNFrame", "decode_request_n", "encode_request_n"]

_TYPE: Final = FrameType.REQUEST_N.value << FLAG_BITS
_pack = Struct(">IHI").pack


def encode_request_n(stream_id: int, n: int) -> bytes:
    """Encode a REQUEST_N frame, without length prefix.

    Raises:
        LocalProtocolError: ``stream_id`` or ``n`` is not 0 to 2^31-1.
    """
    if stream_id >> 31 or n >> 31:
        check_range("stream id", stream_id, MAX_U31)
        check_range("request n", n, MAX_U31)
    return _pack(stream_id, _TYPE, n)


@attrs.frozen
class RequestNFrame:
    """One REQUEST_N frame; ``n`` items are added to the credit of the stream."""

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_N

    stream_id: int
    n: int

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_request_n(self.stream_id, self.n)


def decode_request_n(frame: bytes, flags: int, stream_id: int) -> RequestNFrame:
    """Decode a REQUEST_N frame whose header was read; raises `MalformedFrame`.

    Bytes after the number are ignored. An ``n`` of 0 is no error here: the dispatcher ignores the
    frame.
    """
    return RequestNFrame(stream_id, read_number(frame, 4, "request n", flags, stream_id))
