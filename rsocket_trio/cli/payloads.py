"""Read the bytes of payloads from arguments, files and standard input.

The commands read them before they connect, so a missing file costs no connection. The exception
is a channel that sends lines of standard input: see `rsocket_trio.cli.stdio`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from .exits import LOCAL_IO, USAGE, Failure

__all__ = ["read_bytes", "read_lines", "read_value"]

STDIN = "-"


def read_value(argument: str) -> bytes:
    """Return the bytes that an argument stands for.

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
    # ``encode`` would fail: Python turns bytes of an argument that are not UTF-8 into surrogates.
    return os.fsencode(argument)


def read_bytes(argument: str) -> bytes:
    """Return the bytes that ``0xHEX`` stands for, or any other argument as for `read_value`.

    Raises:
        Failure: The file or standard input cannot be read, or the digits are not hexadecimal.
    """
    if argument.startswith("0x"):
        try:
            return bytes.fromhex(argument[2:])
        except ValueError as error:
            text = f"{argument!r} is not hexadecimal: pairs of digits must follow 0x"
            raise Failure(text, USAGE) from error
    return read_value(argument)


def read_lines(
    arguments: list[str],
    read: Callable[[str], bytes] = read_value,
    sent: Callable[[bytes], bytes] = bytes,
) -> list[bytes] | None:
    """Return the payloads of a channel. ``None`` means one payload per line of standard input.

    Args:
        arguments: Texts and ``@FILE``. Each line of a file is a payload, without its LF or CRLF.
        read: Returns the payload of a text.
        sent: Returns the payload of a line.

    Raises:
        Failure: A file cannot be read, or ``-`` is not the only argument.
    """
    if arguments in ([], [STDIN]):
        return None
    if STDIN in arguments:
        raise Failure("- (standard input) cannot be combined with other payloads", USAGE)
    payloads: list[bytes] = []
    for argument in arguments:
        if argument.startswith("@") and not argument.startswith("@@"):
            value = read_value(argument)
            lines = value.removesuffix(b"\n").split(b"\n") if value else []
            payloads += [sent(line.removesuffix(b"\r")) for line in lines]
        else:
            payloads.append(read(argument))
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
