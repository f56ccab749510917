"""Transports by address, for clients: `open_transport`."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio
import trio_websocket

from ..config import MAX_FRAME_SIZE
from ..field_checks import COUNT, SECONDS, TEXT, argument
from ..sockets.dial import dial
from ..sockets.tls import check_context
from ..uri import Uri, as_uri, shown
from .base import FrameTransport
from .over_stream import transport_over
from .websocket_handshake import normal_headers, request_websocket

__all__ = ["NO_CONNECTION", "open_transport"]

NO_CONNECTION: Final = (
    OSError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
    trio.TooSlowError,
    trio_websocket.HandshakeError,
    trio_websocket.ConnectionClosed,
)
"""Errors of a dialling function that count as `ConnectFailed`: there is no connection now."""


@asynccontextmanager
async def open_transport(
    uri: str | Uri,
    *,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ssl_context: ssl.SSLContext | None = None,
    max_frame_size: int = MAX_FRAME_SIZE,
    handshake_timeout: float = 10.0,
    address: str = "",
) -> AsyncIterator[FrameTransport]:
    """Dial a server, and close the connection at the end of the block.

    Args:
        uri: The server's address: a `Uri`, or the text of one.
        headers: WebSocket: more headers of the handshake, as a mapping or as pairs of a name and a
            value. ``Sec-WebSocket-Protocol`` proposes subprotocols.
        ssl_context: TLS: how to verify the server; by default with the system's authorities.
        max_frame_size: The server's frames may be this long, in bytes.
        handshake_timeout: How long the handshakes of TLS and WebSocket may take, in seconds.
        address: Connect to this IP address, one of those that the host of ``uri`` has. TLS verifies
            the name of the host, and a WebSocket is asked for by it.

    Yields:
        The transport, ready for frames.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: The address or a header is not valid, or the address has no use for ``headers``
            or ``ssl_context``.
        ConnectFailed: No connection could be made; the message says what failed, ``__cause__``
            holds the error.

    Checkpoint: entering and leaving, always.
    If cancelled: nothing stays open.
    """
    uri = as_uri(uri)
    check_context(ssl_context, [uri], server_side=False)
    headers = normal_headers(headers)
    argument("max_frame_size", max_frame_size, COUNT)
    argument("handshake_timeout", handshake_timeout, SECONDS)
    if headers and not uri.is_websocket:
        raise ValueError(
            f"headers= is for ws:// and wss:// only, not for {shown(uri)}: leave headers= out"
        )
    make = partial(
        transport_over,
        uri=uri,
        shake_hands=lambda connected: request_websocket(connected.stream, uri, headers),
        max_frame_size=max_frame_size,
    )
    argument("address", address, TEXT)
    transport = await dial(
        uri,
        make,
        address=address,
        ssl_context=ssl_context,
        handshake_timeout=handshake_timeout,
    )
    async with transport:
        yield transport
