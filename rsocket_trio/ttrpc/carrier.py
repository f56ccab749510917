"""Frames over a byte stream: `carry`."""

from __future__ import annotations

from ..sockets.byte_stream import ByteStream
from ..transports.byte_stream import ByteStreamTransport
from .wire.decoder import FrameDecoder

__all__ = ["carry"]


def carry(stream: ByteStream, max_message_size: int) -> ByteStreamTransport:
    """Return a transport of frames over a stream, which it owns.

    Args:
        stream: Carries the bytes.
        max_message_size: The longest body of a frame that is kept, in bytes.
    """
    return ByteStreamTransport(
        stream.stream, info=stream.info, decoder=FrameDecoder(max_message_size), join=b"".join
    )
