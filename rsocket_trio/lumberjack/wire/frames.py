"""The frames of Lumberjack v1 and v2: constants, and a class for each type.

The classes serve tests and tools. `BatchReader` and `encode_batch` read and write the same bytes
without an object for each event.

A frame begins with the version, ASCII "1" or "2", and the type, an ASCII letter. All integers are
unsigned, have 32 bits, and are big endian.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import ClassVar, Final, TypeAlias

import attrs

from rsocket_trio.errors import LocalProtocolError, MalformedFrame

__all__ = [
    "ACK",
    "COMPRESSED",
    "DATA",
    "FIELD",
    "JSON",
    "LONG",
    "MAX_U32",
    "SHORT",
    "VERSIONS",
    "WINDOW",
    "AckFrame",
    "CompressedFrame",
    "CutOffFrame",
    "DataFrame",
    "JsonFrame",
    "LumberjackFrame",
    "WindowFrame",
    "decode",
    "decode_first",
    "encode_pairs",
    "json_code",
    "split_pairs",
]

WINDOW: Final = ord("W")
DATA: Final = ord("D")
JSON: Final = ord("J")
COMPRESSED: Final = ord("C")
ACK: Final = ord("A")

VERSIONS: Final = {ord("1"): 1, ord("2"): 2}
"""The version for each version byte."""

SHORT: Final = Struct(">BBI")
"""A whole W or A frame, and the head of C: version, type, one integer."""

LONG: Final = Struct(">HII")
"""The head of D and J: version and type as one number, sequence, pair count or length."""

FIELD: Final = Struct(">I")
"""The length of a key or of a value."""

MAX_U32: Final = 2**32 - 1

_read_field: Final = FIELD.unpack_from


def json_code(version: int) -> int:
    """Return the first two bytes of a J frame as one number."""
    return (0x30 + version) << 8 | JSON


def _short(version: int, kind: int, number: int) -> bytes:
    _check(version, number)
    return SHORT.pack(0x30 + version, kind, number)


def _check(version: int, *numbers: int) -> None:
    if version not in (1, 2):
        raise LocalProtocolError(f"there is no Lumberjack version {version!r}")
    for number in numbers:
        if not 0 <= number <= MAX_U32:
            raise LocalProtocolError(f"{number} does not fit into 32 bits")


@attrs.frozen
class WindowFrame:
    """W: how many events the sender sends next, before it waits for their ACK."""

    type_name: ClassVar[str] = "WINDOW"

    version: int
    count: int

    def encode(self) -> bytes:
        """Return the frame as bytes."""
        return _short(self.version, WINDOW, self.count)


@attrs.frozen
class AckFrame:
    """A: all events up to ``sequence`` are acknowledged. 0 is a keep-alive of version 2."""

    type_name: ClassVar[str] = "ACK"

    version: int
    sequence: int

    def encode(self) -> bytes:
        """Return the frame as bytes."""
        return _short(self.version, ACK, self.sequence)


@attrs.frozen
class JsonFrame:
    """J: one event as a JSON text in UTF-8. Version 1 does not define it, but a client sends it."""

    type_name: ClassVar[str] = "JSON"

    version: int
    sequence: int
    data: bytes

    def encode(self) -> bytes:
        """Return the frame as bytes."""
        _check(self.version, self.sequence, len(self.data))
        head = LONG.pack(json_code(self.version), self.sequence, len(self.data))
        return head + self.data


@attrs.frozen
class DataFrame:
    """D: one event as key-value pairs. Only version 1 has it."""

    type_name: ClassVar[str] = "DATA"

    version: int
    sequence: int
    pairs: tuple[tuple[bytes, bytes], ...]

    def encode(self) -> bytes:
        """Return the frame as bytes."""
        _check(self.version, self.sequence)
        head = SHORT.pack(0x30 + self.version, DATA, self.sequence)
        return head + encode_pairs(self.pairs)


@attrs.frozen
class CompressedFrame:
    """C: a zlib stream of whole frames; ``payload`` is the compressed stream."""

    type_name: ClassVar[str] = "COMPRESSED"

    version: int
    payload: bytes

    def encode(self) -> bytes:
        """Return the frame as bytes."""
        return _short(self.version, COMPRESSED, len(self.payload)) + self.payload


LumberjackFrame: TypeAlias = WindowFrame | DataFrame | JsonFrame | CompressedFrame | AckFrame
"""A frame of any type."""


def encode_pairs(pairs: Iterable[tuple[str | bytes, str | bytes]]) -> bytes:
    """Return an event of version 1 as bytes: the number of pairs, then the pairs.

    Args:
        pairs: Keys and values, such as ``event.items()``. Text is sent as UTF-8.
    """
    count = 0
    pieces = [b""]
    for pair in pairs:
        count += 1
        for text in pair:
            piece = text.encode() if isinstance(text, str) else text
            pieces += (FIELD.pack(len(piece)), piece)
    pieces[0] = FIELD.pack(count)
    return b"".join(pieces)


class CutOffFrame(MalformedFrame):
    """The bytes end inside of a frame."""


def split_pairs(raw: bytes) -> list[tuple[bytes, bytes]]:
    """Return the pairs of an event of version 1, in the order of the frame.

    Args:
        raw: The number of pairs, then the pairs, as in `IncomingBatch.events`.

    Raises:
        MalformedFrame: The pairs do not end where ``raw`` ends.
    """
    try:
        pairs, end = _read_pairs(raw, 0)
    except CutOffFrame:
        raise MalformedFrame("the key-value pairs are cut off") from None
    if end != len(raw):
        raise MalformedFrame(f"{len(raw) - end} bytes behind the last key-value pair")
    return pairs


def _read_pairs(data: bytes, position: int) -> tuple[list[tuple[bytes, bytes]], int]:
    (count,) = _read_field(_whole(data, position, 4), position)
    position += 4
    pairs: list[tuple[bytes, bytes]] = []
    for _ in range(count):
        key, position = _read_text(data, position)
        value, position = _read_text(data, position)
        pairs.append((key, value))
    return pairs, position


def _read_text(data: bytes, position: int) -> tuple[bytes, int]:
    (length,) = _read_field(_whole(data, position, 4), position)
    start = position + 4
    return _whole(data, start, length)[start : start + length], start + length


def _whole(data: bytes, position: int, size: int) -> bytes:
    if len(data) - position < size:
        raise CutOffFrame("the frame is cut off")
    return data


def decode(frame: bytes) -> LumberjackFrame:
    """Return the frame that the bytes are.

    Args:
        frame: Exactly one frame of any type.

    Raises:
        MalformedFrame: The bytes are not one frame.
    """
    decoded, end = decode_first(frame)
    if end != len(frame):
        raise MalformedFrame(f"{len(frame) - end} bytes behind the frame")
    return decoded


def decode_first(data: bytes, position: int = 0) -> tuple[LumberjackFrame, int]:
    """Return the frame that begins at ``position``, and the position behind it.

    Args:
        data: One or more frames.
        position: Where the frame begins.

    Raises:
        MalformedFrame: No frame begins there, or it is cut off. A frame that only one version
            defines is accepted in both.
    """
    try:
        return _decode(data, position)
    except CutOffFrame:
        raise CutOffFrame(
            f"the frame is cut off: there are {len(data) - position} bytes of it"
        ) from None


def _decode(data: bytes, position: int) -> tuple[LumberjackFrame, int]:
    first, kind = _whole(data, position, 2)[position : position + 2]
    version = VERSIONS.get(first)
    if version is None:
        raise MalformedFrame(f"no frame begins with the byte 0x{first:02x}: it must be '1' or '2'")
    if kind not in (WINDOW, ACK, COMPRESSED, DATA, JSON):
        raise MalformedFrame(f"there is no frame type 0x{kind:02x}")
    _, _, number = SHORT.unpack_from(_whole(data, position, 6), position)
    start = position + 6
    if kind == WINDOW:
        return WindowFrame(version, number), start
    if kind == ACK:
        return AckFrame(version, number), start
    if kind == COMPRESSED:
        payload = _whole(data, start, number)[start : start + number]
        return CompressedFrame(version, payload), start + number
    if kind == DATA:
        pairs, end = _read_pairs(data, start)
        return DataFrame(version, number, tuple(pairs)), end
    text, end = _read_text(data, start)
    return JsonFrame(version, number, text), end
