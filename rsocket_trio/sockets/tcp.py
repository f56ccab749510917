"""TCP: dial and listen."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from ..uri import Uri
from .failures import describe_failure
from .socket_facts import host_and_port

__all__ = ["bound_uri", "connect_tcp", "listen_tcp"]

_REUSE_PORT: Final[int | None] = getattr(socket, "SO_REUSEPORT", None)
_BACKLOG: Final = 0xFFFF  # as trio's; the kernel takes less


async def connect_tcp(uri: Uri) -> trio.SocketStream:
    """Dial ``uri.host`` and ``uri.port``; use the first of its addresses that answers.

    trio's streams have TCP_NODELAY set, so a frame is sent without delay.

    Raises:
        OSError: No address answered.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    return await trio.open_tcp_stream(uri.host, uri.port)


async def listen_tcp(uri: Uri, *, reuse_port: bool = False) -> list[trio.SocketListener]:
    """Listen on every address of ``uri.host``: a name such as ``localhost`` may have several.

    Args:
        uri: The address.
        reuse_port: Other processes of this user may listen on it as well (SO_REUSEPORT, socket(7)).

    Raises:
        OSError: An address is in use, or does not belong to this machine, or this system has no
            SO_REUSEPORT.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    if not reuse_port:
        with _resolvable():
            return await trio.open_tcp_listeners(uri.port, host=uri.host)
    if _REUSE_PORT is None:
        raise OSError(errno.ENOPROTOOPT, "this system has no SO_REUSEPORT")
    # trio's function has no way to set the option, which is needed before the socket is bound.
    with _resolvable():
        places = await trio.socket.getaddrinfo(
            uri.host, uri.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    listeners: list[trio.SocketListener] = []
    try:
        for family, kind, protocol, _, place in places:
            sock = trio.socket.socket(family, kind, protocol)
            listening = False
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.setsockopt(socket.SOL_SOCKET, _REUSE_PORT, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                await sock.bind(place)
                sock.listen(_BACKLOG)
                listening = True
            finally:
                if not listening:
                    sock.close()
            listeners.append(trio.SocketListener(sock))
    except BaseException:  # also when cancelled: leave no socket open
        for each in listeners:
            each.socket.close()
        raise
    return listeners


def bound_uri(uri: Uri, listener: trio.SocketListener) -> Uri:
    """Return ``uri`` with the real address and port of the listener."""
    host, port = host_and_port(listener.socket.getsockname())
    return Uri(scheme=uri.scheme, host=host, port=port, path=uri.path)


@contextmanager
def _resolvable() -> Iterator[None]:
    """Make the `UnicodeError` of a name that cannot be encoded for the resolver an `OSError`."""
    try:
        yield
    except UnicodeError as error:
        text = f"the host name cannot be encoded: {describe_failure(error)}"
        raise OSError(errno.EINVAL, text) from error
