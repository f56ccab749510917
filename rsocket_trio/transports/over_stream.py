"""Make a transport from a connected socket, by the scheme of its address: `transport_over`.

Clients and servers both use it; they pass their own halves of the handshakes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import trio

from ..uri import Uri
from .base import FrameTransport, TransportInfo
from .byte_stream import ByteStreamTransport
from .direct import DirectStream, direct
from .tcp import socket_addresses
from .tls import TLSStream, peer_certificate
from .unix import peer_credentials
from .websocket_handshake import Handshake
from .wsproto_stream import WsprotoTransport

__all__ = ["transport_over"]


async def transport_over(
    stream: trio.SocketStream,
    uri: Uri,
    *,
    dialled: bool,
    start_tls: Callable[[trio.SocketStream], Awaitable[TLSStream]],
    shake_hands: Callable[[trio.abc.Stream], Awaitable[Handshake]],
    max_frame_size: int,
    listener: str = "",
) -> FrameTransport:
    """Begin TLS and WebSocket if the address asks for them, and make the transport.

    Args:
        stream: A connected stream. It is left open on failure.
        uri: The server's address.
        dialled: Whether we are the client.
        start_tls: Our half of the TLS handshake.
        shake_hands: Our half of the WebSocket handshake.
        max_frame_size: The peer's frames may be this long, in bytes.
        listener: See `TransportInfo.listener`.

    Raises:
        ConnectFailed: The WebSocket handshake failed.
        trio.BrokenResourceError: The connection broke, or the TLS handshake failed.

    Checkpoint: if there is a handshake.
    If cancelled: you can only close the stream then.
    """
    extra: dict[str, object] = {}
    if uri.scheme == "unix":
        local, peer = ("", uri.path) if dialled else (uri.path, "")
        extra["peer_credentials"] = peer_credentials(stream)
    else:
        local, peer = socket_addresses(stream)
    carrier: trio.abc.Stream = direct(stream)
    if uri.is_encrypted:
        carrier = secure = await start_tls(stream)
        extra["peer_certificate"] = peer_certificate(secure)
    info = TransportInfo(scheme=uri.scheme, peer=peer, local=local, listener=listener, extra=extra)
    if not uri.is_websocket:
        return ByteStreamTransport(carrier, info=info, max_frame_size=max_frame_size)
    try:
        handshake = await shake_hands(carrier)
    except BaseException:  # also when cancelled: the caller closes ``stream``, not ``carrier``
        if isinstance(carrier, DirectStream):
            carrier.detach()
        raise
    return WsprotoTransport(
        carrier,
        handshake.connection,
        info=attrs.evolve(info, path=handshake.path, headers=handshake.headers),
        max_frame_size=max_frame_size,
        trailing_data=handshake.trailing_data,
    )
