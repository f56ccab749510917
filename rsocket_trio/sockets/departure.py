"""Whether the peer of a connection has left, although its bytes are not read.

`has_left` says whether it sends no more; it may still read. `is_gone` says whether it has closed
both directions, or reset the connection.
"""

from __future__ import annotations

import select

import trio

from .. import os_support
from .direct import DirectStream

__all__ = ["has_left", "is_gone"]


def has_left(stream: trio.abc.Stream) -> bool:
    """Return whether the peer has closed or reset the connection.

    A read would tell so only behind all bytes that wait. Here the kernel is asked, which knows it
    at once. False for a stream that is no socket, and on systems that do not tell.

    Args:
        stream: A stream of a `rsocket_trio.sockets.byte_stream.ByteStream`.
    """
    return bool(os_support.POLL_HANGUP) and _polled(stream, os_support.POLL_HANGUP)


def is_gone(stream: trio.abc.Stream) -> bool:
    """Return whether the peer neither sends nor reads any more.

    The kernel knows it of a Unix socket. Of TCP it knows only a reset: a peer that has closed its
    socket looks like one that has closed its sending half. False for a stream that is no socket.

    Args:
        stream: A stream of a `rsocket_trio.sockets.byte_stream.ByteStream`.
    """
    # With no event asked for, the kernel reports hang-ups and errors.
    return os_support.POLLED_FILES and _polled(stream, 0)


def _polled(stream: trio.abc.Stream, events: int) -> bool:
    carrier = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    if not isinstance(carrier, DirectStream | trio.SocketStream):
        return False
    descriptor = carrier.socket.fileno()
    if descriptor == -1:  # Closed by us.
        return False
    poll = select.poll()
    poll.register(descriptor, events)
    return bool(poll.poll(0))
