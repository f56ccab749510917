"""ERROR: the failure of a stream, or on stream 0 of the connection. Protocol.md, "ERROR Frame"."""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import ClassVar, Final

import attrs

from rsocket_trio.frames.header import (
    FLAG_BITS,
    HEADER_SIZE,
    MAX_U31,
    MAX_U32,
    FrameType,
    check_range,
    check_size,
    malformed,
)

__all__ = ["ErrorFrame", "decode_error", "encode_error", "encode_fitting_error"]

_TYPE: Final = FrameType.ERROR.value << FLAG_BITS
# The text about the field says 31 bits, but the table of codes goes to 0xFFFFFFFF: we use 32.
_CODE: Final = Struct(">I")
_CODE_END: Final = HEADER_SIZE + 4
_pack = Struct(">IHI").pack


def encode_error(stream_id: int, code: int, data: bytes) -> bytes:
    """Encode an ERROR frame, without length prefix.

    Args:
        stream_id: 0 for the connection.
        code: Any 32-bit number; this does not check that the code is allowed on the stream.
        data: The message, in UTF-8.

    Raises:
        LocalProtocolError: A value does not fit its field, or the frame would be longer than
            16,777,215 bytes.
    """
    if stream_id >> 31 or code >> 32:
        check_range("stream id", stream_id, MAX_U31)
        check_range("error code", code, MAX_U32)
    return check_size(_pack(stream_id, _TYPE, code) + data)


def encode_fitting_error(stream_id: int, code: int, data: bytes, max_frame_size: int) -> bytes:
    """Encode an ERROR frame with as much of the data as fits, as ERROR has no fragments.

    Raises:
        LocalProtocolError: A value does not fit its field.
    """
    return encode_error(stream_id, code, data[: max_frame_size - _CODE_END])


@attrs.frozen
class ErrorFrame:
    """One ERROR frame; ``data`` should be UTF-8, which is not checked."""

    frame_type: ClassVar[FrameType] = FrameType.ERROR

    stream_id: int
    code: int
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_error(self.stream_id, self.code, self.data)


def decode_error(frame: bytes, flags: int, stream_id: int) -> ErrorFrame:
    """Decode an ERROR frame whose header was read; raises `MalformedFrame`."""
    try:
        (code,) = _CODE.unpack_from(frame, HEADER_SIZE)
    except struct_error:
        raise malformed("the error code is cut off", flags, stream_id) from None
    return ErrorFrame(stream_id, code, frame[_CODE_END:])
