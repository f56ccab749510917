"""TCP: dial, listen, and say who is there."""

from __future__ import annotations

import trio

from ..uri import Uri, join_host_port

__all__ = ["bound_uri", "connect_tcp", "listen_tcp", "socket_addresses"]


async def connect_tcp(uri: Uri) -> trio.SocketStream:
    """Dial ``uri.host`` and ``uri.port``; of several addresses the first that answers.

    trio's streams have TCP_NODELAY set: a frame leaves when it is sent.

    Raises:
        OSError: No address answered.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    return await trio.open_tcp_stream(uri.host, uri.port)


async def listen_tcp(uri: Uri) -> list[trio.SocketListener]:
    """Listen on every address of ``uri.host``: a name such as ``localhost`` may have several.

    Raises:
        OSError: An address is in use, or not of this machine.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    return await trio.open_tcp_listeners(uri.port, host=uri.host)


def bound_uri(uri: Uri, listener: trio.SocketListener) -> Uri:
    """``uri`` with the address and the port the listener really has."""
    host, port = listener.socket.getsockname()[:2]
    return Uri(scheme=uri.scheme, host=host, port=port, path=uri.path)


def socket_addresses(stream: trio.SocketStream) -> tuple[str, str]:
    """Our own address and the peer's, as ``host:port``; empty for one that is gone by now."""
    try:
        local = join_host_port(*stream.socket.getsockname()[:2])
        peer = join_host_port(*stream.socket.getpeername()[:2])
    except OSError:
        return "", ""
    return local, peer
