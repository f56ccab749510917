"""METADATA_PUSH: metadata about the connection. Draft, "Metadata Push Frame"."""

from __future__ import annotations

from typing import ClassVar

import attrs

from ...escapes import size_only
from .header import HEADER_SIZE, FrameType, encode_frame, malformed, split_metadata

__all__ = ["MetadataPushFrame", "decode_metadata_push"]


@attrs.frozen
class MetadataPushFrame:
    """One METADATA_PUSH frame; metadata is always present, with its length."""

    frame_type: ClassVar[FrameType] = FrameType.METADATA_PUSH

    metadata: bytes = attrs.field(repr=size_only)
    stream_id: int = 0

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_frame(FrameType.METADATA_PUSH, 0, self.stream_id, metadata=self.metadata)


def decode_metadata_push(frame: bytes, flags: int, stream_id: int) -> MetadataPushFrame:
    """Decode a METADATA_PUSH frame whose header was read; raises `MalformedFrame`."""
    metadata, _ = split_metadata(frame, HEADER_SIZE, flags, stream_id)
    if metadata is None:
        raise malformed("METADATA_PUSH without the metadata flag", flags, stream_id)
    return MetadataPushFrame(metadata, stream_id)
