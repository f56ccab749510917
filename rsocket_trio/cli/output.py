"""Items as text or as one JSON object per line: `render`; and on a terminal: `for_terminal`.

Everything that a command prints of a peer, or of a file of others, leaves it in `stdio.Writer` or
in `standard_streams`. Both use `for_terminal`. Into a pipe or a file goes what the peer has sent.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rsocket_trio.escapes import Escapes

if TYPE_CHECKING:
    from rsocket_trio.payload import Payload

__all__ = ["for_terminal", "json_line", "render", "utc"]

_ESCAPES: Final = Escapes(lambda c: json.dumps(c)[1:-1])
_ON_TERMINAL: Final = Escapes(lambda c: c if c in "\n\t" else c.encode("unicode_escape").decode())


def for_terminal(data: bytes) -> bytes:
    """Return lines as a terminal may get them: it would obey some characters of a peer.

    All that cannot be printed is escaped: control characters, also those of one byte above 127, and
    characters that change the direction of the text. Line ends and tabs stay.
    """
    text = data.decode(errors="backslashreplace")
    return text.translate(_ON_TERMINAL).encode()


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

    Raises:
        ValueError: A number in them is NaN or infinite, which JSON has not.
    """
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False)
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
