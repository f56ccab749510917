"""TCP: dial and listen."""

from __future__ import annotations

import trio

from ..uri import Uri
from .peer import host_and_port

__all__ = ["bound_uri", "connect_tcp", "listen_tcp"]


async def connect_tcp(uri: Uri) -> trio.SocketStream:
    """Dial ``uri.host`` and ``uri.port``; use the first of its addresses that answers.

    trio's streams have TCP_NODELAY set, so a frame is sent without delay.

    Raises:
        OSError: No address answered.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    return await trio.open_tcp_stream(uri.host, uri.port)


async def listen_tcp(uri: Uri) -> list[trio.SocketListener]:
    """Listen on every address of ``uri.host``: a name such as ``localhost`` may have several.

    Raises:
        OSError: An address is in use, or does not belong to this machine.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    return await trio.open_tcp_listeners(uri.port, host=uri.host)


def bound_uri(uri: Uri, listener: trio.SocketListener) -> Uri:
    """Return ``uri`` with the real address and port of the listener."""
    host, port = host_and_port(listener.socket.getsockname())
    return Uri(scheme=uri.scheme, host=host, port=port, path=uri.path)
