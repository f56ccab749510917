"""Standard input, output and error, also where whoever started us has closed them.

A closed one leaves its number to the next file that is opened: a socket, say, and what is printed
would go to the peer. So each number is taken, before anything else is opened, by a file that fails
as a closed one does (EBADF).
"""

from __future__ import annotations

import os
import sys

from .exits import LOCAL_IO, Failure

__all__ = ["discard_output", "flush_output", "occupy_closed", "print_bytes"]


def occupy_closed() -> None:
    """Take the numbers of closed standard streams; what is said on a closed stderr is dropped."""
    # Opened the wrong way round: reading the first and writing the second fails.
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, mode)  # the lowest number that is free: this one
    if sys.stderr is None:
        # Not left at None: ``print`` takes that for standard output.
        sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115


def print_bytes(line: bytes) -> None:
    """Write to standard output, at once.

    Raises:
        BrokenPipeError: Whoever read it has gone.
        Failure: It cannot be written to for another reason.
    """
    if sys.stdout is None:
        raise Failure("standard output is closed", LOCAL_IO)
    try:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(error) from error


def flush_output() -> None:
    """Write what is buffered: not left to the end of the interpreter, which fails in its own way.

    Raises:
        BrokenPipeError: Whoever read it has gone.
        Failure: It cannot be written for another reason.
    """
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(error) from error


def discard_output() -> None:
    """What is still buffered goes nowhere, without a complaint at the end of the interpreter."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _unwritable(error: OSError) -> Failure:
    return Failure(f"cannot write to standard output: {error.strerror}", LOCAL_IO)
