"""Frames over a byte stream: `carry`; and streams that are open already: `as_byte_stream`."""

from __future__ import annotations

import socket
from typing import TypeAlias

import trio

from ..sockets.adopt import OpenSocket, adopt
from ..sockets.byte_stream import ByteStream, TransportInfo
from ..transports.byte_stream import ByteStreamTransport
from .wire.decoder import FrameDecoder

__all__ = ["OpenStream", "as_byte_stream", "carry"]

OpenStream: TypeAlias = ByteStream | trio.abc.Stream | OpenSocket
"""A stream that is open already: of trio or of this package, or a connected socket."""


def as_byte_stream(source: OpenStream) -> ByteStream:
    """Return an open stream with the facts about it.

    Raises:
        OSError: It is a socket that is not connected, or no stream socket.
        TypeError: It is nothing of this kind.
    """
    if isinstance(source, ByteStream):
        return source
    if isinstance(source, trio.SocketStream | socket.socket | trio.socket.SocketType):
        return adopt(source)
    if isinstance(source, int) and not isinstance(source, bool):
        return adopt(source)
    if isinstance(source, trio.abc.Stream):
        return ByteStream(source, TransportInfo(scheme="stream"))
    raise TypeError(
        f"an address, an open stream or a socket is needed, not {type(source).__name__}"
    )


def carry(stream: ByteStream, max_message_size: int) -> ByteStreamTransport:
    """Return a transport of frames over a stream, which it owns.

    Args:
        stream: Carries the bytes.
        max_message_size: The longest body of a frame that is kept, in bytes.
    """
    return ByteStreamTransport(
        stream.stream, info=stream.info, decoder=FrameDecoder(max_message_size), join=b"".join
    )
