"""Log events as lines of output: `event_line`, and `invalid_line` for those that are not JSON."""

from __future__ import annotations

from rsocket_trio.escapes import escaped
from rsocket_trio.lumberjack import InvalidEvent, decode_json, decode_pairs

from .output import json_line, one_line, text_or_hex

__all__ = ["event_line", "invalid_line"]


def event_line(raw: bytes, *, is_json: bool) -> bytes:
    """Return an event as JSON on one line, with a line end.

    The JSON text of the sender keeps its numbers and the order of its objects, as `one_line` says.
    Key-value pairs become an object.

    Args:
        raw: The event as it arrived.
        is_json: Whether it is a JSON text. If not, it is a list of key-value pairs.

    Raises:
        InvalidEvent: It cannot be decoded.
    """
    if not is_json:
        return json_line(decode_pairs(raw))
    decode_json(raw)
    return one_line(raw.decode()).encode() + b"\n"


def invalid_line(raw: bytes, error: InvalidEvent, where: str, *, as_json: bool) -> bytes:
    """Return a line about an event that cannot be decoded, with all of its bytes.

    Args:
        raw: The event as it arrived.
        error: Why it cannot be decoded.
        where: Where it comes from.
        as_json: Return a JSON object: ``invalid_event`` is the event as text, or
            ``invalid_event_hex`` in hexadecimal if it is not UTF-8.
    """
    if as_json:
        event = text_or_hex("invalid_event", raw)
        return json_line({**event, "reason": error.reason, "from": where})
    text = escaped(raw.decode(errors="backslashreplace"))
    return f"rsocket-trio: an event from {escaped(where)} {error.reason}: {text}\n".encode()
