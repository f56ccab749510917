"""Inflate the payload of a compressed frame, in steps and up to a limit.

The payload is one complete zlib stream (RFC 1950) with its header and its checksum. go-lumber and
Logstash accept streams without the one or the other; such a stream is refused here, because its
end may be missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from rsocket_trio.errors import MalformedFrame, RemoteProtocolError

__all__ = ["STEP", "inflate"]

STEP: Final = 64 * 2**10
"""Bytes that one step inflates at most."""

_SLICE: Final = 64 * 2**10
"""Compressed bytes that zlib gets at once. After each step, zlib copies those that are left."""


def inflate(payload: bytes, limit: int) -> Iterator[bytes]:
    """Inflate a zlib stream; yield the parts, each of at most `STEP` bytes.

    Args:
        payload: The whole compressed stream.
        limit: How many bytes the parts may have together.

    Raises:
        RemoteProtocolError: The stream inflates to more than ``limit`` bytes.
        MalformedFrame: The payload is empty, is no zlib stream, is cut off, or continues behind
            the end of the stream.
    """
    if not payload:
        raise MalformedFrame("a compressed frame is empty")
    stream = zlib.decompressobj()
    view = memoryview(payload)
    size = 0
    for start in range(0, len(payload), _SLICE):
        waiting: bytes | memoryview = view[start : start + _SLICE]
        while True:
            # One byte more than the limit allows shows that there is more.
            asked = min(STEP, limit + 1 - size)
            try:
                part = stream.decompress(waiting, asked)
            except zlib.error as error:
                raise MalformedFrame(f"a compressed frame is no zlib stream: {error}") from None
            size += len(part)
            if size > limit:
                raise RemoteProtocolError(
                    f"a compressed frame inflates to more than {limit} bytes (max_inflated_size)"
                )
            if part:
                yield part
            waiting = stream.unconsumed_tail
            if stream.eof or (not waiting and len(part) < asked):
                break
        if stream.eof:
            extra = len(payload) - start - _SLICE
            extra = len(stream.unused_data) + max(extra, 0)
            if extra:
                raise MalformedFrame(f"{extra} bytes behind the zlib stream of a compressed frame")
            return
    raise MalformedFrame("the zlib stream of a compressed frame has no end: it is cut off")
