"""A socket with few system calls and few turns of trio's loop: `DirectStream`.

`trio.SocketStream` tries to read before it waits, and lets other tasks run after each write. That
is right for programs in general; here it costs every batch of frames a system call and a turn of
the loop. This waits first and reads then, and a write that the kernel takes at once is over at
once (docs/performance.md has what it bought).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import trio
from trio.lowlevel import checkpoint_if_cancelled, wait_readable, wait_writable

from .. import os_support

__all__ = ["DirectStream", "direct"]


def direct(stream: trio.SocketStream) -> trio.abc.HalfCloseableStream:
    """The fastest there is over this socket: where it is no file descriptor, the stream itself."""
    return DirectStream(stream) if os_support.DIRECT_SOCKETS else stream


class DirectStream(trio.abc.HalfCloseableStream):
    """Reads and writes the socket of a `trio.SocketStream`, which it owns.

    For one task that sends and one that receives; it does not guard against more.

    Attributes:
        inner: The stream that it closes.
        socket: Its socket.
        note_progress: Called when a part has left of what the kernel does not take at once.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._closed = False
        self.inner = stream
        self.socket = stream.socket
        self.note_progress: Callable[[], None] | None = None
        self._rest: list[bytes] = []
        self._error: OSError | None = None  # of `send_nowait`: the kernel tells it only once

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, all of them.

        Raises:
            trio.BrokenResourceError: The peer is gone.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: a cancellation point always; other tasks run where the kernel's buffer is full.
        If cancelled: any part of the data may have been sent.
        """
        await checkpoint_if_cancelled()
        if self._rest:
            if self._error is not None:
                raise self._translated(self._error) from self._error
            data = b"".join([*self._rest, data])
            self._rest.clear()
        sent = self._write(data)
        if sent < len(data):
            with memoryview(data) as view:
                while sent < len(view):
                    await wait_writable(self.socket)
                    with view[sent:] as rest:
                        sent += self._write(rest)
                    if self.note_progress is not None:
                        self.note_progress()

    def send_nowait(self, data: bytes) -> bool:
        """Send what the kernel takes at once, and keep the rest, which the next `send_all` sends.

        Only while `send_all` does not run.

        Returns:
            Whether nothing is left. Errors are for `send_all` to raise, or for `receive_some`,
            whichever comes first.
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

        Checkpoint: always.
        If cancelled: nothing happens.
        """
        await wait_writable(self.socket)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Wait for bytes and return those that are here; empty at the end of the stream.

        Raises:
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: always.
        If cancelled: nothing is lost.
        """
        while True:
            await self.wait_received()
            data = self.receive_nowait(max_bytes or 65536)
            if data is not None:
                return data

    def wait_received(self) -> Awaitable[None]:
        """Wait until `receive_nowait` is worth a try. To be awaited at once.

        Raises:
            trio.ClosedResourceError: This stream was closed here.

        Checkpoint: always.
        If cancelled: nothing happens.
        """
        if self._closed:
            raise trio.ClosedResourceError("this stream was closed")
        return wait_readable(self.socket)  # noqa: ASYNC105  # the caller awaits it

    def receive_nowait(self, max_bytes: int) -> bytes | None:
        """The bytes that are here, at most so many; empty at the end of the stream.

        Returns:
            ``None``: there are none yet.

        Raises:
            trio.BrokenResourceError: The connection broke.
            trio.ClosedResourceError: This stream was closed here.
        """
        try:
            data = os.read(self.socket.fileno(), max_bytes)
        except BlockingIOError:
            return None  # woken for nothing, which the kernel may do
        except OSError as error:
            raise self._translated(error) from error
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
        If cancelled: closed all the same.
        """
        self._closed = True
        self._rest.clear()  # see `ByteStreamTransport.aclose`
        await self.inner.aclose()

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
