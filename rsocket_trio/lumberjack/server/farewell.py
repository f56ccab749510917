"""Close a connection so that the ACKs on the way arrive: `half_close`."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

__all__ = ["half_close"]

_MAX_DRAINED: Final = 64 * 2**20
"""Bytes of a sender that does not stop, before it is cut off."""


async def half_close(stream: trio.abc.Stream, patience: float) -> None:
    """Send the end of the stream, and drop what still arrives until the peer closes too.

    If a socket is closed while bytes of the peer are unread, the system sends a reset, and the peer
    loses what it has not read yet.

    Args:
        stream: Closed by the caller after this.
        patience: The longest time in seconds.

    Checkpoint: always.
    If cancelled: close the stream at once.
    """
    carrier = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    left = _MAX_DRAINED
    with (
        trio.move_on_after(patience),
        suppress(trio.BrokenResourceError, trio.ClosedResourceError),
    ):
        if isinstance(carrier, trio.abc.HalfCloseableStream):
            await carrier.send_eof()
        while left > 0 and (data := await carrier.receive_some(65536)):
            left -= len(data)
