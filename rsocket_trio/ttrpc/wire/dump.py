"""Frames as readable text, for the command line: one line, or a table of fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rsocket_trio.cutting import Incomplete
from rsocket_trio.errors import MalformedFrame

from .envelopes import decode_request, decode_response
from .frames import HEADER_SIZE, MAX_BODY, MessageType, split
from .messages import Request, Response
from .protobuf import field

__all__ = ["as_fields", "cut_frames", "describe", "masked"]

SHOWN_DATA: Final = 32
"""How many bytes of a message `describe` shows."""

_SECRET: Final = re.compile("auth|token|secret|password|cookie|key", re.IGNORECASE)
"""Has a match in the keys of secrets."""

SHOWN_TEXT: Final = 200
"""How many characters of a text `describe` shows."""

SHOWN_PAIRS: Final = 4
"""How many pairs of metadata `describe` shows."""


def cut_frames(data: bytes) -> Iterator[bytes | ValueError]:
    """Cut bytes into frames, and yield them; an error for the rest, if it is not a frame.

    Args:
        data: One or more frames, one behind the other.
    """
    position = 0
    while True:
        head = data[position : position + HEADER_SIZE]
        if len(head) < HEADER_SIZE:
            text = f"incomplete header: {len(head)} of {HEADER_SIZE} bytes"
            yield Incomplete(text, rest=len(head), whole=HEADER_SIZE)
            return
        size = split(head)[0]
        if size > MAX_BODY:
            yield ValueError(f"a body of {size} bytes is longer than the maximum of {MAX_BODY}")
            return
        left = len(data) - position - HEADER_SIZE
        if left < size:
            text = f"incomplete body: {left} of {size} bytes"
            yield Incomplete(text, rest=HEADER_SIZE + left, whole=HEADER_SIZE + size)
            return
        end = position + HEADER_SIZE + size
        yield data[position:end]
        position = end
        if position == len(data):
            return


def as_fields(frame: bytes) -> dict[str, object]:
    """Return the frame as a table of plain values, suitable for JSON.

    Args:
        frame: One whole frame.

    Returns:
        ``length`` (of the body, in bytes), ``stream_id``, ``type``, ``type_name`` (``"unknown"``
        for a type that is none), ``flags``, and the body as ``payload_hex``. A REQUEST has the
        fields of its envelope, ``request``, and a RESPONSE has ``response``. Bytes are hexadecimal
        text; metadata is a list of pairs, and so are the details of a status.

    Raises:
        MalformedFrame: The bytes are not one frame, or the body of a REQUEST or RESPONSE is not the
            envelope of that type.
    """
    size, stream_id, number, flags, envelope = _decoded(frame)
    table: dict[str, object] = {
        "length": size,
        "stream_id": stream_id,
        "type": number,
        "type_name": _type_name(number).lower(),
        "flags": flags,
        "payload_hex": frame[HEADER_SIZE:].hex(),
    }
    if isinstance(envelope, Request):
        table["request"] = {
            "service": envelope.service,
            "method": envelope.method,
            "payload_hex": envelope.payload.hex(),
            "timeout_nano": envelope.timeout_nano,
            "metadata": [[key, value] for key, value in envelope.metadata],
        }
    elif isinstance(envelope, Response):
        status = envelope.status
        table["response"] = {
            "status": status
            and {
                "code": status.code,
                "message": status.message,
                "details": [[each.type_url, each.value.hex()] for each in status.details],
            },
            "payload_hex": envelope.payload.hex(),
        }
    return table


def masked(frame: bytes) -> bytes:
    """Return a frame of the same size with ``*`` in the metadata whose keys name secrets.

    Raises:
        MalformedFrame: See `as_fields`.
    """
    envelope = _decoded(frame)[-1]
    if isinstance(envelope, Request):
        for key, value in envelope.metadata:
            if _SECRET.search(key):
                # With tag and length, so that a short value is not found in other places.
                secret = value.encode()
                frame = frame.replace(field(2, secret), field(2, b"*" * len(secret)))
    return frame


def _decoded(frame: bytes) -> tuple[int, int, int, int, Request | Response | bytes]:
    size, stream_id, number, flags, body = split(frame)
    if size > MAX_BODY:
        raise MalformedFrame(f"a body of {size} bytes is longer than the maximum of {MAX_BODY}")
    if size != len(body):
        raise MalformedFrame(f"the header says {size} bytes, but {len(body)} follow it")
    envelope: Request | Response | bytes = body
    if number == MessageType.REQUEST:
        # The frame is here already, and its size limits what comes out of it.
        envelope = decode_request(body, max_metadata=MAX_BODY, max_entries=MAX_BODY)
    elif number == MessageType.RESPONSE:
        envelope = decode_response(body)
    return size, stream_id, number, flags, envelope


def describe(frame: bytes) -> str:
    """Return one line about a frame. Never raises.

    Texts and messages are shortened and escaped.

    Args:
        frame: One frame, or any other bytes.
    """
    try:
        return _describe(frame)
    except MalformedFrame as problem:
        return f"malformed ({problem}): {len(frame)} bytes, {frame[:HEADER_SIZE].hex(' ')}"


def _describe(frame: bytes) -> str:
    _, stream_id, number, flags, envelope = _decoded(frame)
    words = [_type_name(number), f"stream={stream_id}", f"flags=0x{flags:02x}"]
    if isinstance(envelope, bytes):
        words += [f"type={number}"] * (_type_name(number) == _UNKNOWN)
        words.append(_shown(envelope))
    elif isinstance(envelope, Request):
        words += (f"service={_quoted(envelope.service)}", f"method={_quoted(envelope.method)}")
        words += [f"timeout={envelope.timeout_nano} ns"] * (envelope.timeout_nano != 0)
        pairs = envelope.metadata
        words += (f"{_quoted(key)}: {_quoted(value)}" for key, value in pairs[:SHOWN_PAIRS])
        words += ["..."] * (len(pairs) > SHOWN_PAIRS)
        words.append(_shown(envelope.payload))
    else:
        status = envelope.status
        if status is not None:
            words += (f"code={status.code}", f"message={_quoted(status.message)}")
            words += [f"details={len(status.details)}"] * (status.details != ())
        words.append(_shown(envelope.payload))
    return " ".join(words)


_UNKNOWN: Final = "UNKNOWN"
_TYPE_NAMES: Final = {each.value: each.name for each in MessageType}


def _type_name(number: int) -> str:
    return _TYPE_NAMES.get(number, _UNKNOWN)


def _quoted(text: str) -> str:
    return f"{text[:SHOWN_TEXT]!r}{'...' * (len(text) > SHOWN_TEXT)}"


def _shown(data: bytes) -> str:
    return f"payload={len(data)} bytes {data[:SHOWN_DATA]!r}{'...' * (len(data) > SHOWN_DATA)}"
