"""vsock: streams between a virtual machine and its host (vsock(7)): dial and listen."""

from __future__ import annotations

import errno
import socket
from typing import Final

import trio

from .. import os_support
from ..uri import VSOCK_ANY, Uri

__all__ = ["bound_vsock_uri", "connect_vsock", "listen_vsock"]

_BACKLOG: Final = 1024


async def connect_vsock(uri: Uri) -> trio.SocketStream:
    """Dial the port ``uri.port`` of the virtual machine ``uri.host``.

    Raises:
        OSError: No process listens there, there is no such machine, or this system has no vsock.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    cid, port = _address(uri)
    if cid == VSOCK_ANY:
        reason = "the cid 'any' is for servers: dial a number, 'host' or 'local'"
        raise OSError(errno.EINVAL, reason)
    sock = _new_socket()
    try:
        await sock.connect((cid, port))
        return trio.SocketStream(sock)
    except BaseException:  # also when cancelled: do not leave the socket open
        sock.close()
        raise


async def listen_vsock(uri: Uri) -> trio.SocketListener:
    """Listen on the port ``uri.port``; 0 is any free one.

    Raises:
        OSError: The port is in use or reserved (below 1024), the cid is not one of this machine,
            or this system has no vsock.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    cid, port = _address(uri)
    sock = _new_socket()
    try:
        await sock.bind((cid, port or VSOCK_ANY))
        sock.listen(_BACKLOG)
        return trio.SocketListener(sock)
    except BaseException:  # also when cancelled: do not leave the socket open
        sock.close()
        raise


def bound_vsock_uri(uri: Uri, listener: trio.SocketListener) -> Uri:
    """Return ``uri`` with the real port of the listener."""
    return Uri(scheme=uri.scheme, host=uri.host, port=listener.socket.getsockname()[1])


def _address(uri: Uri) -> tuple[int, int]:
    return VSOCK_ANY if uri.host == "any" else int(uri.host), uri.port


def _new_socket() -> trio.socket.SocketType:
    if not os_support.VSOCK:
        raise OSError(errno.EAFNOSUPPORT, os_support.NO_VSOCK)
    try:
        return trio.socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    except OSError as error:  # Python knows vsock, and this kernel does not.
        if error.errno != errno.EAFNOSUPPORT:
            raise
        raise OSError(errno.EAFNOSUPPORT, os_support.NO_VSOCK) from None
