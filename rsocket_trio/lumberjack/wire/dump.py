"""Frames as readable text, for the command line: one line, or a table of fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rsocket_trio.cutting import Incomplete
from rsocket_trio.errors import MalformedFrame, RemoteProtocolError

from .frames import (
    AckFrame,
    CompressedFrame,
    CutOffFrame,
    DataFrame,
    JsonFrame,
    LumberjackFrame,
    WindowFrame,
    decode,
    decode_first,
)
from .inflate import inflate

__all__ = ["as_fields", "cut_frames", "describe"]

SHOWN_DATA: Final = 32
"""How many bytes of an event `describe` shows."""

SHOWN_FRAMES: Final = 1000
"""How many frames inside a compressed frame are shown."""

SHOWN_INFLATED: Final = 2**20
"""How many bytes of a compressed frame are inflated, to be shown."""


def cut_frames(data: bytes) -> Iterator[bytes | ValueError]:
    """Cut bytes into frames, and yield them; an error for the rest, if it is not a frame.

    Args:
        data: One or more frames, one behind the other.
    """
    position = 0
    while True:
        try:
            _, end = decode_first(data, position)
        except CutOffFrame as error:
            yield Incomplete(str(error), rest=len(data) - position)
            return
        except MalformedFrame as error:
            yield ValueError(str(error))
            return
        yield data[position:end]
        position = end
        if position == len(data):
            return


def as_fields(frame: bytes) -> dict[str, object]:
    """Return the frame as a flat table of plain values, suitable for JSON.

    Args:
        frame: One whole frame.

    Returns:
        ``type`` (its name), ``type_code`` (its letter), ``version``, and the fields of the type.
        Bytes are hexadecimal text under a name that ends in ``_hex``. A compressed frame has the
        inflated bytes, ``inner_hex``, and the fields of the frames in it, ``inner``; both are cut
        off behind 1 MiB or 1000 frames, and then ``inner_complete`` is false.

    Raises:
        MalformedFrame: The bytes are not a frame, or a compressed frame cannot be inflated.
    """
    return _fields(decode(frame), frame)


def _fields(frame: LumberjackFrame, raw: bytes) -> dict[str, object]:
    table: dict[str, object] = {
        "type": frame.type_name,
        "type_code": chr(raw[1]),
        "version": frame.version,
    }
    match frame:
        case WindowFrame(count=count):
            table["window"] = count
        case AckFrame(sequence=sequence):
            table["sequence"] = sequence
        case JsonFrame(sequence=sequence, data=data):
            table |= {"sequence": sequence, "data_hex": data.hex()}
        case DataFrame(sequence=sequence, pairs=pairs):
            table["sequence"] = sequence
            table["pairs_hex"] = [[key.hex(), value.hex()] for key, value in pairs]
        case CompressedFrame(payload=payload):
            inflated, complete = _inflated(payload)
            frames, complete = _inner(inflated, complete)
            table |= {
                "payload_hex": payload.hex(),
                "inner_hex": inflated.hex(),
                "inner": [_shallow(each, part) for each, part in frames],
                "inner_complete": complete,
            }
    return table


def _shallow(frame: LumberjackFrame, raw: bytes) -> dict[str, object]:
    if isinstance(frame, CompressedFrame):
        # Nothing sends a compressed frame inside another one. It is shown, but not opened.
        return {
            "type": frame.type_name,
            "type_code": chr(raw[1]),
            "version": frame.version,
            "payload_hex": frame.payload.hex(),
        }
    return _fields(frame, raw)


def _inflated(payload: bytes) -> tuple[bytes, bool]:
    """Return the inflated bytes, and whether they are all of them."""
    parts: list[bytes] = []
    try:
        for part in inflate(payload, SHOWN_INFLATED):
            parts.append(part)  # noqa: PERF402 - the parts before an error are needed
    except MalformedFrame:
        raise
    except RemoteProtocolError:
        return b"".join(parts), False
    return b"".join(parts), True


def _inner(data: bytes, complete: bool) -> tuple[list[tuple[LumberjackFrame, bytes]], bool]:
    """Return the frames in inflated bytes, and whether they are all of them."""
    frames: list[tuple[LumberjackFrame, bytes]] = []
    position = 0
    while position < len(data):
        if len(frames) == SHOWN_FRAMES:
            return frames, False
        try:
            frame, end = decode_first(data, position)
        except MalformedFrame as error:
            if not complete:
                return frames, False
            raise MalformedFrame(f"in a compressed frame: {error}") from None
        frames.append((frame, data[position:end]))
        position = end
    return frames, complete


def describe(frame: bytes) -> str:
    """Return one line about a frame. Never raises.

    Events are shortened and escaped. Of a compressed frame it shows how many frames are in it, and
    the first.

    Args:
        frame: One frame, or any other bytes.
    """
    try:
        return _describe(decode(frame))
    except MalformedFrame as problem:
        return f"malformed ({problem}): {len(frame)} bytes, {frame[:6].hex(' ')}"


def _describe(frame: LumberjackFrame) -> str:
    words = [frame.type_name, f"version={frame.version}"]
    match frame:
        case WindowFrame(count=count):
            words.append(f"window={count}")
        case AckFrame(sequence=sequence):
            words.append(f"sequence={sequence}")
        case JsonFrame(sequence=sequence, data=data):
            words += (f"sequence={sequence}", f"data={len(data)} bytes", _shown(data))
        case DataFrame(sequence=sequence, pairs=pairs):
            words += (f"sequence={sequence}", f"pairs={len(pairs)}")
            words += (f"{_shown(key)}: {_shown(value)}" for key, value in pairs[:4])
            words += ["..."] * (len(pairs) > 4)
        case CompressedFrame(payload=payload):
            inflated, complete = _inflated(payload)
            frames, complete = _inner(inflated, complete)
            more = "" if complete else "more than "
            words += (f"payload={len(payload)} bytes", f"frames={more}{len(frames)}")
            if frames and not isinstance(frames[0][0], CompressedFrame):
                words.append(f"[{_describe(frames[0][0])}{', ...' * (len(frames) > 1)}]")
    return " ".join(words)


def _shown(data: bytes) -> str:
    return f"{data[:SHOWN_DATA]!r}{'...' * (len(data) > SHOWN_DATA)}"
