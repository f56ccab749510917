"""``decode``: show what frames say, a line each."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import attrs

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.frames.dump import as_fields, describe
from rsocket_trio.reactivesocket.frames import dump as reactivesocket

from .exits import DONE, LOCAL_IO, PEER_ERROR, Failure
from .output import json_line
from .standard_streams import print_bytes

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


@attrs.frozen
class _Wire:
    """What `decode` needs to know of a protocol.

    Attributes:
        as_fields: For JSON.
        describe: For people.
        prefix: Bytes of the length before each frame on TCP.
        counted: How many of them the length counts itself.
    """

    as_fields: Callable[[bytes], dict[str, object]]
    describe: Callable[[bytes], str]
    prefix: int
    counted: int


_WIRES: Final = {
    "rsocket": _Wire(as_fields, describe, 3, 0),
    "reactivesocket": _Wire(reactivesocket.as_fields, reactivesocket.describe, 4, 4),
}


def run(args: argparse.Namespace) -> int:
    """Decode every frame and print it; malformed ones do not stop the rest."""
    status = DONE
    wire = _WIRES[args.protocol]
    for text in _texts(args.frames):
        for frame in _frames(text, wire if args.tcp else None):
            line, good = _line(frame, wire, as_json=args.json)
            print_bytes(line)
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


def _frames(text: str, prefixed: _Wire | None) -> Iterable[bytes | ValueError]:
    digits = re.sub(r"\s+", "", text).removeprefix("0x")
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        shown = digits if len(digits) <= 40 else f"{digits[:40]}..."
        return [ValueError(f"not hexadecimal: {shown!r}")]
    return [data] if prefixed is None else _split(data, prefixed)


def _split(data: bytes, wire: _Wire) -> Iterator[bytes | ValueError]:
    # Protocol.md, "Framing Protocol Usage": on TCP a 24-bit length goes before each frame. In the
    # ReactiveSocket draft it has 32 bits and counts itself.
    prefix = wire.prefix
    at = 0
    while True:
        left = len(data) - at
        if left < prefix:
            yield ValueError(f"a length prefix is {prefix} bytes, and {left} are left")
            return
        size = int.from_bytes(data[at : at + prefix]) - wire.counted
        if size < 0:
            yield ValueError(f"a length of {size + wire.counted} does not even count itself")
            return
        left -= prefix
        if left < size:
            yield ValueError(f"the frame is {size} bytes long, and {left} follow")
            return
        yield data[at + prefix : at + prefix + size]
        at += prefix + size
        if at == len(data):
            return


def _line(frame: bytes | ValueError, wire: _Wire, *, as_json: bool) -> tuple[bytes, bool]:
    try:
        if isinstance(frame, ValueError):
            raise frame
        fields = wire.as_fields(frame)  # in either case: `describe` does not raise
    except (MalformedFrame, ValueError) as error:
        return json_line({"error": str(error)}) if as_json else f"error: {error}\n".encode(), False
    return json_line(fields) if as_json else f"{wire.describe(frame)}\n".encode(), True
