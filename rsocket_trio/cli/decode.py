"""``decode``: print frames, one per line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import attrs

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.frames.dump import as_fields, describe
from rsocket_trio.log_text import escaped
from rsocket_trio.reactivesocket.frames import dump as reactivesocket

from .exits import DONE, LOCAL_IO, PEER_ERROR, Failure
from .output import json_line
from .standard_streams import print_bytes

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


@attrs.frozen
class _WireFormat:
    """The wire format of a protocol.

    Attributes:
        as_fields: Returns the fields of a frame, for JSON.
        describe: Returns a frame as text.
        prefix: Size of the length prefix on TCP, in bytes.
        counted: Number of bytes of the prefix that the length includes.
    """

    as_fields: Callable[[bytes], dict[str, object]]
    describe: Callable[[bytes], str]
    prefix: int
    counted: int


_WIRE_FORMATS: Final = {
    "rsocket": _WireFormat(as_fields, describe, 3, 0),
    "reactivesocket": _WireFormat(reactivesocket.as_fields, reactivesocket.describe, 4, 4),
}


def run(args: argparse.Namespace) -> int:
    """Decode and print every frame. A malformed frame does not stop the command."""
    status = DONE
    wire = _WIRE_FORMATS[args.protocol]
    for text in _texts(args.frames):
        for frame in _frames(text, wire if args.tcp else None):
            line, well_formed = _line(frame, wire, as_json=args.json)
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
        for line in sys.stdin.buffer:
            if line.strip():
                # Latin-1 decodes any byte; `_frames` reports those that are not digits.
                yield line.decode("latin-1")
    except OSError as error:
        raise Failure(f"cannot read standard input: {error.strerror}", LOCAL_IO) from error


def _frames(text: str, prefixed: _WireFormat | None) -> Iterable[bytes | ValueError]:
    digits = re.sub(r"\s+", "", text).removeprefix("0x")
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        shown = digits if len(digits) <= 40 else f"{digits[:40]}..."
        return [ValueError(f"not pairs of hexadecimal digits: {shown!r}")]
    return [data] if prefixed is None else _split(data, prefixed)


def _split(data: bytes, wire: _WireFormat) -> Iterator[bytes | ValueError]:
    # Protocol.md, "Framing Protocol Usage": on TCP a 24-bit length precedes each frame. In the
    # ReactiveSocket draft the length has 32 bits and includes its own 4 bytes.
    prefix = wire.prefix
    at = 0
    while True:
        left = len(data) - at
        if left < prefix:
            yield ValueError(f"incomplete length prefix: {left} of {prefix} bytes")
            return
        size = int.from_bytes(data[at : at + prefix]) - wire.counted
        if size < 0:
            length = size + wire.counted
            text = f"the length is {length}, but it includes itself, so {prefix} is the minimum"
            yield ValueError(text)
            return
        left -= prefix
        if left < size:
            yield ValueError(f"incomplete frame: {left} of {size} bytes")
            return
        yield data[at + prefix : at + prefix + size]
        at += prefix + size
        if at == len(data):
            return


def _line(frame: bytes | ValueError, wire: _WireFormat, *, as_json: bool) -> tuple[bytes, bool]:
    try:
        if isinstance(frame, ValueError):
            raise frame
        fields = wire.as_fields(frame)  # for text too: `describe` raises no errors
    except (MalformedFrame, ValueError) as error:
        text = escaped(str(error))
        return json_line({"error": text}) if as_json else f"error: {text}\n".encode(), False
    return json_line(fields) if as_json else f"{wire.describe(frame)}\n".encode(), True
