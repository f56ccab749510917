"""Cut payloads into fragments, lazily.

Protocol.md, "Fragmentation And Reassembly": only requests and PAYLOAD are fragmented. The first
frame of a request is the REQUEST_* itself, all others are PAYLOAD frames of its stream. F is on
every fragment but the last. All metadata come before any data, and each fragment with metadata has
their length. With any number of fragments the payload is one item and takes one credit.

Choices where the text is silent: N is on every PAYLOAD fragment and C on the last one only (also
the C of a REQUEST_CHANNEL), because rsocket-java refuses a PAYLOAD with neither. Each fragment but
the last is as long as allowed, because rsocket-java refuses short ones.

The other direction is in `rsocket_trio.protocol.reassembly`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rsocket_trio.errors import LocalProtocolError
from rsocket_trio.frames.header import (
    COMPLETE,
    FOLLOWS,
    HEADER_SIZE,
    METADATA_LENGTH_SIZE,
    NEXT,
)
from rsocket_trio.frames.payload import encode_payload
from rsocket_trio.frames.request import encode_request

__all__ = [
    "MIN_SIZE",
    "PAYLOAD_HEAD",
    "REQUEST_N_HEAD",
    "fits",
    "fragment_payload",
    "fragment_request",
]

PAYLOAD_HEAD: Final = HEADER_SIZE
"""``head_size`` of PAYLOAD, REQUEST_RESPONSE and REQUEST_FNF, in bytes."""

REQUEST_N_HEAD: Final = HEADER_SIZE + 4
"""``head_size`` of REQUEST_STREAM and REQUEST_CHANNEL, which carry an initial n."""

MIN_SIZE: Final = REQUEST_N_HEAD + METADATA_LENGTH_SIZE + 1
"""The minimum size of a fragment: a smaller one may have no room for a byte of metadata."""


def fits(metadata: bytes | None, data: bytes, head_size: int, fragment_size: int) -> bool:
    """Whether the payload fits into one frame of at most ``fragment_size`` bytes.

    Args:
        metadata: ``None`` when absent.
        data: The data.
        head_size: `PAYLOAD_HEAD` or `REQUEST_N_HEAD`.
        fragment_size: In bytes, without the length prefix of TCP.
    """
    if metadata is None:
        return head_size + len(data) <= fragment_size
    return head_size + METADATA_LENGTH_SIZE + len(metadata) + len(data) <= fragment_size


def fragment_request(
    frame_type: int,
    stream_id: int,
    flags: int,
    initial_n: int | None,
    payload_metadata: bytes | None,
    payload_data: bytes,
    fragment_size: int,
) -> Iterator[bytes]:
    """Iterate over the frames of one request; each is made when it is needed.

    Args:
        frame_type: One of the four request types.
        stream_id: The new stream.
        flags: ``COMPLETE`` for a channel whose requester sends no more items, else 0.
        initial_n: For REQUEST_STREAM and REQUEST_CHANNEL, else ``None``.
        payload_metadata: ``None`` when absent.
        payload_data: The data.
        fragment_size: The maximum length of a frame, in bytes without the length prefix of TCP.

    Raises:
        LocalProtocolError: ``fragment_size`` is below `MIN_SIZE`, or a value does not fit into its
            field. Raised with the first frame.
    """
    head = PAYLOAD_HEAD if initial_n is None else REQUEST_N_HEAD
    if fits(payload_metadata, payload_data, head, fragment_size):
        yield encode_request(
            frame_type, stream_id, flags, initial_n, payload_metadata, payload_data
        )
        return
    first = True
    for metadata, data, last in _pieces(payload_metadata, payload_data, head, fragment_size):
        if first:
            first = False
            start = flags & ~COMPLETE | FOLLOWS
            yield encode_request(frame_type, stream_id, start, initial_n, metadata, data)
        elif last:
            yield encode_payload(stream_id, NEXT | flags & COMPLETE, metadata, data)
        else:
            yield encode_payload(stream_id, NEXT | FOLLOWS, metadata, data)


def fragment_payload(
    stream_id: int, flags: int, metadata: bytes | None, data: bytes, fragment_size: int
) -> Iterator[bytes]:
    """Iterate over the frames of one item; each is made when it is needed.

    Args:
        stream_id: The stream.
        flags: ``NEXT``, with ``COMPLETE`` if the item is the last.
        metadata: ``None`` when absent.
        data: The data.
        fragment_size: The maximum length of a frame, in bytes without the length prefix of TCP.

    Raises:
        LocalProtocolError: As for `fragment_request`.
    """
    if fits(metadata, data, PAYLOAD_HEAD, fragment_size):
        yield encode_payload(stream_id, flags, metadata, data)
        return
    follows = flags & ~COMPLETE | FOLLOWS
    for some_metadata, some_data, last in _pieces(metadata, data, PAYLOAD_HEAD, fragment_size):
        yield encode_payload(stream_id, flags if last else follows, some_metadata, some_data)


def _pieces(
    metadata: bytes | None, data: bytes, head: int, size: int
) -> Iterator[tuple[bytes | None, bytes, bool]]:
    """Iterate over slices of metadata and data, one pair per frame, and whether it is the last.

    The slices are cut frame by frame, so there is never a second copy of the whole payload.
    """
    if size < MIN_SIZE:
        raise LocalProtocolError(f"fragments need at least {MIN_SIZE} bytes, not {size}")
    at = 0
    room = size - head
    if metadata is not None:
        done = 0
        while True:
            room -= METADATA_LENGTH_SIZE
            if len(metadata) - done <= room:
                break
            yield metadata[done : done + room], b"", False
            done += room
            room = size - PAYLOAD_HEAD
        rest = metadata[done:]
        at = room - len(rest)
        yield rest, data[:at], at >= len(data)
        room = size - PAYLOAD_HEAD
    while at < len(data):
        end = at + room
        yield None, data[at:end], end >= len(data)
        at = end
        room = size - PAYLOAD_HEAD
