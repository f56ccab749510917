"""Make a transport from a connected stream, by the scheme of its address: `transport_over`.

Clients and servers both use it; they pass their own halves of the WebSocket handshake.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from ..sockets.byte_stream import ByteStream
from ..uri import Uri
from .base import FrameTransport
from .byte_stream import ByteStreamTransport
from .websocket_handshake import Handshake
from .wsproto_stream import WsprotoTransport

__all__ = ["transport_over"]


async def transport_over(
    connected: ByteStream,
    uri: Uri,
    *,
    shake_hands: Callable[[ByteStream], Awaitable[Handshake]],
    max_frame_size: int,
) -> FrameTransport:
    """Begin WebSocket if the address asks for it, and make the transport.

    Args:
        connected: A connected stream. It is left open on failure.
        uri: The server's address.
        shake_hands: Our half of the WebSocket handshake.
        max_frame_size: The peer's frames may be this long, in bytes.

    Raises:
        ConnectFailed: The WebSocket handshake failed.
        trio.BrokenResourceError: The connection broke.

    Checkpoint: if there is a handshake.
    If cancelled: you can only close the stream then.
    """
    carrier, info = connected.stream, connected.info
    if not uri.is_websocket:
        return ByteStreamTransport(carrier, info=info, max_frame_size=max_frame_size)
    try:
        handshake = await shake_hands(connected)
    except BaseException:  # also when cancelled: the caller closes the socket, not ``carrier``
        connected.detach()
        raise
    return WsprotoTransport(
        carrier,
        handshake.connection,
        info=attrs.evolve(info, path=handshake.path, headers=handshake.headers),
        max_frame_size=max_frame_size,
        trailing_data=handshake.trailing_data,
    )
