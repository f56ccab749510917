"""Events of Lumberjack version 1 from lines of files: `PairWriter`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rsocket_trio.logfiles import Entry, EventWriter, flags_of
from rsocket_trio.lumberjack import encode_pairs

__all__ = ["PairWriter", "as_bytes"]


class PairWriter(EventWriter):
    """Makes key-value pairs, with the keys of logstash-forwarder, which speaks version 1.

    ``file_id`` and ``flags`` are keys of our own. The arguments are those of `EventWriter`. The
    further fields are keys of their own.
    """

    def __init__(
        self, path: str, file_id: str, *, host: str, fields: Mapping[str, str], **options: Any
    ) -> None:
        super().__init__(path, file_id, host=host, fields=fields, **options)
        common = {**fields, "file": path, "file_id": file_id, "host": host}
        self._common: Final = [
            (as_bytes(key, "replace"), as_bytes(value, "surrogateescape"))
            for key, value in common.items()
        ]

    def write(self, entries: list[Entry]) -> list[bytes]:
        """Return the pairs of each entry as bytes."""
        return [
            encode_pairs(
                [
                    *self._common,
                    ("offset", str(entry.start)),
                    ("line", as_bytes(self.text(entry.data), "replace")),
                    *_flags(entry),
                ]
            )
            for entry in self.without_mark(entries)
        ]

    def own_pairs(self, entry: Entry) -> list[tuple[str | bytes, str | bytes]]:
        """Return the pairs of an entry that do not come from its line."""
        return [*self._common, ("offset", str(entry.start)), *_flags(entry)]


def _flags(entry: Entry) -> list[tuple[str, str]]:
    flags = flags_of(entry.cut, entry.lines)
    return [("flags", ",".join(flags))] if flags else []


def as_bytes(text: str, errors: str) -> bytes:
    """Return text in UTF-8. `encode_pairs` refuses half a surrogate pair."""
    return text.encode("utf-8", errors)
