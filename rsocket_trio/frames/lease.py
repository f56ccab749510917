"""LEASE: how many requests the peer may send, and for how long. Protocol.md, "LEASE Frame"."""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import ClassVar, Final

import attrs

from rsocket_trio.escapes import size_only
from rsocket_trio.frames.header import (
    FLAG_BITS,
    HEADER_SIZE,
    MAX_U31,
    METADATA,
    FrameType,
    check_range,
    check_size,
    malformed,
)

__all__ = ["LeaseFrame", "decode_lease"]

_TYPE: Final = FrameType.LEASE.value << FLAG_BITS
_FIELDS: Final = Struct(">II")
_FIELDS_END: Final = HEADER_SIZE + _FIELDS.size
_pack = Struct(">IHII").pack


@attrs.frozen
class LeaseFrame:
    """One LEASE frame.

    Attributes:
        time_to_live_ms: How long the lease is valid, in milliseconds from its reception.
        number_of_requests: How many requests it allows; 0 stops requests.
        metadata: The rest of the frame if M is set (it has no length field), else ``None``.
        stream_id: 0 in a legal frame.
    """

    frame_type: ClassVar[FrameType] = FrameType.LEASE

    time_to_live_ms: int
    number_of_requests: int
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    stream_id: int = 0

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_range("stream id", self.stream_id, MAX_U31)
        check_range("time to live", self.time_to_live_ms, MAX_U31)
        check_range("number of requests", self.number_of_requests, MAX_U31)
        flags = 0 if self.metadata is None else METADATA
        head = _pack(self.stream_id, _TYPE | flags, self.time_to_live_ms, self.number_of_requests)
        return check_size(head + (self.metadata or b""))


def decode_lease(frame: bytes, flags: int, stream_id: int) -> LeaseFrame:
    """Decode a LEASE frame whose header was read; raises `MalformedFrame`."""
    try:
        time_to_live, requests = _FIELDS.unpack_from(frame, HEADER_SIZE)
    except struct_error:
        raise malformed("the fields of the lease are cut off", flags, stream_id) from None
    if time_to_live > MAX_U31 or requests > MAX_U31:
        raise malformed("a reserved bit before a field of the lease is set", flags, stream_id)
    metadata = frame[_FIELDS_END:] if flags & METADATA else None
    return LeaseFrame(time_to_live, requests, metadata, stream_id)
