"""The four requests: REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL.

Protocol.md, the sections of those names. STREAM and CHANNEL have an initial request n.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final

import attrs

from rsocket_trio.config import MAX_FRAME_SIZE
from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.escapes import size_only
from rsocket_trio.frames.header import (
    COMPLETE,
    FLAG_BITS,
    FOLLOWS,
    HEADER,
    HEADER_SIZE,
    MAX_U31,
    METADATA,
    NOT_BARE_FLAGS,
    NOT_FLAGS,
    FrameType,
    bad_header,
    check_range,
    check_size,
    read_number,
    split_metadata,
)

__all__ = [
    "RequestChannelFrame",
    "RequestFnfFrame",
    "RequestResponseFrame",
    "RequestStreamFrame",
    "decode_request_channel",
    "decode_request_fnf",
    "decode_request_response",
    "decode_request_stream",
    "encode_request",
    "read_initial_n",
]

_N_END: Final = HEADER_SIZE + 4
_LAST_WITHOUT_N: Final = FrameType.REQUEST_FNF.value
_pack = HEADER.pack
_pack_n = Struct(">IHI").pack
_pack_metadata = Struct(">IHBH").pack
_pack_n_metadata = Struct(">IHIBH").pack


def encode_request(
    frame_type: int,
    stream_id: int,
    flags: int,
    initial_n: int | None,
    metadata: bytes | None,
    data: bytes,
) -> bytes:
    """Encode a request frame, without length prefix.

    Args:
        frame_type: One of the four request types.
        stream_id: 0 to 2^31-1.
        flags: ``FOLLOWS``, and ``COMPLETE`` on REQUEST_CHANNEL; M is added if there is metadata.
        initial_n: The first credit of REQUEST_STREAM and REQUEST_CHANNEL; ``None`` for the
            other two types.
        metadata: ``None`` when absent; ``b""`` is present and empty.
        data: The data, or its first fragment.

    Raises:
        LocalProtocolError: A value does not fit its field, ``initial_n`` does not fit the type, or
            the frame would be longer than 16,777,215 bytes.
    """
    if metadata is None and initial_n is None and frame_type <= _LAST_WITHOUT_N:
        # The most common requests, with as few comparisons as possible.
        if stream_id >> 31 or flags & NOT_BARE_FLAGS:
            raise bad_header(stream_id, flags)
        frame = _pack(stream_id, frame_type << FLAG_BITS | flags) + data
        return frame if len(frame) <= MAX_FRAME_SIZE else check_size(frame)
    if stream_id >> 31 or flags & (NOT_BARE_FLAGS if metadata is None else NOT_FLAGS):
        raise bad_header(stream_id, flags)
    # The two types with a credit are the two with the higher codes.
    if (initial_n is None) is (frame_type > _LAST_WITHOUT_N):
        raise LocalProtocolError(
            f"initial request n {initial_n} does not fit {frame_type!r}: only REQUEST_STREAM and "
            "REQUEST_CHANNEL have one"
        )
    if initial_n is not None and initial_n >> 31:
        check_range("initial request n", initial_n, MAX_U31)
    bits = frame_type << FLAG_BITS | flags
    if metadata is None:
        assert initial_n is not None
        frame = _pack_n(stream_id, bits, initial_n) + data
    else:
        bits |= METADATA
        length = len(metadata)
        if length > MAX_FRAME_SIZE:
            check_range("metadata length", length, MAX_FRAME_SIZE)
        high, low = length >> 16, length & 0xFFFF
        if initial_n is None:
            head = _pack_metadata(stream_id, bits, high, low)
        else:
            head = _pack_n_metadata(stream_id, bits, initial_n, high, low)
        frame = b"".join((head, metadata, data))
    return frame if len(frame) <= MAX_FRAME_SIZE else check_size(frame)


def read_initial_n(frame: bytes, flags: int, stream_id: int) -> int:
    """Read the initial request n of a REQUEST_STREAM or REQUEST_CHANNEL whose header was read.

    Raises:
        MalformedFrame: It is cut off, or the reserved bit before it is set.
    """
    return read_number(frame, 4, "initial request n", flags, stream_id)


@attrs.frozen
class RequestResponseFrame:
    """One REQUEST_RESPONSE frame. ``follows``: PAYLOAD frames with more of the request follow."""

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_RESPONSE

    stream_id: int
    follows: bool = False
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_request(
            self.frame_type, self.stream_id, FOLLOWS * self.follows, None, self.metadata, self.data
        )


@attrs.frozen
class RequestFnfFrame:
    """One REQUEST_FNF (fire and forget) frame; fields as in `RequestResponseFrame`."""

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_FNF

    stream_id: int
    follows: bool = False
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_request(
            self.frame_type, self.stream_id, FOLLOWS * self.follows, None, self.metadata, self.data
        )


@attrs.frozen
class RequestStreamFrame:
    """One REQUEST_STREAM frame; ``initial_request_n`` is the first credit, in items."""

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_STREAM

    stream_id: int
    initial_request_n: int
    follows: bool = False
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_request(
            self.frame_type,
            self.stream_id,
            FOLLOWS * self.follows,
            self.initial_request_n,
            self.metadata,
            self.data,
        )


@attrs.frozen
class RequestChannelFrame:
    """One REQUEST_CHANNEL frame. ``complete``: the requester sends no item after this one."""

    frame_type: ClassVar[FrameType] = FrameType.REQUEST_CHANNEL

    stream_id: int
    initial_request_n: int
    follows: bool = False
    complete: bool = False
    metadata: bytes | None = attrs.field(default=None, repr=size_only)
    data: bytes = b""

    def encode(self) -> bytes:
        """Return the frame as bytes; raises `LocalProtocolError` if a value does not fit."""
        return encode_request(
            self.frame_type,
            self.stream_id,
            FOLLOWS * self.follows | COMPLETE * self.complete,
            self.initial_request_n,
            self.metadata,
            self.data,
        )


def decode_request_response(frame: bytes, flags: int, stream_id: int) -> RequestResponseFrame:
    """Decode a REQUEST_RESPONSE frame whose header was read; raises `MalformedFrame`."""
    metadata, data = split_metadata(frame, HEADER_SIZE, flags, stream_id)
    return RequestResponseFrame(stream_id, bool(flags & FOLLOWS), metadata, data)


def decode_request_fnf(frame: bytes, flags: int, stream_id: int) -> RequestFnfFrame:
    """Decode a REQUEST_FNF frame whose header was read; raises `MalformedFrame`."""
    metadata, data = split_metadata(frame, HEADER_SIZE, flags, stream_id)
    return RequestFnfFrame(stream_id, bool(flags & FOLLOWS), metadata, data)


def decode_request_stream(frame: bytes, flags: int, stream_id: int) -> RequestStreamFrame:
    """Decode a REQUEST_STREAM frame whose header was read; raises `MalformedFrame`."""
    initial_n = read_initial_n(frame, flags, stream_id)
    metadata, data = split_metadata(frame, _N_END, flags, stream_id)
    return RequestStreamFrame(stream_id, initial_n, bool(flags & FOLLOWS), metadata, data)


def decode_request_channel(frame: bytes, flags: int, stream_id: int) -> RequestChannelFrame:
    """Decode a REQUEST_CHANNEL frame whose header was read; raises `MalformedFrame`."""
    initial_n = read_initial_n(frame, flags, stream_id)
    metadata, data = split_metadata(frame, _N_END, flags, stream_id)
    return RequestChannelFrame(
        stream_id,
        initial_n,
        follows=bool(flags & FOLLOWS),
        complete=bool(flags & COMPLETE),
        metadata=metadata,
        data=data,
    )
