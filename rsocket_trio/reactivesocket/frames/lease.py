"""LEASE: how many requests the peer may send, and for how long. Draft, "Lease Frame"."""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

import attrs

from ...escapes import size_only
from .header import (
    HEADER_SIZE,
    FrameType,
    check_u32,
    encode_frame,
    malformed,
    split_metadata,
)

__all__ = ["LeaseFrame", "decode_lease"]

_FIELDS: Final = Struct(">II")
_FIELDS_END: Final = HEADER_SIZE + _FIELDS.size


@attrs.frozen
class LeaseFrame:
    """One LEASE frame.

    Attributes:
        time_to_live_ms: How long the lease is valid, in milliseconds from its reception.
        number_of_requests: How many requests it allows; 0 stops requests.
        metadata: ``None`` when absent.
        stream_id: 0 in a legal frame.
    """

    frame_type: ClassVar[FrameType] = FrameType.LEASE

    time_to_live_ms: int
    number_of_requests: int
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    stream_id: int = 0

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        check_u32("time to live", self.time_to_live_ms)
        check_u32("number of requests", self.number_of_requests)
        fields = _FIELDS.pack(self.time_to_live_ms, self.number_of_requests)
        return encode_frame(FrameType.LEASE, 0, self.stream_id, fields, self.metadata)


def decode_lease(frame: bytes, flags: int, stream_id: int) -> LeaseFrame:
    """Decode a LEASE frame whose header was read; raises `MalformedFrame`."""
    if len(frame) < _FIELDS_END:
        raise malformed("the fields of the lease are cut off", flags, stream_id)
    time_to_live, requests = _FIELDS.unpack_from(frame, HEADER_SIZE)
    metadata, _ = split_metadata(frame, _FIELDS_END, flags, stream_id)
    return LeaseFrame(time_to_live, requests, metadata, stream_id)
