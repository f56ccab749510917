"""Sockets that are open already, your own or inherited ones: `adopt`."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from typing import TypeAlias

import trio

from .byte_stream import ByteStream, TransportInfo
from .direct import direct
from .socket_facts import facts_about, socket_addresses

__all__ = ["OpenSocket", "adopt", "adopt_connection", "adopt_listener", "socket_of"]

OpenSocket: TypeAlias = int | socket.socket | trio.socket.SocketType | trio.SocketStream
"""An open socket: the number of its descriptor, or an object of the standard library or of trio."""


def adopt(source: OpenSocket, *, scheme: str = "fd") -> ByteStream:
    """Use a connected socket as a `ByteStream`, which owns it from now on.

    The socket becomes non-blocking, and programs that this process starts do not inherit it. The
    facts about it are as for a dialled connection; a pair of Unix sockets has the
    ``peer_credentials`` of the process that has made the pair.

    Args:
        source: A connected stream socket. On failure it stays as it was, and yours.
        scheme: See `TransportInfo.scheme`.

    Raises:
        OSError: The descriptor is not open, or it is not a connected stream socket; the text says
            why.
    """
    stream = source if isinstance(source, trio.SocketStream) else adopt_connection(source)
    local, peer = socket_addresses(stream)
    info = TransportInfo(scheme=scheme, local=local, peer=peer, extra=facts_about(stream))
    return ByteStream(direct(stream), info)


def adopt_connection(source: int | socket.socket | trio.socket.SocketType) -> trio.SocketStream:
    """Use a connected socket as a stream, which owns it.

    Raises:
        OSError: See `adopt`.
    """
    return trio.SocketStream(_checked(source, listens=False))


def adopt_listener(source: int | socket.socket) -> trio.SocketListener:
    """Use a listening socket as a listener, which owns it. On failure it stays as it was.

    The file of a Unix socket stays when it is closed: who has made it removes it.

    Raises:
        OSError: The descriptor is not open, or it is not a listening stream socket; the text says
            why.
    """
    return trio.SocketListener(_checked(source, listens=True))


def _checked(
    source: int | socket.socket | trio.socket.SocketType, *, listens: bool
) -> trio.socket.SocketType:
    """Return a socket of trio if the kernel says that it is what it should be."""
    if not isinstance(source, int):
        _check(source, listens=listens)
        ready = source
    else:
        ready = socket_of(source)
        try:
            _check(ready, listens=listens)
        except OSError:
            ready.detach()  # It is not ours.
            raise
    os.set_inheritable(ready.fileno(), False)
    return trio.socket.from_stdlib_socket(ready) if isinstance(ready, socket.socket) else ready


def socket_of(descriptor: int) -> socket.socket:
    """Return the socket with this descriptor, which it owns.

    Raises:
        OSError: The descriptor is not open, or no socket; the text says so.
    """
    try:
        return socket.socket(fileno=descriptor)
    except OSError as error:
        why = "is not a socket" if error.errno == errno.ENOTSOCK else "is not open"
        raise OSError(error.errno, f"the descriptor {descriptor} {why}") from None


def _check(sock: socket.socket | trio.socket.SocketType, *, listens: bool) -> None:
    if sock.type != socket.SOCK_STREAM:
        raise OSError(errno.EPROTOTYPE, "it is not a stream socket")
    is_listening = False
    with suppress(OSError):  # Some systems do not have the option.
        is_listening = bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    if listens and not is_listening:
        raise OSError(errno.EINVAL, "it is not a listening socket")
    if not listens:
        if is_listening:
            raise OSError(errno.EINVAL, "it is a listening socket, not a connection")
        try:
            sock.getpeername()
        except OSError as error:
            raise OSError(error.errno, "it is not connected") from None
