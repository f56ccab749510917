"""Exit statuses of the command line, and what carries one: `Failure`, `unreachable`."""

from __future__ import annotations

from typing import Final

from rsocket_trio.uri import Uri, shown

__all__ = [
    "BROKEN_PIPE",
    "DONE",
    "LOCAL_IO",
    "PEER_ERROR",
    "TIMED_OUT",
    "UNREACHABLE",
    "USAGE",
    "Failure",
    "unreachable",
]

DONE: Final = 0
PEER_ERROR: Final = 1
"""The peer answered a request with an error; ``decode``, ``spool read``: some input is
malformed."""
USAGE: Final = 2
"""The command line is wrong, or a file or target that it names."""
UNREACHABLE: Final = 3
"""The connection failed, was refused or was lost; ``serve``: cannot listen."""
LOCAL_IO: Final = 4
"""Standard input, standard output, a file or the spool failed."""
TIMED_OUT: Final = 124
"""``--timeout`` was over first; ``timeout`` of the shell has the same status."""
BROKEN_PIPE: Final = 141
"""The reader of the output has closed the pipe (``| head -1``): 128 + 13, as for SIGPIPE."""


class Failure(Exception):
    """Ends the command with one line on standard error and an exit status.

    Attributes:
        message: The line, without the name of the program.
        status: The exit status.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


def unreachable(uri: str | Uri, error: Exception, hint: str = "") -> Failure:
    """Return the failure for a connection that failed or was lost; its line has the address."""
    text = str(error) or type(error).__name__
    if shown(uri) not in text:
        text = f"{shown(uri)}: {text}"
    return Failure(text + hint, UNREACHABLE)
