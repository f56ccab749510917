"""The parts that every frame type has: header, flags, and metadata length.

Protocol.md, "Frame Header Format" and "Metadata Optional Header". Offsets count from the first
byte of the stream id, behind the length prefix of TCP (`rsocket_trio.frames.length`).
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

from rsocket_trio.config import MAX_FRAME_SIZE
from rsocket_trio.errors import LocalProtocolError, MalformedFrame, MetadataLengthError

__all__ = [
    "COMPLETE",
    "FLAG_BITS",
    "FLAG_MASK",
    "FOLLOWS",
    "HEADER",
    "HEADER_SIZE",
    "IGNORE",
    "LEASE",
    "MAX_U16",
    "MAX_U31",
    "MAX_U32",
    "MAX_U63",
    "METADATA",
    "METADATA_LENGTH_SIZE",
    "NEXT",
    "NOT_BARE_FLAGS",
    "NOT_FLAGS",
    "RESPOND",
    "RESUME",
    "FrameType",
    "bad_header",
    "check_range",
    "check_size",
    "join_metadata",
    "malformed",
    "read_header",
    "read_number",
    "split_metadata",
]

HEADER: Final = Struct(">IH")
"""Stream id, then six bits of type and ten of flags: ``type << 10 | flags``."""

HEADER_SIZE: Final = 6
METADATA_LENGTH_SIZE: Final = 3

IGNORE: Final = 0x200
METADATA: Final = 0x100
RESUME: Final = 0x080
RESPOND: Final = 0x080
FOLLOWS: Final = 0x080
LEASE: Final = 0x040
COMPLETE: Final = 0x040
NEXT: Final = 0x020

FLAG_BITS: Final = 10
FLAG_MASK: Final = 0x3FF
NOT_FLAGS: Final = ~FLAG_MASK
"""Bits that an encoder's ``flags`` must not have."""

NOT_BARE_FLAGS: Final = NOT_FLAGS | METADATA
"""The same for a frame without metadata: with M, its data would be read as metadata."""

MAX_U16: Final = 0xFFFF
MAX_U31: Final = 0x7FFFFFFF
MAX_U32: Final = 0xFFFFFFFF
MAX_U63: Final = 0x7FFFFFFFFFFFFFFF


class FrameType(IntEnum):
    """The types of Protocol.md, "Frame Types". 0 is reserved; other codes are not assigned."""

    SETUP = 0x01
    LEASE = 0x02
    KEEPALIVE = 0x03
    REQUEST_RESPONSE = 0x04
    REQUEST_FNF = 0x05
    REQUEST_STREAM = 0x06
    REQUEST_CHANNEL = 0x07
    REQUEST_N = 0x08
    CANCEL = 0x09
    PAYLOAD = 0x0A
    ERROR = 0x0B
    METADATA_PUSH = 0x0C
    RESUME = 0x0D
    RESUME_OK = 0x0E
    EXT = 0x3F


def malformed(message: str, flags: int, stream_id: int) -> MalformedFrame:
    """Return the error for a frame whose header can be read, but the rest cannot."""
    return MalformedFrame(message, stream_id=stream_id, ignorable=bool(flags & IGNORE))


def read_header(frame: bytes) -> tuple[int, int, int]:
    """Read the header of a whole frame.

    Args:
        frame: The frame, without length prefix.

    Returns:
        Type code (known or not), flags (all ten bits, as sent), stream id.

    Raises:
        MalformedFrame: The frame is shorter than its header or longer than 16,777,215 bytes, or
            the reserved bit before the stream id is set.
    """
    size = len(frame)
    if size < HEADER_SIZE:
        raise MalformedFrame(
            f"a frame of {size} bytes is shorter than its {HEADER_SIZE}-byte header"
        )
    stream_id, bits = HEADER.unpack_from(frame)
    flags = bits & FLAG_MASK
    if stream_id > MAX_U31:
        raise malformed("the reserved bit before the stream id is set", flags, 0)
    if size > MAX_FRAME_SIZE:
        raise malformed(
            f"a frame of {size} bytes is longer than the protocol's maximum of {MAX_FRAME_SIZE}",
            flags,
            stream_id,
        )
    return bits >> FLAG_BITS, flags, stream_id


def read_number(frame: bytes, size: int, what: str, flags: int, stream_id: int) -> int:
    """Read the number behind the header; the first of its bits is reserved.

    Args:
        frame: The whole frame.
        size: The size of the number, in bytes.
        what: The name of the number, for the error.
        flags: The flags of the frame.
        stream_id: For the error only.

    Raises:
        MalformedFrame: The number is cut off, or its reserved bit is set.
    """
    end = HEADER_SIZE + size
    if len(frame) < end:
        raise malformed(f"the {what} is cut off", flags, stream_id)
    if frame[HEADER_SIZE] & 0x80:
        raise malformed(f"the reserved bit before the {what} is set", flags, stream_id)
    return int.from_bytes(frame[HEADER_SIZE:end], "big")


def split_metadata(
    frame: bytes, offset: int, flags: int, stream_id: int
) -> tuple[bytes | None, bytes]:
    """Take metadata and data out of a frame that can hold both.

    Args:
        frame: The whole frame.
        offset: Where the metadata length begins if M is set, and the data if not.
        flags: The flags of the frame.
        stream_id: For the error only.

    Returns:
        Metadata (``None`` when M is clear, ``b""`` when it is present and empty) and data.

    Raises:
        MetadataLengthError: The metadata length is cut off, or runs past the end of the frame.
    """
    if not flags & METADATA:
        return None, frame[offset:]
    start = offset + METADATA_LENGTH_SIZE
    # If the length itself is cut off, `start` is past the end already: one comparison for both.
    end = start + int.from_bytes(frame[offset:start], "big")
    if end > len(frame):
        raise MetadataLengthError(
            f"the metadata, or its length, runs past the end of a frame of {len(frame)} bytes",
            stream_id=stream_id,
            ignorable=bool(flags & IGNORE),
        )
    return frame[start:end], frame[end:]


def join_metadata(metadata: bytes | None, data: bytes) -> bytes:
    """Return the metadata length, the metadata and the data; only the data without metadata.

    Raises:
        LocalProtocolError: The metadata is too long for its 24-bit length.
    """
    if metadata is None:
        return data
    check_range("metadata length", len(metadata), MAX_FRAME_SIZE)
    return b"".join((len(metadata).to_bytes(METADATA_LENGTH_SIZE, "big"), metadata, data))


def check_range(what: str, value: int, maximum: int) -> None:
    """Check that a number fits its field.

    Raises:
        LocalProtocolError: ``value`` is not 0 to ``maximum``.
    """
    if not 0 <= value <= maximum:
        raise LocalProtocolError(f"{what} must be between 0 and {maximum}, not {value}")


def check_size(frame: bytes) -> bytes:
    """Check the length of a frame, and return the frame.

    Raises:
        LocalProtocolError: The frame is longer than 16,777,215 bytes.
    """
    check_range("frame length", len(frame), MAX_FRAME_SIZE)
    return frame


def bad_header(stream_id: int, flags: int) -> LocalProtocolError:
    """Return the error of an encoder whose quick check of stream id and flags has failed."""
    return LocalProtocolError(
        f"stream id {stream_id} is not between 0 and {MAX_U31}, or flags {flags:#x} have more than"
        " ten bits, or have M without metadata"
    )
