"""``decode``: print frames, one per line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.escapes import escaped

from .exits import DONE, LOCAL_IO, PEER_ERROR, Failure
from .output import json_line
from .standard_streams import LONGEST_LINE, line_too_long, print_bytes
from .wire_formats import Cut, Dump, wire_format

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Decode and print every frame. A malformed frame does not stop the command."""
    status = DONE
    wire = wire_format(args.protocol)
    dump = wire.load()
    cut = wire.cutter(tcp=args.tcp)
    for text in _texts(args.frames):
        for frame in _frames(text, cut):
            line, well_formed = _line(frame, dump, as_json=args.json)
            print_bytes(line)
            if not well_formed:
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
        while line := sys.stdin.buffer.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise line_too_long()
            if line.strip():
                # Latin-1 decodes any byte; `_frames` reports those that are not digits.
                yield line.decode("latin-1")
    except OSError as error:
        raise Failure(f"cannot read standard input: {error.strerror}", LOCAL_IO) from error


def _frames(text: str, cut: Cut) -> Iterable[bytes | ValueError]:
    digits = re.sub(r"\s+", "", text).removeprefix("0x")
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        shown = digits if len(digits) <= 40 else f"{digits[:40]}..."
        return [ValueError(f"not pairs of hexadecimal digits: {shown!r}")]
    return cut(data)


def _line(frame: bytes | ValueError, dump: Dump, *, as_json: bool) -> tuple[bytes, bool]:
    try:
        if isinstance(frame, ValueError):
            raise frame
        fields = dump.as_fields(frame)  # for text too: `describe` raises no errors
    except (MalformedFrame, ValueError) as error:
        text = escaped(str(error))
        return json_line({"error": text}) if as_json else f"error: {text}\n".encode(), False
    return json_line(fields) if as_json else f"{dump.describe(frame)}\n".encode(), True
