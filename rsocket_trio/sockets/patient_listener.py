"""A listener that waits while the system has no room for one more connection: `PatientListener`."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from typing import Final

import trio

from ..log_policy import logger
from ..uri import Uri, shown
from .unix import UnixListener

__all__ = ["PatientListener"]

_PAUSE: Final = 0.1
"""The time between two attempts, in seconds."""

_LONGEST_QUEUE: Final = 65536
"""The longest queue of a listening socket that systems allow: a bound for the last connections."""

_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


class PatientListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts connections, and tries again while there are no file descriptors left.

    `trio.serve_listeners` does so too, but logs every attempt with a traceback: ten per second
    while strangers hold all the descriptors. This listener logs within the limit of `log_policy`.

    Args:
        listener: The listener that accepts.
        uri: Its address, for the log.
        takes_last: Whether the last connections are taken when it is closed.

    Attributes:
        last: Connections that the system had accepted when the listener was closed, and nobody had
            taken. The system would reset them.
    """

    def __init__(
        self,
        listener: trio.abc.Listener[trio.SocketStream],
        uri: Uri,
        *,
        takes_last: bool = False,
    ) -> None:
        self._listener = listener
        self._uri = uri
        self._takes_last = takes_last
        self.last: list[trio.SocketStream] = []

    async def accept(self) -> trio.SocketStream:
        """Wait for the next connection.

        Raises:
            OSError: Accepting failed for another reason than lack of room.

        Checkpoint: always.
        If cancelled: no connection is lost.
        """
        while True:
            try:
                return await self._listener.accept()
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                why = os.strerror(error.errno)
            logger.error(
                "%s: cannot accept connections now, trying again: %s", shown(self._uri), why
            )
            await trio.sleep(_PAUSE)

    async def aclose(self) -> None:
        """Stop listening, and put the last connections into `last`.

        Checkpoint: always.
        If cancelled: closed nevertheless.
        """
        queue = None
        if self._takes_last and isinstance(self._listener, trio.SocketListener | UnixListener):
            self._takes_last = False
            queue = socket.socket(fileno=self._listener.socket.dup().detach())
        try:
            await self._listener.aclose()
        finally:
            if queue is not None:
                with queue:
                    self.last += _all_of(queue)


def _all_of(queue: socket.socket) -> Iterator[trio.SocketStream]:
    """Accept what is in the queue of a listening socket, without waiting."""
    queue.setblocking(False)
    for _ in range(_LONGEST_QUEUE):
        try:
            accepted, _address = queue.accept()
        except OSError:  # none is left, or there is no room for it
            return
        yield trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
