"""``decode``: show what frames say, a line each."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.frames.dump import as_fields, describe

from .exits import DONE, LOCAL_IO, PEER_ERROR, Failure
from .output import json_line

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_PREFIX = 3


def run(args: argparse.Namespace) -> int:
    """Decode every frame and print it; malformed ones do not stop the rest."""
    status = DONE
    for text in _texts(args.frames):
        for frame in _frames(text, tcp=args.tcp):
            line, good = _line(frame, as_json=args.json)
            _print(line)
            if not good:
                status = PEER_ERROR
    return status


def _texts(arguments: list[str]) -> Iterator[str]:
    for argument in arguments:
        if argument == "-":
            yield from _stdin_lines()
        else:
            yield argument


def _stdin_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise Failure("standard input is closed", LOCAL_IO)
    try:
        for line in sys.stdin.buffer:
            if line.strip():
                # Latin-1 takes any byte; what is no digit is told apart later.
                yield line.decode("latin-1")
    except OSError as error:
        raise Failure(f"cannot read standard input: {error.strerror}", LOCAL_IO) from error


def _frames(text: str, *, tcp: bool) -> Iterable[bytes | ValueError]:
    digits = re.sub(r"\s+", "", text).removeprefix("0x")
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        shown = digits if len(digits) <= 40 else f"{digits[:40]}..."
        return [ValueError(f"not hexadecimal: {shown!r}")]
    return _split(data) if tcp else [data]


def _split(data: bytes) -> Iterator[bytes | ValueError]:
    # Protocol.md, "Framing Protocol Usage": on TCP a 24-bit length goes before each frame.
    rest = data
    while True:
        if len(rest) < _PREFIX:
            yield ValueError(f"a length prefix is 3 bytes, and {len(rest)} are left")
            return
        end = _PREFIX + int.from_bytes(rest[:_PREFIX])
        if len(rest) < end:
            present = len(rest) - _PREFIX
            yield ValueError(f"the frame is {end - _PREFIX} bytes long, and {present} follow")
            return
        yield rest[_PREFIX:end]
        rest = rest[end:]
        if not rest:
            return


def _line(frame: bytes | ValueError, *, as_json: bool) -> tuple[bytes, bool]:
    try:
        if isinstance(frame, ValueError):
            raise frame
        fields = as_fields(frame)  # in either case: `describe` does not raise
    except (MalformedFrame, ValueError) as error:
        return json_line({"error": str(error)}) if as_json else f"error: {error}\n".encode(), False
    return json_line(fields) if as_json else f"{describe(frame)}\n".encode(), True


def _print(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
