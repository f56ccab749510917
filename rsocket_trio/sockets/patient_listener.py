"""A listener that waits while the system has no room for one more connection: `PatientListener`."""

from __future__ import annotations

import errno
import os
from typing import Final

import trio

from ..log_policy import logger
from ..uri import Uri, shown

__all__ = ["PatientListener"]

_PAUSE: Final = 0.1
"""The time between two attempts, in seconds."""

_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


class PatientListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts connections, and tries again while there are no file descriptors left.

    `trio.serve_listeners` does so too, but logs every attempt with a traceback: ten per second
    while strangers hold all the descriptors. This listener logs within the limit of `log_policy`.

    Args:
        listener: The listener that accepts.
        uri: Its address, for the log.
    """

    def __init__(self, listener: trio.abc.Listener[trio.SocketStream], uri: Uri) -> None:
        self._listener = listener
        self._uri = uri

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
        """Stop listening.

        Checkpoint: always.
        If cancelled: closed nevertheless.
        """
        await self._listener.aclose()
