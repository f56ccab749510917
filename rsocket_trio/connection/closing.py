"""Close a transport so that the peer can read the last frames: `close_politely`.

The owner of the transport closes the socket then: `rsocket_trio.service` at a server,
`rsocket_trio.client` at a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ..sockets.farewell import LINGER

if TYPE_CHECKING:
    from ..transports.base import FrameTransport

__all__ = ["close_politely"]


async def close_politely(transport: FrameTransport) -> None:
    """Close the sending side, and give the peer a moment to read the last frames.

    Closing a socket with unread data resets the connection, and the peer may never read the last
    frames. So this receives and drops all frames until the peer closes too.

    Raises:
        trio.BrokenResourceError: The transport is gone.
        RemoteProtocolError: The peer sends malformed frames.

    Checkpoint: always.
    If cancelled: close the transport.
    """
    with trio.move_on_after(LINGER):
        if await transport.close_sending():
            await transport.drop_received()
