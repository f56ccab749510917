"""Items as text or as JSON, one per line: `render`; and on a terminal: `for_terminal`.

Everything that a command prints of a peer, or of a file of others, leaves it in `stdio.Writer` or
in `standard_streams`. Both use `for_terminal`. Into a pipe or a file goes what the peer has sent.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rsocket_trio.escapes import Escapes
from rsocket_trio.metadata import dump

if TYPE_CHECKING:
    from rsocket_trio.payload import Payload

__all__ = ["for_terminal", "json_line", "json_text", "one_line", "render", "text_or_hex", "utc"]

# JSON allows these three between its parts only, and other control characters nowhere. So what is
# left is in a string, where an escape means the same.
_ESCAPES: Final = Escapes(lambda c: " " if c in "\t\n\r" else json.dumps(c)[1:-1])
_ON_TERMINAL: Final = Escapes(lambda c: c if c in "\n\t" else c.encode("unicode_escape").decode())


def for_terminal(data: bytes) -> bytes:
    """Return lines as a terminal may get them: it would obey some characters of a peer.

    All that cannot be printed is escaped: control characters, also those of one byte above 127, and
    characters that change the direction of the text. Line ends and tabs stay.
    """
    text = data.decode(errors="backslashreplace")
    return text.translate(_ON_TERMINAL).encode()


def render(
    payload: Payload, *, as_json: bool, metadata_mime: str | None = None, value: str | None = None
) -> bytes:
    """Return the output line of one item, with its line end.

    Args:
        payload: The item.
        as_json: Return an object with ``data``, and with ``metadata_hex``, which is ``null`` if
            there is no metadata, else with ``metadata`` too, its entries. Without it only the data
            are returned.
        metadata_mime: The MIME type of the metadata, if it is known.
        value: The data as JSON text on one line. Without it the data are returned unchanged, and in
            JSON as text, or as ``data_hex`` if they are not UTF-8.
    """
    if not as_json:
        return (payload.data if value is None else value.encode()) + b"\n"
    metadata: dict[str, object] = {"metadata_hex": None}
    if payload.metadata is not None:
        if metadata_mime is not None:
            metadata["metadata"] = dump.as_fields(payload.metadata, metadata_mime)
        metadata["metadata_hex"] = payload.metadata.hex()
    if value is None:
        return json_line({**text_or_hex("data", payload.data), **metadata})
    return f'{{"data": {value}, {json_text(metadata)[1:]}\n'.encode()


def text_or_hex(name: str, data: bytes) -> dict[str, str]:
    """Return bytes as a field for JSON: as text, or with ``_hex`` behind its name."""
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_hex": data.hex()}


def json_line(fields: object) -> bytes:
    """Return ``fields`` as JSON on one line, in UTF-8, with a line end; see `json_text`."""
    return json_text(fields).encode() + b"\n"


def json_text(fields: object) -> str:
    """Return ``fields`` as JSON text on one line.

    Raises:
        ValueError: A number in them is NaN or infinite, which JSON has not.
    """
    return one_line(json.dumps(fields, ensure_ascii=False, allow_nan=False))


def one_line(text: str) -> str:
    """Return a JSON text on one line, with the numbers and names that it has.

    Line ends between its parts become blanks, and characters that cannot be printed are escaped: a
    terminal obeys some of them.
    """
    return text if text.isprintable() else text.translate(_ESCAPES)


def utc(moment: float) -> str:
    """Return a time as text: the seconds since 1970 as ``2026-01-31T23:59:59.999Z``.

    A number that is no time, out of a damaged file, is returned as it is.
    """
    try:
        date = datetime.fromtimestamp(moment, UTC)
    except (OverflowError, ValueError, OSError):
        return str(moment)
    text = date.isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
