"""Unix sockets: dial, and listen without taking away a socket file that is in use."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from struct import Struct
from typing import Final

import trio

from .. import os_support
from ..uri import Uri
from .file_lock import locked

__all__ = ["UnixListener", "connect_unix", "listen_unix", "peer_credentials"]

_BACKLOG: Final = 1024
_CREDENTIALS: Final = Struct("3i")


async def connect_unix(uri: Uri) -> trio.SocketStream:
    """Dial the socket file ``uri.path``.

    Raises:
        OSError: There is none, nobody listens, or it is not for us.

    Checkpoint: always.
    If cancelled: nothing stays open.
    """
    _check_supported()
    return await trio.open_unix_socket(uri.path)


class UnixListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts connections on a socket file, and removes the file when closed.

    Args:
        listener: What listens.
        path: The file it made.
    """

    def __init__(self, listener: trio.SocketListener, path: str) -> None:
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
        """Stop listening and remove the file, if it is still the one that was made here.

        Checkpoint: always.
        If cancelled: closed and removed all the same.
        """
        identity, self._identity = self._identity, None
        if identity is not None and identity == _identity(self._path):
            with suppress(OSError):
                os.unlink(self._path)
        await self._listener.aclose()


async def listen_unix(uri: Uri) -> UnixListener:
    """Listen on the socket file ``uri.path``, which must not be there or be stale.

    Stale is a socket file that nobody listens on, as a crash leaves it; it is replaced. Of several
    processes that begin there at once one succeeds: while it looks, a file beside it is locked,
    ``path.lock``, which is gone when it listens. The new file's mode comes from the umask of the
    process: the directory decides who may connect.

    Raises:
        OSError: Somebody listens there, or the file is no socket, or cannot be made.

    Checkpoint: always.
    If cancelled: nothing stays open, and no file of ours is left.
    """
    _check_supported()
    path = uri.path
    async with locked(f"{path}.lock"):
        await _remove_stale(path)
        return await _bind(path)


def _check_supported() -> None:
    if not os_support.UNIX_SOCKETS:
        raise OSError(errno.EAFNOSUPPORT, os_support.NO_UNIX_SOCKETS)


async def _bind(path: str) -> UnixListener:
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        await sock.bind(path)
        # From here to the end there is no checkpoint: the file has an owner at once.
        sock.listen(_BACKLOG)
        return UnixListener(trio.SocketListener(sock), path)
    except BaseException:
        sock.close()
        raise


async def _remove_stale(path: str) -> None:
    """Only for who holds the lock: between the question and the answer the file must not change."""
    asked = _identity(path)
    if asked is None:
        return
    if not stat.S_ISSOCK(asked[2]):
        raise FileExistsError(errno.EEXIST, "there is a file that is no socket", path)
    try:
        stream = await trio.open_unix_socket(path)
    except ConnectionRefusedError:
        # Not all programs know of the lock: at least it is the file that was asked about.
        if _identity(path) == asked:
            with suppress(FileNotFoundError):
                os.unlink(path)
    except FileNotFoundError:
        pass
    except BlockingIOError:
        # Its queue of connections is full; so there is one who listens.
        raise OSError(errno.EADDRINUSE, "somebody listens there", path) from None
    else:
        await trio.aclose_forcefully(stream)
        raise OSError(errno.EADDRINUSE, "somebody listens there", path)


def _identity(path: str) -> tuple[int, int, int] | None:
    """What tells a file from another of the same name: device, number, mode; ``None`` without."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, stat.S_IFMT(status.st_mode)


def peer_credentials(stream: trio.SocketStream) -> tuple[int, int, int] | None:
    """Process, user and group id of the peer, as the kernel knows them; ``None`` elsewhere."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    try:
        data = stream.socket.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    except OSError:
        return None
    process, user, group = _CREDENTIALS.unpack(data)
    return process, user, group
