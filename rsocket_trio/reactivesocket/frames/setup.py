"""SETUP: the first frame of a connection, from its client. Draft, "Setup Frame"."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

import attrs

from rsocket_trio.errors import LocalProtocolError

from .header import (
    HEADER_SIZE,
    LEASE,
    STRICT,
    FrameType,
    check_u32,
    encode_frame,
    malformed,
    split_metadata,
)

__all__ = ["SetupFrame", "decode_setup"]

_FIELDS: Final = Struct(">III")
_FIELDS_END: Final = HEADER_SIZE + _FIELDS.size
_MAX_MIME: Final = 255


@attrs.frozen
class SetupFrame:
    """One SETUP frame.

    Attributes:
        version: The version of the protocol; 0 in this draft.
        keepalive_interval_ms: How often the client sends KEEPALIVE, in milliseconds.
        max_lifetime_ms: How long the client tolerates silence, in milliseconds; clients of that
            time sent 0 for "no limit".
        lease: L: requests need leases, both ways.
        strict: S: the server must refuse a setup payload that it does not understand.
        metadata_mime_type: Up to 255 bytes, Latin-1: the draft does not demand US-ASCII.
        data_mime_type: Up to 255 bytes, Latin-1.
        metadata: The metadata of the setup payload; ``None`` when absent. May hold credentials.
        data: The data of the setup payload. May hold credentials.
        stream_id: 0 in a legal frame.
    """

    frame_type: ClassVar[FrameType] = FrameType.SETUP

    version: int
    keepalive_interval_ms: int
    max_lifetime_ms: int
    lease: bool = False
    strict: bool = False
    metadata_mime_type: str = "application/octet-stream"
    data_mime_type: str = "application/octet-stream"
    metadata: bytes | None = attrs.field(default=None, repr=False)
    data: bytes = attrs.field(default=b"", repr=False)
    stream_id: int = 0

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_u32("version", self.version)
        check_u32("keepalive interval", self.keepalive_interval_ms)
        check_u32("max lifetime", self.max_lifetime_ms)
        numbers = _FIELDS.pack(self.version, self.keepalive_interval_ms, self.max_lifetime_ms)
        mime_types = _encode_mime(self.metadata_mime_type) + _encode_mime(self.data_mime_type)
        return encode_frame(
            FrameType.SETUP,
            LEASE * self.lease | STRICT * self.strict,
            self.stream_id,
            numbers + mime_types,
            self.metadata,
            self.data,
        )


def decode_setup(frame: bytes, flags: int, stream_id: int) -> SetupFrame:
    """Decode a SETUP frame whose header was read; raises `MalformedFrame`."""
    if len(frame) < _FIELDS_END:
        raise malformed("the fixed fields of SETUP are cut off", flags, stream_id)
    version, keepalive, lifetime = _FIELDS.unpack_from(frame, HEADER_SIZE)
    metadata_mime, offset = _decode_mime(frame, _FIELDS_END, flags, stream_id)
    data_mime, offset = _decode_mime(frame, offset, flags, stream_id)
    metadata, data = split_metadata(frame, offset, flags, stream_id)
    return SetupFrame(
        version,
        keepalive,
        lifetime,
        lease=bool(flags & LEASE),
        strict=bool(flags & STRICT),
        metadata_mime_type=metadata_mime,
        data_mime_type=data_mime,
        metadata=metadata,
        data=data,
        stream_id=stream_id,
    )


def _encode_mime(mime_type: str) -> bytes:
    try:
        encoded = mime_type.encode("latin-1")
    except UnicodeEncodeError:
        raise LocalProtocolError(f"the MIME type {mime_type!r} is not Latin-1") from None
    if len(encoded) > _MAX_MIME:
        raise LocalProtocolError(
            f"a MIME type must have at most {_MAX_MIME} bytes, not {len(encoded)}"
        )
    return bytes((len(encoded),)) + encoded


def _decode_mime(frame: bytes, offset: int, flags: int, stream_id: int) -> tuple[str, int]:
    start = offset + 1
    end = start + int.from_bytes(frame[offset:start], "big")
    if not start <= end <= len(frame):
        raise malformed("a MIME type of SETUP is cut off", flags, stream_id)
    # "The string may or may not be null terminated"; the length counts the NUL.
    return frame[start:end].removesuffix(b"\0").decode("latin-1"), end
