"""A listener that waits while the system has no room for one more connection: `PatientListener`."""

from __future__ import annotations

import errno
import os
from typing import Final

import trio

from ..log_policy import logger
from ..uri import Uri

__all__ = ["PatientListener"]

_PAUSE: Final = 0.1
"""Between two attempts, in seconds."""

_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


class PatientListener(trio.abc.Listener[trio.SocketStream]):
    """Accepts connections, and tries again while there are no file descriptors left.

    `trio.serve_listeners` does so too, but logs every attempt with a traceback: ten of them in each
    second in which strangers hold all the descriptors there are. Here that is limited in rate.

    Args:
        listener: What accepts.
        uri: For the log.
    """

    def __init__(self, listener: trio.abc.Listener[trio.SocketStream], uri: Uri) -> None:
        self._listener = listener
        self._uri = uri

    async def accept(self) -> trio.SocketStream:
        """Wait for the next connection.

        Raises:
            OSError: For another reason than want of room.

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
            logger.error("%s: no connection can be accepted for now: %s", self._uri, why)
            await trio.sleep(_PAUSE)

    async def aclose(self) -> None:
        """Stop listening.

        Checkpoint: always.
        If cancelled: closed all the same.
        """
        await self._listener.aclose()
