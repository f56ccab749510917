"""Octets over any connection: `carry`, `dial_rsio`, `rsio_over`, `as_transport`.

A `FrameTransport` carries the octets of rsio in pieces, whose limits mean nothing: the reads of a
byte stream, or the binary messages of a WebSocket.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

import trio

from ..errors import ConnectFailed
from ..sockets.adopt import OpenSocket, adopt
from ..sockets.byte_stream import ByteStream, TransportInfo
from ..sockets.dial import dial
from ..sockets.tls_stream import TLSStream
from ..transports.base import FrameTransport
from ..transports.byte_stream import ByteStreamTransport
from ..transports.over_stream import transport_over
from ..transports.websocket_handshake import Handshake, request_websocket
from ..uri import Uri
from .addresses import ALPN

__all__ = ["OpenTransport", "as_transport", "carry", "dial_rsio", "offer_alpn", "rsio_over"]

OpenTransport: TypeAlias = FrameTransport | ByteStream | trio.abc.Stream | OpenSocket
"""A connection that is open already: a transport or stream of this package, one of trio, or a
connected socket."""

MAX_MESSAGE_SIZE: Final = 4 * 2**20
"""The longest WebSocket message that we accept, in octets. Messages need not end where elements
end, so senders have no reason for long ones; ours have 64 KiB."""


class _AsTheyCome:
    """Cuts nothing; see `rsocket_trio.transports.byte_stream.FrameDecoder`."""

    pending = False
    refused = False

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        return [bytes(data)] if data else []


def carry(stream: ByteStream) -> ByteStreamTransport:
    """Return a transport of octets over a stream, which it owns."""
    return ByteStreamTransport(
        stream.stream, info=stream.info, decoder=_AsTheyCome(), join=b"".join
    )


def as_transport(source: OpenTransport) -> FrameTransport:
    """Return a transport over a connection that is open already.

    Raises:
        OSError: It is a socket that is not connected, or no stream socket.
        TypeError: It is nothing of this kind.
    """
    if isinstance(source, FrameTransport):
        return source
    if isinstance(source, ByteStream):
        return carry(source)
    if isinstance(source, trio.SocketStream | socket.socket | trio.socket.SocketType):
        return carry(adopt(source))
    if isinstance(source, int) and not isinstance(source, bool):
        return carry(adopt(source))
    if isinstance(source, trio.abc.Stream):
        return carry(ByteStream(source, TransportInfo(scheme="stream")))
    raise TypeError(
        f"an address, an open stream, a transport or a socket is needed, not "
        f"{type(source).__name__}"
    )


async def dial_rsio(
    uri: Uri, *, ssl_context: ssl.SSLContext | None, handshake_timeout: float
) -> FrameTransport:
    """Connect to a server.

    Args:
        uri: Its address.
        ssl_context: How to verify it; by default with the system's authorities. TLS offers the
            protocol ``rsio/0``, which this sets on the context.
        handshake_timeout: How long handshakes may take, in seconds.

    Raises:
        ConnectFailed: No connection could be made; ``__cause__`` holds the error.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    if uri.is_encrypted and not uri.is_websocket:
        if ssl_context is None:
            ssl_context = ssl.create_default_context()
        ssl_context.set_alpn_protocols([ALPN])
    shake_hands = partial(
        rsio_over,
        uri=uri,
        shake_hands=lambda connected: request_websocket(connected.stream, uri),
    )
    return await dial(
        uri, shake_hands, ssl_context=ssl_context, handshake_timeout=handshake_timeout
    )


def offer_alpn(uri: Uri, ssl_context: ssl.SSLContext | None) -> None:
    """Let clients of ``rsios`` ask for the protocol ``rsio/0``."""
    if uri.is_encrypted and not uri.is_websocket and ssl_context is not None:
        # Both, as one context may serve WebSockets too.
        ssl_context.set_alpn_protocols([ALPN, "http/1.1"])


async def rsio_over(
    stream: ByteStream, uri: Uri, shake_hands: Callable[[ByteStream], Awaitable[Handshake]]
) -> FrameTransport:
    """Begin WebSocket if the address asks for it, and make the transport.

    Raises:
        ConnectFailed: The handshake failed, or TLS has chosen another protocol.

    Checkpoint: if it is a WebSocket.
    If cancelled: the caller closes the stream.
    """
    if uri.is_websocket:
        return await transport_over(
            stream, uri, shake_hands=shake_hands, max_frame_size=MAX_MESSAGE_SIZE
        )
    if uri.is_encrypted and isinstance(stream.stream, TLSStream):
        _check_alpn(stream.stream)
    return carry(stream)


def _check_alpn(stream: TLSStream) -> None:
    """Refuse another protocol; a peer that names none is not refused.

    Raises:
        ConnectFailed: The peer has chosen another one.
    """
    chosen = stream.ssl_object.selected_alpn_protocol()
    if chosen not in {None, ALPN}:
        raise ConnectFailed(f"the peer speaks {chosen!r} here, not {ALPN!r}")
