"""The parts that every frame type of the draft has: header, flags, and metadata length.

Draft of 2015-09-18, "Framing Format", "Frame Header Format" and "Metadata Optional Header". Here a
frame does not include the length before it on byte streams (`.length`), so offsets count from the
frame type.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

from rsocket_trio.errors import LocalProtocolError, MalformedFrame, MetadataLengthError

__all__ = [
    "COMPLETE",
    "FOLLOWS",
    "HEADER",
    "HEADER_SIZE",
    "IGNORE",
    "INITIAL_N",
    "LEASE",
    "MAX_U32",
    "METADATA",
    "RESPOND",
    "STRICT",
    "U32",
    "FrameType",
    "check_u32",
    "encode_frame",
    "malformed",
    "read_header",
    "read_u32",
    "split_metadata",
]

HEADER: Final = Struct(">HHI")
"""Frame type, flags, stream id."""

HEADER_SIZE: Final = 8
U32: Final = Struct(">I")
MAX_U32: Final = 0xFFFFFFFF

IGNORE: Final = 0x8000
METADATA: Final = 0x4000
LEASE: Final = 0x2000
RESPOND: Final = 0x2000
FOLLOWS: Final = 0x2000
STRICT: Final = 0x1000
COMPLETE: Final = 0x1000
INITIAL_N: Final = 0x0800

# The metadata length counts its own four bytes.
_LENGTH_SIZE: Final = 4
# A length has 31 bits, and the length before a frame counts its own four bytes too.
_MAX_SIZE: Final = 0x7FFFFFFF - _LENGTH_SIZE


class FrameType(IntEnum):
    """The types of the draft's "Frame Types". 0 is reserved; the other codes are not assigned."""

    SETUP = 0x0001
    LEASE = 0x0002
    KEEPALIVE = 0x0003
    REQUEST_RESPONSE = 0x0004
    REQUEST_FNF = 0x0005
    REQUEST_STREAM = 0x0006
    REQUEST_SUB = 0x0007
    REQUEST_CHANNEL = 0x0008
    REQUEST_N = 0x0009
    CANCEL = 0x000A
    RESPONSE = 0x000B
    ERROR = 0x000C
    METADATA_PUSH = 0x000D
    EXT = 0xFFFF


def malformed(message: str, flags: int, stream_id: int) -> MalformedFrame:
    """Return the error for a frame whose header can be read, but the rest cannot."""
    return MalformedFrame(message, stream_id=stream_id, ignorable=bool(flags & IGNORE))


def read_header(frame: bytes) -> tuple[int, int, int]:
    """Read the header of a whole frame.

    Returns:
        Type code (known or not), flags (all sixteen bits, as sent), stream id (all 32 bits).

    Raises:
        MalformedFrame: The frame is shorter than its header.
    """
    if len(frame) < HEADER_SIZE:
        raise MalformedFrame(
            f"a frame of {len(frame)} bytes is shorter than its {HEADER_SIZE}-byte header"
        )
    frame_type, flags, stream_id = HEADER.unpack_from(frame)
    return frame_type, flags, stream_id


def read_u32(what: str, frame: bytes, offset: int, flags: int, stream_id: int) -> int:
    """Read a number behind the header.

    Raises:
        MalformedFrame: The frame ends before or within it.
    """
    end = offset + U32.size
    if len(frame) < end:
        raise malformed(f"the {what} is cut off", flags, stream_id)
    return int.from_bytes(frame[offset:end], "big")


def split_metadata(
    frame: bytes, offset: int, flags: int, stream_id: int
) -> tuple[bytes | None, bytes]:
    """Take metadata and data out of a frame.

    Args:
        frame: The whole frame.
        offset: Where the metadata length begins if M is set, and the data if not.
        flags: The flags of the frame.
        stream_id: For the error only.

    Returns:
        Metadata (``None`` when M is clear, ``b""`` when it is present and empty) and data.

    Raises:
        MetadataLengthError: The length is cut off, is less than its own four bytes, or runs past
            the end of the frame (as it does if its reserved bit is set). The draft says to ignore
            the whole frame then.
    """
    if not flags & METADATA:
        return None, frame[offset:]
    start = offset + _LENGTH_SIZE
    length = int.from_bytes(frame[offset:start], "big")
    end = offset + length
    if not start <= end <= len(frame):
        raise MetadataLengthError(
            f"a metadata length of {length} does not fit a frame of {len(frame)} bytes",
            stream_id=stream_id,
            ignorable=bool(flags & IGNORE),
        )
    return frame[start:end], frame[end:]


def check_u32(what: str, value: int) -> None:
    """Check that a number fits a 32-bit field.

    Raises:
        LocalProtocolError: ``value`` is not 0 to 2^32-1.
    """
    if not 0 <= value <= MAX_U32:
        raise LocalProtocolError(f"{what} must be between 0 and {MAX_U32}, not {value}")


def encode_frame(
    frame_type: int,
    flags: int,
    stream_id: int,
    fields: bytes = b"",
    metadata: bytes | None = None,
    data: bytes = b"",
) -> bytes:
    """Return the bytes of a frame.

    Args:
        frame_type: One of `FrameType`.
        flags: All flags but M, which is set if there is metadata.
        stream_id: 0 to 2^32-1.
        fields: The bytes between the header and the metadata.
        metadata: ``None`` when absent; ``b""`` is present and empty.
        data: The bytes behind the metadata.

    Raises:
        LocalProtocolError: The stream id does not fit its field, or the frame is too long for a
            31-bit length.
    """
    check_u32("stream id", stream_id)
    size = HEADER_SIZE + len(fields) + len(data)
    if metadata is not None:
        size += _LENGTH_SIZE + len(metadata)
    if size > _MAX_SIZE:
        raise LocalProtocolError(f"a frame of {size} bytes is longer than the maximum {_MAX_SIZE}")
    if metadata is None:
        return b"".join((HEADER.pack(frame_type, flags, stream_id), fields, data))
    head = HEADER.pack(frame_type, flags | METADATA, stream_id)
    return b"".join((head, fields, U32.pack(_LENGTH_SIZE + len(metadata)), metadata, data))
