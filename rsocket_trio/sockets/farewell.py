"""Close a connection so that the last bytes on the way arrive: `half_close`, `drop_bytes`."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from .tapped import TappedStream
from .tls_stream import TLSStream

__all__ = ["LINGER", "drop_bytes", "half_close"]

LINGER: Final = 1.0
"""How long a peer may take to read our last words and to close too, in seconds. A peer of this
package closes as soon as it has read them, so this is a round trip and a busy moment of its loop.
A peer that never closes delays the stop of a server by this time; over RSocket by twice this time,
as requests that have crossed the announcement are answered first."""

_MAX_DRAINED: Final = 64 * 2**20
"""Bytes of a peer that does not stop, before it is cut off: several of the largest frames, which a
peer may send as a whole before it reads."""


async def half_close(stream: trio.abc.Stream, patience: float = LINGER) -> None:
    """Send the end of the stream, and drop what still arrives until the peer closes too.

    If a socket is closed while bytes of the peer are unread, the system sends a reset, and the peer
    loses what it has not read yet.

    Args:
        stream: Closed by the caller after this.
        patience: The longest time in seconds.

    Checkpoint: always.
    If cancelled: close the stream at once.
    """
    if isinstance(stream, TappedStream):
        stream = stream.transport_stream
    carrier = stream.transport_stream if isinstance(stream, TLSStream) else stream
    with (
        trio.move_on_after(patience),
        suppress(trio.BrokenResourceError, trio.ClosedResourceError),
    ):
        if isinstance(stream, trio.abc.HalfCloseableStream):
            await stream.send_eof()
        await drop_bytes(carrier)


async def drop_bytes(stream: trio.abc.ReceiveStream) -> None:
    """Receive and drop bytes until the end, but not without a bound.

    Raises:
        trio.BrokenResourceError: The connection broke.
        trio.ClosedResourceError: The stream was closed here.

    Checkpoint: always.
    If cancelled: nothing changes.
    """
    left = _MAX_DRAINED
    while left > 0 and (data := await stream.receive_some(65536)):
        left -= len(data)
