"""Standard input, output and error, which the parent process may have closed.

The next file that a process opens, for example a socket, gets the number of a closed standard
stream. Printed text would then go to the peer. So before anything else is opened, each free number
gets a file whose use fails with EBADF, like that of a closed one.
"""

from __future__ import annotations

import os
import select
import sys
from typing import Final

from rsocket_trio import os_support

from .exits import LOCAL_IO, Failure
from .output import for_terminal

__all__ = [
    "LONGEST_LINE",
    "discard_output",
    "flush_output",
    "is_unread",
    "line_too_long",
    "occupy_closed",
    "print_bytes",
    "print_error_bytes",
]

LONGEST_LINE: Final = 64 * 2**20
"""The most bytes of a line of input. It has room for the digits of the longest frame. Without it a
file that has no lines, such as ``/dev/zero``, would fill the memory."""


def occupy_closed() -> None:
    """Fill the numbers of closed standard streams. Text for a closed stderr is dropped."""
    # The mode is the wrong one on purpose: reading standard input or writing output fails.
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number, which is ``fd``
    if sys.stderr is None:
        # ``print(file=None)`` would write to standard output.
        sys.stderr = open(  # noqa: SIM115  stays open until the process ends
            2, "w", encoding="utf-8", errors="replace", closefd=False
        )


def line_too_long() -> Failure:
    """Return the error for a line of standard input that is longer than `LONGEST_LINE`."""
    size = LONGEST_LINE // 2**20
    text = f"a line of standard input has more than {size} MiB: does the input have lines at all?"
    return Failure(text, LOCAL_IO)


def print_bytes(line: bytes) -> None:
    """Write to standard output and flush it.

    Raises:
        BrokenPipeError: The reader has closed the pipe.
        Failure: Standard output cannot be written for another reason.
    """
    if sys.stdout is None:
        raise Failure("standard output is closed", LOCAL_IO)
    try:
        sys.stdout.buffer.write(for_terminal(line) if sys.stdout.isatty() else line)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(error) from error


def print_error_bytes(line: bytes) -> None:
    """Write to standard error.

    Raises:
        Failure: It cannot be written.
    """
    try:
        sys.stderr.buffer.write(for_terminal(line) if sys.stderr.isatty() else line)
        sys.stderr.buffer.flush()
    except OSError as error:
        text = f"cannot write to standard error: {error.strerror}"
        raise Failure(text, LOCAL_IO) from error


def flush_output() -> None:
    """Flush standard output. At its exit the interpreter would report a failure in its own way.

    Raises:
        BrokenPipeError: The reader has closed the pipe.
        Failure: Standard output cannot be written for another reason.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(error) from error


def is_unread(fd: int = 1) -> bool:
    """Whether a file is a pipe that its reader has closed, as far as the system tells."""
    if not os_support.POLLED_FILES:
        return False
    poll = select.poll()
    poll.register(fd, 0)  # errors are reported in any case
    return any(events & select.POLLERR for _, events in poll.poll(0))


def discard_output() -> None:
    """Discard buffered output, so that the interpreter reports no error at its exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _unwritable(error: OSError) -> Failure:
    return Failure(f"cannot write to standard output: {error.strerror}", LOCAL_IO)
