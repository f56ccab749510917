"""Standard input and output without blocking trio: `LineReader` and `Writer`.

A command that waits for its input or for the reader of its output must still answer KEEPALIVE and
react to Ctrl-C. This module does not switch file descriptors to non-blocking mode: the mode belongs
to the open file, which the shell and other processes share. Instead it waits until the kernel
reports a descriptor as ready. Then a read or a short write does not block. Regular files are always
ready, but epoll refuses them, so a poll comes before each wait.

Systems that cannot report readiness (`rsocket_trio.os_support`) read and write in threads.
"""

from __future__ import annotations

import os
import select
import stat
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

import trio

from rsocket_trio import os_support

from .exits import LOCAL_IO, Failure
from .output import for_terminal
from .standard_streams import LONGEST_LINE, is_unread, line_too_long

__all__ = ["LineReader", "Writer", "reader_gone"]

_READ_SIZE: Final = 64 * 2**10
_PAUSE: Final = 1.0
"""Seconds between two looks at a pipe that is readable, and has a reader."""


class LineReader:
    """Iterates over the lines of a file descriptor as they arrive, without their LF or CRLF.

    Raises:
        Failure: The file descriptor cannot be read, or a line is longer than `LONGEST_LINE`.
    """

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._lines: deque[bytes] = deque()
        self._rest = bytearray()
        self._ended = False

    def __aiter__(self) -> LineReader:
        return self

    async def __anext__(self) -> bytes:
        """Return the next line.

        Checkpoint: when it reads.
        If cancelled: nothing is lost.
        """
        while not self._lines:
            if self._ended:
                raise StopAsyncIteration
            await self._read()
        return self._lines.popleft().removesuffix(b"\r")

    async def _read(self) -> None:
        try:
            data = await _read(self._fd, _READ_SIZE)
        except BlockingIOError:  # another process took the data, or made the file non-blocking
            return
        except OSError as error:
            raise Failure(f"cannot read standard input: {error.strerror}", LOCAL_IO) from error
        self._ended = not data
        if b"\n" in data or self._ended:
            first, *rest = data.split(b"\n")
            self._lines.append(bytes(self._rest + first))
            self._lines.extend(rest)
            # The last piece is the beginning of an incomplete line, or empty.
            self._rest = bytearray(self._lines.pop() if rest or not self._lines[-1] else b"")
        else:
            self._rest += data
            if len(self._rest) > LONGEST_LINE:
                raise line_too_long()


class Writer:
    """Writes to a file descriptor, without a buffer.

    Raises:
        BrokenPipeError: The reader has closed the pipe.
        Failure: The file descriptor cannot be written for another reason.
    """

    def __init__(self, fd: int = 1, name: str = "standard output") -> None:
        self._fd = fd
        self._name = name

    async def write(self, data: bytes) -> None:
        """Write all of ``data``, waiting while the reader is behind.

        Checkpoint: always.
        If cancelled: a part may have been written.
        """
        rest = memoryview(for_terminal(data) if os.isatty(self._fd) else data)
        if not rest:
            await trio.lowlevel.checkpoint()
        while rest:
            try:
                rest = rest[await _write(self._fd, rest[: os_support.PIPE_SIZE]) :]
            except BlockingIOError:  # the file is in non-blocking mode, and full again
                continue
            except BrokenPipeError:
                raise
            except OSError as error:
                text = f"cannot write to {self._name}: {error.strerror}"
                raise Failure(text, LOCAL_IO) from error


async def reader_gone(fd: int = 1) -> None:
    """Wait until the reader of a pipe has closed it; without end if the file is no pipe.

    Nobody reads from this end of it, so what is reported for it is the end of the other.

    Checkpoint: always.
    If cancelled: nothing changes.
    """
    while not is_unread(fd):
        if os_support.POLLED_FILES and stat.S_ISFIFO(os.fstat(fd).st_mode):
            await trio.lowlevel.wait_readable(fd)
            await trio.sleep(_PAUSE)  # a FIFO that is open for both may have something to read
        else:
            await trio.sleep_forever()
    await trio.lowlevel.checkpoint()


async def _read(fd: int, size: int) -> bytes:
    if not os_support.POLLED_FILES:
        # An abandoned thread loses the data it reads, but then the command is ending.
        return await trio.to_thread.run_sync(os.read, fd, size, abandon_on_cancel=True)
    await _ready(fd, select.POLLIN, trio.lowlevel.wait_readable)
    return os.read(fd, size)


async def _write(fd: int, data: memoryview) -> int:
    if not os_support.POLLED_FILES:
        return await trio.to_thread.run_sync(os.write, fd, bytes(data), abandon_on_cancel=True)
    await _ready(fd, select.POLLOUT, trio.lowlevel.wait_writable)
    return os.write(fd, data)


async def _ready(fd: int, event: int, wait: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    poll = select.poll()
    poll.register(fd, event)
    if poll.poll(0):
        await trio.lowlevel.checkpoint()
    else:
        await wait(fd)
