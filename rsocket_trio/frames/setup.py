"""SETUP: the first frame of a connection, from its client. Protocol.md, "SETUP Frame"."""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import ClassVar, Final

import attrs

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.frames.header import (
    FLAG_BITS,
    HEADER_SIZE,
    LEASE,
    MAX_U16,
    MAX_U31,
    METADATA,
    RESUME,
    FrameType,
    check_range,
    check_size,
    join_metadata,
    malformed,
    split_metadata,
)

__all__ = ["SetupFrame", "decode_setup"]

_TYPE: Final = FrameType.SETUP.value << FLAG_BITS
_FIELDS: Final = Struct(">HHII")
_FIELDS_END: Final = HEADER_SIZE + _FIELDS.size
_pack = Struct(">IHHHII").pack
_MAX_MIME: Final = 255


@attrs.frozen
class SetupFrame:
    """One SETUP frame.

    Attributes:
        major: Major version of the protocol.
        minor: Minor version of the protocol.
        keepalive_interval_ms: How often the client sends KEEPALIVE, in milliseconds.
        max_lifetime_ms: How long the client tolerates silence, in milliseconds.
        resume_token: The token, up to 65,535 bytes, with R; ``None``: the client will not resume.
        lease: L: requests need leases, both ways.
        metadata_mime_type: US-ASCII, up to 255 bytes; not checked further.
        data_mime_type: US-ASCII, up to 255 bytes; not checked further.
        metadata: The metadata of the setup payload; ``None`` when absent. May hold credentials.
        data: The data of the setup payload. May hold credentials.
        stream_id: 0 in a legal frame.
    """

    frame_type: ClassVar[FrameType] = FrameType.SETUP

    major: int
    minor: int
    keepalive_interval_ms: int
    max_lifetime_ms: int
    resume_token: bytes | None = attrs.field(default=None, repr=False)
    lease: bool = False
    metadata_mime_type: str = "application/octet-stream"
    data_mime_type: str = "application/octet-stream"
    metadata: bytes | None = attrs.field(default=None, repr=False)
    data: bytes = attrs.field(default=b"", repr=False)
    stream_id: int = 0

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_range("stream id", self.stream_id, MAX_U31)
        check_range("major version", self.major, MAX_U16)
        check_range("minor version", self.minor, MAX_U16)
        check_range("keepalive interval", self.keepalive_interval_ms, MAX_U31)
        check_range("max lifetime", self.max_lifetime_ms, MAX_U31)
        flags = LEASE * self.lease
        token = b""
        if self.resume_token is not None:
            flags |= RESUME
            check_range("resume token length", len(self.resume_token), MAX_U16)
            token = len(self.resume_token).to_bytes(2, "big") + self.resume_token
        if self.metadata is not None:
            flags |= METADATA
        head = _pack(
            self.stream_id,
            _TYPE | flags,
            self.major,
            self.minor,
            self.keepalive_interval_ms,
            self.max_lifetime_ms,
        )
        mime_types = _encode_mime(self.metadata_mime_type) + _encode_mime(self.data_mime_type)
        return check_size(head + token + mime_types + join_metadata(self.metadata, self.data))


def decode_setup(frame: bytes, flags: int, stream_id: int) -> SetupFrame:
    """Decode a SETUP frame whose header was read; raises `MalformedFrame`."""
    try:
        major, minor, keepalive, lifetime = _FIELDS.unpack_from(frame, HEADER_SIZE)
    except struct_error:
        raise malformed("the fixed fields of SETUP are cut off", flags, stream_id) from None
    if keepalive > MAX_U31 or lifetime > MAX_U31:
        raise malformed("a reserved bit before a time of SETUP is set", flags, stream_id)
    offset = _FIELDS_END
    token: bytes | None = None
    if flags & RESUME:
        token, offset = _take(frame, offset, 2, "resume token", flags, stream_id)
    metadata_mime, offset = _take(frame, offset, 1, "metadata MIME type", flags, stream_id)
    data_mime, offset = _take(frame, offset, 1, "data MIME type", flags, stream_id)
    metadata, data = split_metadata(frame, offset, flags, stream_id)
    try:
        names = metadata_mime.decode("ascii"), data_mime.decode("ascii")
    except UnicodeDecodeError:
        raise malformed("a MIME type of SETUP is not US-ASCII", flags, stream_id) from None
    return SetupFrame(
        major,
        minor,
        keepalive,
        lifetime,
        resume_token=token,
        lease=bool(flags & LEASE),
        metadata_mime_type=names[0],
        data_mime_type=names[1],
        metadata=metadata,
        data=data,
        stream_id=stream_id,
    )


def _encode_mime(name: str) -> bytes:
    try:
        text = name.encode("ascii")
    except UnicodeEncodeError:
        raise LocalProtocolError(f"the MIME type {name!r} is not US-ASCII") from None
    check_range("length of a MIME type", len(text), _MAX_MIME)
    return bytes((len(text),)) + text


def _take(
    frame: bytes, offset: int, length_size: int, what: str, flags: int, stream_id: int
) -> tuple[bytes, int]:
    """Return the field with a length of ``length_size`` bytes at ``offset``, and its end."""
    start = offset + length_size
    end = start + int.from_bytes(frame[offset:start], "big")
    if end > len(frame):
        raise malformed(f"the {what} of SETUP runs past the end of the frame", flags, stream_id)
    return frame[start:end], end
