"""Who is at the other end of a socket: `PeerCredentials`, and the addresses of both ends."""

from __future__ import annotations

import os
import socket
from struct import Struct
from typing import Any, Final, NamedTuple

import trio

from ..uri import VSOCK_ANY, join_host_port

__all__ = [
    "PeerCredentials",
    "facts_about",
    "host_and_port",
    "peer_credentials",
    "socket_addresses",
]

_CREDENTIALS: Final = Struct("=iII")
_UNKNOWN: Final = 2**32 - 1
_UNIX: Final = getattr(socket, "AF_UNIX", None)
_VSOCK: Final = getattr(socket, "AF_VSOCK", None)


class PeerCredentials(NamedTuple):
    """The process at the other end of a Unix socket, as the kernel knows it.

    They are those of the moment in which the peer connected, or made the pair of sockets.

    Attributes:
        pid: The id of the process; 0 if it has none in our namespace. Another process may have the
            number now, and may have inherited the socket: do not decide by it.
        uid: The id of its user.
        gid: The id of its group, the effective one; it may be in other groups too.
    """

    pid: int
    uid: int
    gid: int


def peer_credentials(stream: trio.SocketStream) -> PeerCredentials | None:
    """Return the peer's process, user and group id from the kernel; ``None`` if it cannot say."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None or stream.socket.family != _UNIX:
        return None
    try:
        data = stream.socket.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    except OSError:
        return None
    found = PeerCredentials(*_CREDENTIALS.unpack(data))
    return None if found.uid == _UNKNOWN else found


def socket_addresses(stream: trio.SocketStream) -> tuple[str, str]:
    """Return our address and the peer's as texts; both empty if the peer is gone.

    They are ``host:port`` or ``cid:port``, or the name of a Unix socket, which is often empty.
    """
    family = stream.socket.family
    try:
        return (
            _text(family, stream.socket.getsockname()),
            _text(family, stream.socket.getpeername()),
        )
    except OSError:
        return "", ""


def host_and_port(name: tuple[Any, ...]) -> tuple[str, int]:
    """Return what an address of TCP names; the zone of IPv6 too, as the host is nothing without."""
    host: str = name[0]
    port: int = name[1]
    scope = name[3] if len(name) > 3 else 0
    if not scope or "%" in host:
        return host, port
    try:
        return f"{host}%{socket.if_indextoname(scope)}", port
    except OSError:  # the interface is gone
        return f"{host}%{scope}", port


def facts_about(stream: trio.SocketStream) -> dict[str, object]:
    """Return ``peer_credentials`` of a Unix socket, ``peer_cid`` of vsock; of others nothing."""
    family = stream.socket.family
    if family == _UNIX:
        return {"peer_credentials": peer_credentials(stream)}
    if family == _VSOCK:
        try:
            return {"peer_cid": stream.socket.getpeername()[0]}
        except OSError:
            return {"peer_cid": None}
    return {}


def _text(family: int, name: Any) -> str:
    if family == _VSOCK:
        cid, port = name
        return f"{'any' if cid == VSOCK_ANY else cid}:{port}"
    if isinstance(name, tuple):
        return join_host_port(*host_and_port(name))
    text = os.fsdecode(name)
    return "@" + text[1:] if text.startswith("\0") else text
