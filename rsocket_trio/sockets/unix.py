"""Unix sockets: dial, and listen without replacing a socket file that is in use."""

from __future__ import annotations

import errno
import os
import socket
import stat
import sys
from contextlib import suppress
from typing import Final

import trio

from .. import os_support
from ..uri import Uri
from .file_lock import locked

__all__ = ["UnixListener", "connect_unix", "listen_unix"]

_BACKLOG: Final = 1024

_LONGEST_NAME: Final = 107 if sys.platform == "linux" else 103
"""Bytes of a path: ``sun_path`` has one more, for a NUL (unix(7); 104 on macOS and BSD)."""

_FIRST_PAUSE: Final = 0.005
_LONGEST_PAUSE: Final = 0.25
"""The pauses between attempts while the listener's queue is full, in seconds; each is twice the one
before. The kernel tells nobody when there is a place."""

_PATIENCE: Final = 10.0
"""How long to try, in seconds. A blocking ``connect`` waits without end."""


async def connect_unix(uri: Uri) -> trio.SocketStream:
    """Dial the socket file ``uri.path``, or the abstract socket of this name.

    Raises:
        OSError: The file does not exist, no process listens on it, we may not connect, or the
            listener accepts nothing for 10 s and its queue is full.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    _check_path(uri.path)
    pause = _FIRST_PAUSE
    with trio.move_on_after(_PATIENCE):
        while True:
            stream = await trio.open_unix_socket(_socket_name(uri.path))
            try:
                stream.socket.getpeername()
            except OSError as error:
                # A full queue is EAGAIN, for which trio waits as for EINPROGRESS: it gives us a
                # socket that is not connected.
                await trio.aclose_forcefully(stream)
                if error.errno != errno.ENOTCONN:
                    raise
            else:
                return stream
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
    reason = f"its queue of connections was full for {_PATIENCE:g} s: the server accepts none"
    raise OSError(errno.EAGAIN, reason)


class UnixListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts connections on a socket file, and removes the file when closed.

    Args:
        listener: The listener on the socket.
        path: The path of the socket file that it made.

    Attributes:
        socket: The socket.
    """

    def __init__(self, listener: trio.SocketListener, path: str) -> None:
        self.socket = listener.socket
        self._listener = listener
        self._path = path
        self._identity = _identity(path)

    async def accept(self) -> trio.SocketStream:
        """Wait for the next connection.

        Checkpoint: always.
        If cancelled: no connection is lost.
        """
        return await self._listener.accept()

    async def aclose(self) -> None:
        """Stop listening and remove the file, unless another file has replaced it.

        Checkpoint: always.
        If cancelled: closed and removed nevertheless.
        """
        identity, self._identity = self._identity, None
        if identity is not None and identity == _identity(self._path):
            with suppress(OSError):
                os.unlink(self._path)
        await self._listener.aclose()


async def listen_unix(uri: Uri) -> UnixListener | trio.SocketListener:
    """Listen on the socket file ``uri.path``, or as the abstract socket of this name.

    A stale socket file, which a crash has left and no process listens on, is replaced. If several
    processes begin at once, one succeeds: each locks the file ``path.lock`` first, and removes it
    when it listens. The mode of the socket file comes from the process's umask: restrict the
    directory to restrict who may connect. An abstract socket has no file: every process of the
    network namespace may connect, and the name is free when its listener is closed.

    Raises:
        OSError: Another process listens there, or the path is not a socket, or the file cannot be
            made.

    Checkpoint: always.
    If cancelled: nothing stays open, and no file of ours is left.
    """
    path = uri.path
    _check_path(path)
    if _is_abstract(path):
        return await _bind(path)
    async with locked(f"{path}.lock"):
        await _remove_stale(path)
        return await _bind(path)


def _check_path(path: str) -> None:
    if not os_support.UNIX_SOCKETS:
        raise OSError(errno.EAFNOSUPPORT, os_support.NO_UNIX_SOCKETS)
    if _is_abstract(path) and not os_support.ABSTRACT_SOCKETS:
        raise OSError(errno.EAFNOSUPPORT, os_support.NO_ABSTRACT_SOCKETS)
    size = len(os.fsencode(path))
    limit = _LONGEST_NAME + _is_abstract(path)  # There is no NUL behind an abstract name.
    if size > limit:  # Python's own error names no limit, and has no errno.
        reason = f"the path of a Unix socket has at most {limit} bytes, and this one has {size}"
        raise OSError(errno.ENAMETOOLONG, reason)


def _is_abstract(path: str) -> bool:
    return path.startswith("@")


def _socket_name(path: str) -> str:
    """Return the name for the kernel, which writes ``@`` as a NUL (unix(7), "Address format")."""
    return "\0" + path[1:] if _is_abstract(path) else path


async def _bind(path: str) -> UnixListener | trio.SocketListener:
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await sock.bind(_socket_name(path))
        # No checkpoint from here on: a cancellation must not leave the file without an owner.
        sock.listen(_BACKLOG)
        listener = trio.SocketListener(sock)
        return listener if _is_abstract(path) else UnixListener(listener, path)
    except BaseException:  # also when cancelled: do not leave the socket open
        sock.close()
        raise


async def _remove_stale(path: str) -> None:
    """Remove a socket file without a listener. The caller holds the lock, so it cannot change."""
    asked = _identity(path)
    if asked is None:
        return
    if not stat.S_ISSOCK(asked[2]):
        raise FileExistsError(errno.EEXIST, "the path is a file that is not a socket", path)
    try:
        stream = await trio.open_unix_socket(path)
    except ConnectionRefusedError:
        # Other programs do not use the lock: remove only the file that was examined.
        if _identity(path) == asked:
            with suppress(FileNotFoundError):
                os.unlink(path)
    except FileNotFoundError:
        pass
    except BlockingIOError:
        # The queue of connections is full, so there is a listener.
        raise OSError(errno.EADDRINUSE, "another process listens on this path", path) from None
    else:
        await trio.aclose_forcefully(stream)
        raise OSError(errno.EADDRINUSE, "another process listens on this path", path)


def _identity(path: str) -> tuple[int, int, int] | None:
    """Return device, inode and type of a file, to recognise it; ``None`` if there is no file."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)
