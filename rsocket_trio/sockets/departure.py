"""Whether the peer of a connection has left, although its bytes are not read: `has_left`."""

from __future__ import annotations

import select

import trio

from .. import os_support
from .direct import DirectStream

__all__ = ["has_left"]


def has_left(stream: trio.abc.Stream) -> bool:
    """Return whether the peer has closed or reset the connection.

    A read would tell so only behind all bytes that wait. Here the kernel is asked, which knows it
    at once. False for a stream that is no socket, and on systems that do not tell.

    Args:
        stream: A stream of a `rsocket_trio.sockets.byte_stream.ByteStream`.
    """
    carrier = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    if not os_support.POLL_HANGUP or not isinstance(carrier, DirectStream | trio.SocketStream):
        return False
    descriptor = carrier.socket.fileno()
    if descriptor == -1:  # Closed by us.
        return False
    poll = select.poll()
    poll.register(descriptor, os_support.POLL_HANGUP)
    return bool(poll.poll(0))
