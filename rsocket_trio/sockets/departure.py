"""Whether the peer of a connection has left, although its bytes are not read.

`has_left` says whether it sends no more; it may still read. `is_gone` says whether it has closed
both directions, or reset the connection, and `wait_gone` waits for that.

A peer on TCP that closes its socket sends what one sends that closes its sending half. The kernel
learns the difference in two cases: bytes of ours were unread in that socket, which resets the
connection at once; or bytes of ours arrive later, which the other kernel answers with a reset.
"""

from __future__ import annotations

import select
from contextlib import suppress
from typing import Final

import trio

from .. import os_support
from .direct import DirectStream

__all__ = ["has_left", "is_gone", "wait_gone"]

_LOOK_EVERY: Final = 1.0
"""How often to look, in seconds, where the kernel cannot wake us."""

_LAYERS: Final = 3
"""So many streams may carry one another above a socket: TLS, a trunk of ttrpc, TLS."""


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


async def wait_gone(stream: trio.abc.Stream) -> None:
    """Wait until `is_gone`; without end if that cannot be known.

    Args:
        stream: A stream of a `rsocket_trio.sockets.byte_stream.ByteStream`.

    Checkpoint: always.
    If cancelled: nothing changes.
    """
    descriptor = _descriptor(stream)
    if os_support.EPOLL and descriptor is not None:
        # An epoll that is asked for nothing becomes readable by a hang-up or an error alone; the
        # socket itself would be readable all the time, as its end has arrived.
        with suppress(OSError), select.epoll(1) as watch:  # a process may have no descriptor left
            watch.register(descriptor, 0)
            await trio.lowlevel.wait_readable(watch.fileno())
            return
    await trio.lowlevel.checkpoint()
    while not is_gone(stream):  # noqa: ASYNC110  # nothing else tells
        await trio.sleep(_LOOK_EVERY)


def _descriptor(stream: trio.abc.Stream) -> int | None:
    carrier: object = stream
    for _ in range(_LAYERS):
        if not isinstance(carrier, DirectStream | trio.SocketStream):
            # As TLSStream and trio.SSLStream have it; the streams of a trunk of ttrpc have it too.
            carrier = getattr(carrier, "transport_stream", None)
    if not isinstance(carrier, DirectStream | trio.SocketStream):
        return None
    descriptor: int = carrier.socket.fileno()
    return None if descriptor == -1 else descriptor  # closed by us


def _polled(stream: trio.abc.Stream, events: int) -> bool:
    descriptor = _descriptor(stream)
    if descriptor is None:
        return False
    poll = select.poll()
    poll.register(descriptor, events)
    return bool(poll.poll(0))
