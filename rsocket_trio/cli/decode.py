"""``decode``: print frames, one per line.

The frames come as hexadecimal digits, as dumps of xxd and hexdump, as lines of ``--wiretap-file``,
or as packets in a capture.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import attrs

from rsocket_trio.errors import MalformedFrame
from rsocket_trio.escapes import escaped

from .exits import DONE, LOCAL_IO, PEER_ERROR, USAGE, Failure
from .frame_reader import FrameReader
from .output import json_line
from .standard_streams import LONGEST_LINE, line_too_long, print_bytes
from .wire_formats import wire_format

if TYPE_CHECKING:
    import argparse

__all__ = ["Found", "run"]

_CAPTURES: Final = {
    bytes.fromhex(magic) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "0a0d0d0a")
}
"""How files of libpcap begin, in both orders of bytes and units of time, and those of pcapng."""
_DUMP: Final = re.compile(
    r"(?:0x)?(?P<offset>[0-9a-f]{4,16})"
    r"(?::\s+(?P<xxd>[0-9a-f]{2,}(?: [0-9a-f]{2,})*)(?:\s{2,}.*)?"
    r"|\s\s(?P<hexdump>(?:\s*[0-9a-f]{2}\b)+)\s+\|.*)",
    re.IGNORECASE,
)
"""A line of ``xxd`` or ``tcpdump -x``, with a colon, or of ``hexdump -C``, with bars."""
_MOST_CONNECTIONS: Final = 1024
"""Connections of lines of ``--wiretap-file`` whose SETUP is remembered."""


@attrs.frozen(kw_only=True)
class Found:
    """One frame of the input.

    Attributes:
        frame: Its bytes, or what is wrong with them.
        reader: Shows it.
        facts: What else is known of it, for JSON.
        label: The same for text, in front of the frame.
    """

    frame: bytes | ValueError
    reader: FrameReader
    facts: dict[str, object] = attrs.field(factory=dict)
    label: str = ""


def run(args: argparse.Namespace) -> int:
    """Decode and print every frame. A malformed frame does not stop the command."""
    status = DONE
    for found in _Input(args).frames():
        line, well_formed = _line(found, as_json=args.json)
        print_bytes(line)
        if not well_formed:
            status = PEER_ERROR
    return status


class _Input:
    """Finds the frames in what the arguments name."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        wire = wire_format(args.protocol)
        self._reader = FrameReader(wire)
        self._cut = wire.cutter(tcp=args.tcp)
        self._dumped: list[str] = []
        self._size = 0
        self._connections: dict[object, FrameReader] = {}

    def frames(self) -> Iterator[Found]:
        for argument in self._args.frames:
            if argument == "-":
                if sys.stdin is None:
                    raise Failure("standard input is closed", LOCAL_IO)
                yield from self._stream(sys.stdin.buffer, "standard input", LOCAL_IO)
            elif argument.startswith("@"):
                name = argument[1:]
                try:
                    file = Path(name).open("rb")  # noqa: SIM115  closed below
                except (OSError, ValueError) as error:
                    reason = error.strerror if isinstance(error, OSError) else error
                    raise Failure(f"cannot read {name!r}: {reason}", USAGE) from error
                with file:
                    yield from self._stream(file, repr(name), USAGE)
            else:
                yield from self._text(argument)

    def _stream(self, file: BinaryIO, name: str, status: int) -> Iterator[Found]:
        try:
            if file.peek(4)[:4] in _CAPTURES:  # type: ignore[attr-defined]  # it is buffered
                from .capture import captured  # not for the others

                yield from captured(file, self._args.protocol, self._args.port)
                return
            while line := file.readline(LONGEST_LINE + 1):
                if len(line) > LONGEST_LINE:
                    raise line_too_long()
                # Latin-1 decodes any byte; those that are no digits are reported.
                yield from self._part(line.decode("latin-1"))
            yield from self._end_dump()
        except OSError as error:
            raise Failure(f"cannot read {name}: {error.strerror}", status) from error

    def _part(self, line: str) -> Iterator[Found]:
        text = line.strip()
        if text.startswith("{"):
            yield self._recorded(text)
        elif text and self._args.wrapped:
            self._dump(text)
        elif dumped := _DUMP.fullmatch(text):
            if int(dumped["offset"], 16) == 0:
                yield from self._end_dump()
            self._dump(re.sub(r"\s+", "", dumped["xxd"] or dumped["hexdump"]))
        elif self._dumped and re.fullmatch(f"0*{self._size // 2:x}", text):
            yield from self._end_dump()  # the last line of hexdump
        elif self._dumped and text == "*":
            self._dumped.clear()
            self._size = 0
            yield self._found(ValueError("the dump leaves out lines (*): make it with -v"))
        else:
            yield from self._end_dump()
            if text:
                yield from self._text(text)

    def _dump(self, digits: str) -> None:
        """Keep a part of a dump, or of a frame whose digits go on in the next line."""
        self._dumped.append(digits)
        self._size += len(digits)
        if self._size > 2 * LONGEST_LINE:
            raise line_too_long()

    def _end_dump(self) -> Iterable[Found]:
        digits = "".join(self._dumped)
        self._dumped.clear()
        self._size = 0
        return self._text(digits) if digits else ()

    def _text(self, text: str) -> Iterable[Found]:
        digits = re.sub(r"\s+", "", text).removeprefix("0x")
        try:
            data = bytes.fromhex(digits)
        except ValueError:
            return [self._found(_no_digits(digits))]
        return map(self._found, self._cut(data))

    def _found(self, frame: bytes | ValueError) -> Found:
        return Found(frame=frame, reader=self._reader)

    def _recorded(self, text: str) -> Found:
        """Return the frame in a line of ``--wiretap-file``."""
        try:
            fields = json.loads(text)
            facts = {
                name: fields[name]
                for name in ("time", "connection", "direction")
                if isinstance(fields.get(name), str | int)
            }
            arrow = {"sent": "-> ", "received": "<- "}.get(str(facts.get("direction")), "")
            name = escaped(str(facts.get("connection", "")))
            label = f"#{name} {arrow}" if name else arrow
            protocol = str(fields.get("protocol", self._args.protocol))
            reader = self._reader_of(facts.get("connection"), protocol)
            wrong = fields.get("error")
            frame = ValueError(str(wrong)) if wrong is not None else bytes.fromhex(fields["hex"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return self._found(ValueError("not a line of --wiretap-file"))
        return Found(frame=frame, reader=reader, facts=facts, label=label)

    def _reader_of(self, connection: object, protocol: str) -> FrameReader:
        known = self._connections.get(connection)
        if known is None or known.wire.name != protocol:
            if len(self._connections) >= _MOST_CONNECTIONS:
                self._connections.clear()
            known = self._connections[connection] = FrameReader(wire_format(protocol))
        return known


def _no_digits(digits: str) -> ValueError:
    shown = digits if len(digits) <= 40 else f"{digits[:40]}..."
    hint = f"; @{digits} reads the file" if len(digits) < 1024 and _is_file(digits) else ""
    if not digits.isprintable():
        hint = "; make them of bytes with xxd"
    return ValueError(f"not pairs of hexadecimal digits: {shown!r}{hint}")


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def _line(found: Found, *, as_json: bool) -> tuple[bytes, bool]:
    try:
        if isinstance(found.frame, ValueError):
            raise found.frame
        if as_json:
            return json_line({**found.facts, **found.reader.fields(found.frame)}), True
        # `print_bytes` escapes for a terminal; the words have no line ends.
        text = found.reader.text(found.frame)
        return f"{found.label}{text}\n".encode("utf-8", "backslashreplace"), True
    except (MalformedFrame, ValueError) as error:
        text = escaped(str(error))
        if as_json:
            return json_line({**found.facts, "error": text}), False
        return f"{found.label}error: {text}\n".encode("utf-8", "backslashreplace"), False
