"""The five requests: REQUEST_RESPONSE, _FNF, _STREAM, _SUB and _CHANNEL. Draft, their sections.

REQUEST_CHANNEL also carries the requester's later items. Its N flag says whether it has an initial
n. REQUEST_STREAM and REQUEST_SUB always have an initial n; some peers set N there too, and it has
no meaning.
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from ...escapes import size_only
from .header import (
    COMPLETE,
    FOLLOWS,
    HEADER_SIZE,
    INITIAL_N,
    U32,
    FrameType,
    check_u32,
    encode_frame,
    read_u32,
    split_metadata,
)

__all__ = [
    "RequestChannelFrame",
    "RequestFnfFrame",
    "RequestResponseFrame",
    "RequestStreamFrame",
    "RequestSubFrame",
    "decode_request_channel",
    "decode_request_fnf",
    "decode_request_response",
    "decode_request_stream",
    "decode_request_sub",
]

_N_END: Final = HEADER_SIZE + 4


@attrs.frozen
class RequestResponseFrame:
    """One REQUEST_RESPONSE frame."""

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_RESPONSE

    stream_id: int
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_frame(
            self.frame_type, 0, self.stream_id, metadata=self.metadata, data=self.data
        )


@attrs.frozen
class RequestFnfFrame:
    """One REQUEST_FNF (fire and forget) frame."""

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_FNF

    stream_id: int
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_frame(
            self.frame_type, 0, self.stream_id, metadata=self.metadata, data=self.data
        )


@attrs.frozen
class RequestStreamFrame:
    """One REQUEST_STREAM frame.

    Attributes:
        stream_id: The stream.
        initial_request_n: The first credit, in items; may be 0.
        metadata: ``None`` when absent.
        data: May be empty.
        n_flag: Whether N is set, for peers that read it here.
    """

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_STREAM

    stream_id: int
    initial_request_n: int
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""
    n_flag: bool = False

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return _encode_with_n(self)


@attrs.frozen
class RequestSubFrame:
    """One REQUEST_SUB frame: a stream without end; fields as in `RequestStreamFrame`."""

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_SUB

    stream_id: int
    initial_request_n: int
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""
    n_flag: bool = False

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return _encode_with_n(self)


@attrs.frozen
class RequestChannelFrame:
    """One REQUEST_CHANNEL frame: the request, or a later item of its requester.

    Attributes:
        stream_id: The stream.
        initial_request_n: The first credit, in items, with N; ``None``: N is clear.
        follows: F: more fragments follow.
        complete: C: the requester sends no more items.
        metadata: ``None`` when absent.
        data: May be empty.
    """

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_CHANNEL

    stream_id: int
    initial_request_n: int | None = None
    follows: bool = False
    complete: bool = False
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        flags = FOLLOWS * self.follows | COMPLETE * self.complete
        fields = b""
        if self.initial_request_n is not None:
            check_u32("initial request n", self.initial_request_n)
            flags |= INITIAL_N
            fields = U32.pack(self.initial_request_n)
        return encode_frame(
            self.frame_type, flags, self.stream_id, fields, self.metadata, self.data
        )


def decode_request_response(frame: bytes, flags: int, stream_id: int) -> RequestResponseFrame:
    """Decode a REQUEST_RESPONSE frame whose header was read; raises `MalformedFrame`."""
    return RequestResponseFrame(stream_id, *split_metadata(frame, HEADER_SIZE, flags, stream_id))


def decode_request_fnf(frame: bytes, flags: int, stream_id: int) -> RequestFnfFrame:
    """Decode a REQUEST_FNF frame whose header was read; raises `MalformedFrame`."""
    return RequestFnfFrame(stream_id, *split_metadata(frame, HEADER_SIZE, flags, stream_id))


def decode_request_stream(frame: bytes, flags: int, stream_id: int) -> RequestStreamFrame:
    """Decode a REQUEST_STREAM frame whose header was read; raises `MalformedFrame`."""
    n = read_u32("initial request n", frame, HEADER_SIZE, flags, stream_id)
    metadata, data = split_metadata(frame, _N_END, flags, stream_id)
    return RequestStreamFrame(stream_id, n, metadata, data, n_flag=bool(flags & INITIAL_N))


def decode_request_sub(frame: bytes, flags: int, stream_id: int) -> RequestSubFrame:
    """Decode a REQUEST_SUB frame whose header was read; raises `MalformedFrame`."""
    n = read_u32("initial request n", frame, HEADER_SIZE, flags, stream_id)
    metadata, data = split_metadata(frame, _N_END, flags, stream_id)
    return RequestSubFrame(stream_id, n, metadata, data, n_flag=bool(flags & INITIAL_N))


def decode_request_channel(frame: bytes, flags: int, stream_id: int) -> RequestChannelFrame:
    """Decode a REQUEST_CHANNEL frame whose header was read; raises `MalformedFrame`."""
    n, offset = None, HEADER_SIZE
    if flags & INITIAL_N:
        n = read_u32("initial request n", frame, HEADER_SIZE, flags, stream_id)
        offset = _N_END
    metadata, data = split_metadata(frame, offset, flags, stream_id)
    return RequestChannelFrame(
        stream_id, n, bool(flags & FOLLOWS), bool(flags & COMPLETE), metadata, data
    )


def _encode_with_n(frame: RequestStreamFrame | RequestSubFrame) -> bytes:
    check_u32("initial request n", frame.initial_request_n)
    return encode_frame(
        frame.frame_type,
        INITIAL_N * frame.n_flag,
        frame.stream_id,
        U32.pack(frame.initial_request_n),
        frame.metadata,
        frame.data,
    )
