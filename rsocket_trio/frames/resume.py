"""RESUME and RESUME_OK: resume a session on a new connection.

Protocol.md, "RESUME Frame (0x0D)" and "RESUME_OK Frame (0x0E)".
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import ClassVar, Final

import attrs

from rsocket_trio.frames.header import (
    FLAG_BITS,
    HEADER_SIZE,
    MAX_U16,
    MAX_U31,
    MAX_U63,
    FrameType,
    check_range,
    malformed,
    read_number,
)

__all__ = ["ResumeFrame", "ResumeOkFrame", "decode_resume", "decode_resume_ok"]

_RESUME: Final = FrameType.RESUME.value << FLAG_BITS
_RESUME_OK: Final = FrameType.RESUME_OK.value << FLAG_BITS
_FIELDS: Final = Struct(">HHH")
_FIELDS_END: Final = HEADER_SIZE + _FIELDS.size
_POSITIONS: Final = Struct(">QQ")
_pack_resume = Struct(">IHHHH").pack
_pack_resume_ok = Struct(">IHQ").pack


@attrs.frozen
class ResumeFrame:
    """One RESUME frame, which a client sends in place of SETUP.

    Attributes:
        major: Major version of the protocol.
        minor: Minor version of the protocol.
        token: The resume token of the original SETUP, up to 65,535 bytes.
        last_received_server_position: Bytes of tracked frames the client has received.
        first_available_client_position: The position of the first frame the client can send again.
        stream_id: 0 in a legal frame.
    """

    frame_type: ClassVar[FrameType] = FrameType.RESUME

    major: int
    minor: int
    token: bytes = attrs.field(repr=False)
    last_received_server_position: int
    first_available_client_position: int
    stream_id: int = 0

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_range("stream id", self.stream_id, MAX_U31)
        check_range("major version", self.major, MAX_U16)
        check_range("minor version", self.minor, MAX_U16)
        check_range("resume token length", len(self.token), MAX_U16)
        check_range("last received server position", self.last_received_server_position, MAX_U63)
        check_range(
            "first available client position", self.first_available_client_position, MAX_U63
        )
        head = _pack_resume(self.stream_id, _RESUME, self.major, self.minor, len(self.token))
        positions = _POSITIONS.pack(
            self.last_received_server_position, self.first_available_client_position
        )
        return head + self.token + positions


@attrs.frozen
class ResumeOkFrame:
    """One RESUME_OK frame.

    Attributes:
        last_received_client_position: Bytes of tracked frames the server has received.
        stream_id: 0 in a legal frame.
    """

    frame_type: ClassVar[FrameType] = FrameType.RESUME_OK

    last_received_client_position: int
    stream_id: int = 0

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_range("stream id", self.stream_id, MAX_U31)
        check_range("last received client position", self.last_received_client_position, MAX_U63)
        return _pack_resume_ok(self.stream_id, _RESUME_OK, self.last_received_client_position)


def decode_resume(frame: bytes, flags: int, stream_id: int) -> ResumeFrame:
    """Decode a RESUME frame whose header was read; raises `MalformedFrame`.

    Bytes after the last field are ignored.
    """
    try:
        major, minor, length = _FIELDS.unpack_from(frame, HEADER_SIZE)
        token_end = _FIELDS_END + length
        last_server, first_client = _POSITIONS.unpack_from(frame, token_end)
    except struct_error:
        raise malformed("the fields of RESUME are cut off", flags, stream_id) from None
    if last_server > MAX_U63 or first_client > MAX_U63:
        raise malformed("a reserved bit before a position of RESUME is set", flags, stream_id)
    token = frame[_FIELDS_END:token_end]
    return ResumeFrame(major, minor, token, last_server, first_client, stream_id)


def decode_resume_ok(frame: bytes, flags: int, stream_id: int) -> ResumeOkFrame:
    """Decode a RESUME_OK frame whose header was read; raises `MalformedFrame`.

    Bytes after the position are ignored.
    """
    position = read_number(frame, 8, "position of RESUME_OK", flags, stream_id)
    return ResumeOkFrame(position, stream_id)
