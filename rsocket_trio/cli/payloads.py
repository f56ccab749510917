"""Where the bytes of a payload come from: an argument, a file, standard input.

Read before anything is sent, so that a file that is not there costs no connection. Lines of
standard input for a channel are the exception: see `rsocket_trio.cli.stdio`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .exits import LOCAL_IO, USAGE, Failure

__all__ = ["read_lines", "read_metadata", "read_value"]

STDIN = "-"


def read_value(argument: str) -> bytes:
    """The bytes an argument stands for.

    Args:
        argument: ``-`` for all of standard input, ``@FILE`` for the content of a file, ``@@text``
            for ``@text``, else the text itself, in UTF-8.

    Raises:
        Failure: The file or standard input cannot be read.
    """
    if argument == STDIN:
        return _read_stdin()
    if argument.startswith("@@"):
        return os.fsencode(argument[1:])
    if argument.startswith("@"):
        return _read_file(argument[1:])
    # Not ``encode``: an argument that is not UTF-8 arrives as surrogates and leaves as it came.
    return os.fsencode(argument)


def read_metadata(argument: str | None) -> bytes | None:
    """Likewise for metadata, where ``0x`` begins hexadecimal digits; ``None`` stays ``None``.

    Raises:
        Failure: The file or standard input cannot be read, or the digits are no hexadecimal.
    """
    if argument is None:
        return None
    if argument.startswith("0x"):
        try:
            return bytes.fromhex(argument[2:])
        except ValueError as error:
            raise Failure(f"{argument!r} is not hexadecimal", USAGE) from error
    return read_value(argument)


def read_lines(arguments: list[str]) -> list[bytes] | None:
    """The payloads of a channel, or ``None``: a payload a line of standard input.

    Args:
        arguments: Texts and ``@FILE``; a file is a payload a line, without the line ends.

    Raises:
        Failure: A file cannot be read, or ``-`` stands beside other payloads.
    """
    if arguments in ([], [STDIN]):
        return None
    if STDIN in arguments:
        raise Failure("- (standard input) cannot be mixed with other payloads", USAGE)
    payloads: list[bytes] = []
    for argument in arguments:
        value = read_value(argument)
        if argument.startswith("@") and not argument.startswith("@@"):
            payloads += value.removesuffix(b"\n").split(b"\n") if value else []
        else:
            payloads.append(value)
    return payloads


def _read_file(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Failure(f"cannot read {name!r}: {reason}", USAGE) from error


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise Failure("standard input is closed", LOCAL_IO)
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise Failure(f"cannot read standard input: {error.strerror}", LOCAL_IO) from error
