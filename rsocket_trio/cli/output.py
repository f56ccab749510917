"""Print items as text or as one JSON object per line: `render`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rsocket_trio.escapes import Escapes

if TYPE_CHECKING:
    from rsocket_trio.payload import Payload

__all__ = ["json_line", "render", "utc"]

_ESCAPES: Final = Escapes(lambda c: json.dumps(c)[1:-1])


def render(payload: Payload, *, as_json: bool) -> bytes:
    """Return the output line of one item, with its line end.

    Text is the data, unchanged. JSON has ``data`` if the data is UTF-8, else ``data_hex``; and
    ``metadata_hex``, which is ``null`` if there is no metadata.
    """
    if not as_json:
        return payload.data + b"\n"
    fields: dict[str, object] = {}
    try:
        fields["data"] = payload.data.decode()
    except UnicodeDecodeError:
        fields["data_hex"] = payload.data.hex()
    fields["metadata_hex"] = None if payload.metadata is None else payload.metadata.hex()
    return json_line(fields)


def json_line(fields: object) -> bytes:
    """Return ``fields`` as JSON on one line, in UTF-8, with a line end.

    Characters that cannot be printed are escaped: a terminal obeys some of them.
    """
    text = json.dumps(fields, ensure_ascii=False)
    if not text.isprintable():
        text = text.translate(_ESCAPES)
    return text.encode() + b"\n"


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
