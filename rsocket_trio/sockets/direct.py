"""A socket with few system calls and few turns of trio's loop: `DirectStream`.

`trio.SocketStream` tries to read before it waits, and lets other tasks run after each write. That
suits programs in general; here it costs every batch of frames a system call and a turn of the
loop. `DirectStream` waits first and then reads, and a write returns at once if the kernel accepts
all the bytes (docs/performance.md has the gain).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from socket import AF_INET, AF_INET6
from typing import Final

import trio
from trio.lowlevel import checkpoint, checkpoint_if_cancelled

from .. import os_support
from .readiness import Watch, until_readable, until_writable

__all__ = ["DirectStream", "close_stream", "direct"]

_INTERNET: Final = (AF_INET, AF_INET6)


def direct(stream: trio.SocketStream) -> trio.abc.HalfCloseableStream:
    """Return a `DirectStream`, or the stream itself if sockets are not file descriptors."""
    return DirectStream(stream) if os_support.DIRECT_SOCKETS else stream


async def close_stream(stream: trio.abc.AsyncResource) -> None:
    """Close a stream, whose descriptor may be closed already.

    Checkpoint: as ``stream.aclose``.
    If cancelled: as ``stream.aclose``.
    """
    try:
        await stream.aclose()
    except OSError:  # the descriptor was closed elsewhere, so there is nothing left to close
        await checkpoint()


class DirectStream(trio.abc.HalfCloseableStream):
    """Reads and writes the socket of a `trio.SocketStream`, which it owns.

    One task may send and one may receive; this is not checked.

    Attributes:
        inner: The stream that it closes.
        socket: The socket of the stream.
        note_progress: Called each time the kernel accepts a further part of a write that it did
            not accept at once.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._watch: Watch | None = None
        self._closed = False
        self.inner = stream
        self.socket = stream.socket
        self.note_progress: Callable[[], None] | None = None
        # A read of a Unix socket stops behind bytes that came with file descriptors.
        self._fills_buffer = stream.socket.family in _INTERNET
        self._rest: list[bytes] = []
        self._error: OSError | None = None  # of `send_nowait`: the kernel reports it only once

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all the bytes.

        Raises:
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: a cancellation point always; other tasks run if the kernel's buffer is full.
        If cancelled: any part of the data may have been sent.
        """
        await checkpoint_if_cancelled()
        if self._rest:
            if self._error is not None:
                raise self._translated(self._error) from self._error
            data = b"".join([*self._rest, data])
            self._rest.clear()
        sent = self._write(data)
        if sent != len(data):
            with memoryview(data) as view:
                while sent < len(view):
                    await self.wait_send_all_might_not_block()
                    with view[sent:] as rest:
                        sent += self._write(rest)
                    if self.note_progress is not None:
                        self.note_progress()

    def send_nowait(self, data: bytes) -> bool:
        """Send the bytes that the kernel accepts at once, and keep the rest for `send_all`.

        Call it only while `send_all` does not run.

        Returns:
            Whether all was sent. An error is raised by the next `send_all` or `receive_some`.
        """
        if self._rest:
            self._rest.append(data)
            return False
        try:
            sent = os.write(self.socket.fileno(), data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._error = error
            sent = 0
        if sent < len(data):
            self._rest.append(data[sent:])
            return False
        return True

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the kernel has room.

        Raises:
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: always.
        If cancelled: nothing happens.
        """
        try:
            await until_writable(self.socket)
        except OSError as error:
            raise self._translated(error) from error

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and return those that have arrived; empty at the end of the stream.

        Raises:
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost.
        """
        while True:
            try:
                await self.wait_received()
            except OSError as error:
                raise self._translated(error) from error
            data = self.receive_nowait(max_bytes or 65536)
            if data is not None:
                return data

    def wait_received(self) -> Awaitable[None]:
        """Wait until `receive_nowait` may return bytes. Await the result at once.

        Raises:
            OSError: The descriptor was closed elsewhere.
            trio.BusyResourceError: Another task waits.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: always.
        If cancelled: nothing happens.
        """
        if self._closed:
            raise trio.ClosedResourceError("this stream was closed")
        watch = self._watch
        if watch is None:
            watch = self._watch = Watch()
        if not watch.readiness.shared and not watch.registered:
            return until_readable(self.socket)
        return watch.wait(self.socket)

    def receive_nowait(self, max_bytes: int) -> bytes | None:
        """Return at most ``max_bytes`` that have arrived; empty at the end of the stream.

        Returns:
            ``None`` if there are no bytes yet.

        Raises:
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This stream was closed here.
        """
        watch = self._watch
        try:
            data = os.read(self.socket.fileno(), max_bytes)
        except BlockingIOError:  # the kernel may wake us without bytes
            if watch is not None:
                watch.ready = watch.ended = False
            return None
        except OSError as error:
            raise self._translated(error) from error
        if watch is not None:
            # Whether there may be more.
            watch.ready = len(data) == max_bytes or not self._fills_buffer
        if not data and self._error is not None:
            raise self._translated(self._error) from self._error
        return data

    async def send_eof(self) -> None:
        """Send the end of the stream; receiving goes on.

        Checkpoint: always.
        If cancelled: it was not sent.
        """
        await self.inner.send_eof()

    async def aclose(self) -> None:
        """Close the socket.

        Checkpoint: always.
        If cancelled: closed nevertheless.
        """
        self.detach()
        self._rest.clear()  # see `ByteStreamTransport.aclose`
        await self.inner.aclose()

    def detach(self) -> None:
        """Use the socket no more, but leave it open."""
        self._closed = True
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def __del__(self) -> None:
        # The garbage collector may run in any thread.
        if self._watch is not None:
            self._watch.readiness.dropped.append(self._watch)

    def _write(self, data: bytes | bytearray | memoryview) -> int:
        try:
            return os.write(self.socket.fileno(), data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._translated(error) from error

    def _translated(self, error: OSError) -> Exception:
        if self.socket.fileno() == -1:
            return trio.ClosedResourceError("this stream was closed")
        return trio.BrokenResourceError(f"the socket broke: {error.strerror or error}")
