"""KEEPALIVE: a sign of life, and the request for one. Draft, "Keepalive Frame"."""

from __future__ import annotations

from typing import ClassVar

import attrs

from .header import HEADER_SIZE, RESPOND, FrameType, encode_frame

__all__ = ["KeepaliveFrame", "decode_keepalive"]


@attrs.frozen
class KeepaliveFrame:
    """One KEEPALIVE frame. ``respond``: the peer must send it back, with R clear."""

    frame_type: ClassVar[FrameType] = FrameType.KEEPALIVE

    respond: bool
    data: bytes = b""
    stream_id: int = 0

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        flags = RESPOND * self.respond
        return encode_frame(FrameType.KEEPALIVE, flags, self.stream_id, data=self.data)


def decode_keepalive(frame: bytes, flags: int, stream_id: int) -> KeepaliveFrame:
    """Decode a KEEPALIVE frame whose header was read."""
    # "Metadata never present": M has no meaning here.
    return KeepaliveFrame(bool(flags & RESPOND), frame[HEADER_SIZE:], stream_id)
