"""Make the JSON text of an event from an entry: `EventWriter`."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, Literal

from .entry import Entry

__all__ = [
    "EXPANSION",
    "EventWriter",
    "InvalidBytes",
    "check_encoding",
    "flags_of",
    "wide_encoding",
]

InvalidBytes = Literal["replace", "backslashreplace"]
"""What becomes of bytes that the encoding does not allow: U+FFFD, or ``\\xNN``."""

EXPANSION: Final = 6
"""A byte of a file becomes this many bytes of JSON, at most: a control character is ``\\u0000``."""

_BOM: Final = codecs.BOM_UTF8
_WIDE_BOMS: Final = {
    codecs.BOM_UTF32_LE: "UTF-32",  # first: it begins as the one of UTF-16
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_to_json: Final = json.JSONEncoder(ensure_ascii=False).encode
_quoted: Final[Callable[[str], str]] = json.encoder.encode_basestring
"""The same for a text: `json.JSONEncoder.encode` calls it, behind checks that take as long."""


def check_encoding(name: str) -> str:
    """Return the usual name of an encoding whose line ends are the byte LF.

    Raises:
        ValueError: There is no such encoding of text, or its line ends are other bytes.
    """
    try:
        line_end = "\n".encode(name)
        usual = codecs.lookup(name).name
        for invalid in ("replace", "backslashreplace"):
            b"\xff".decode(name, invalid)
    except LookupError:
        raise ValueError(f"there is no encoding of text with the name {name!r}") from None
    except UnicodeError:  # such as idna
        raise ValueError(f"{name} is not supported: it cannot read all bytes") from None
    if line_end != b"\n":
        raise ValueError(
            f"{name} is not supported: a line must end with the byte 0x0A, as in UTF-8"
        )
    return usual


def wide_encoding(head: bytes) -> str | None:
    """Return ``UTF-16`` or ``UTF-32`` if the first bytes of a file are such text; else ``None``.

    It is told by its byte order mark, or by the NUL bytes that most of its characters have in the
    same places: with UTF-16 in each second place, with UTF-32 in two more.
    """
    for mark, name in _WIDE_BOMS.items():
        if head.startswith(mark):
            return name
    nul = [head[place::4].count(0) for place in range(4)]
    for first, *others in (nul, reversed(nul)):
        most = len(head) // 4 - 1
        if most > 0 and not first and min(others) >= most:
            return "UTF-32"
    few, many = sorted((nul[0] + nul[2], nul[1] + nul[3]))
    return "UTF-16" if many >= max(2, len(head) // 4) and few * 8 <= many else None


class EventWriter:
    """Makes the JSON text of each event of one file. The fields are those of Filebeat.

    Args:
        path: The path of the file.
        file_id: The identity of its content. With the offset, it names a line.
        host: The name of this host.
        fields: Further fields, in ``fields``; without any, there is no such field.
        encoding: The encoding of the file, as `check_encoding` returns it.
        invalid: See `InvalidBytes`.

    Attributes:
        encoding: As given.
        invalid: As given.
    """

    def __init__(
        self,
        path: str,
        file_id: str,
        *,
        host: str,
        fields: Mapping[str, str],
        encoding: str = "utf-8",
        invalid: InvalidBytes = "replace",
    ) -> None:
        self.encoding = encoding
        self.invalid = invalid
        more = f',"fields":{_to_json(dict(fields))}' if fields else ""
        # Paths that are not UTF-8 have surrogates.
        path = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        self._head = (
            f',"host":{{"name":{_quoted(host)}}}{more}'
            f',"log":{{"file":{{"id":{_quoted(file_id)},"path":{_quoted(path)}}}'
        )

    def text(self, data: bytes) -> str:
        """Return the text of a line."""
        return data.decode(self.encoding, self.invalid)

    @staticmethod
    def without_mark(entries: list[Entry]) -> list[Entry]:
        """Remove the byte order mark that some programs write at the beginning of a file."""
        if entries and entries[0].start == 0 and entries[0].data.startswith(_BOM):
            return [entries[0]._replace(data=entries[0].data.removeprefix(_BOM)), *entries[1:]]
        return entries

    def write(self, entries: list[Entry]) -> list[bytes]:
        """Return the JSON text of each entry. ``@timestamp`` is the time now."""
        head = self._before_offset()
        encoding, invalid = self.encoding, self.invalid
        quoted = _quoted
        return [
            f"{head}{start}{'' if lines == 1 and not cut else _flags(cut, lines)}"
            # Encodings such as UTF-7 can contain half a surrogate pair, which UTF-8 cannot.
            f'}},"message":{quoted(data.decode(encoding, invalid))}}}'.encode("utf-8", "replace")
            for start, _, data, cut, lines in self.without_mark(entries)
        ]

    def heads(self, entries: list[Entry]) -> list[bytes]:
        """Return the JSON text of each entry without its message, and without the last ``}``."""
        head = self._before_offset()
        return [
            f"{head}{start}{'' if lines == 1 and not cut else _flags(cut, lines)}}}".encode(
                "utf-8", "replace"
            )
            for start, _, _, cut, lines in entries
        ]

    def _before_offset(self) -> str:
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f'{{"@timestamp":"{moment}"{self._head},"offset":'


def flags_of(cut: bool, lines: int) -> list[str]:
    """Return what is to be known of an entry: see `Entry`."""
    return [name for name, on in (("multiline", lines > 1), ("truncated", cut)) if on]


def _flags(cut: bool, lines: int) -> str:
    return f',"flags":{json.dumps(flags_of(cut, lines))}'
