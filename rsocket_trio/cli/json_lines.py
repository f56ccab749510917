"""Events whose fields are those of lines that are JSON objects: `JsonWriter`, `JsonPairWriter`.

Each line is decoded and encoded again: so a name that is there twice is there once, and what is
sent is valid JSON whatever the line has. Its fields never take the place of those that name a line,
as receivers drop duplicates by them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from rsocket_trio.json_texts import read_all, write, write_all
from rsocket_trio.logfiles import Entry, EventWriter
from rsocket_trio.lumberjack import InvalidEvent, LumberjackLimits, decode_json, encode_pairs
from rsocket_trio.lumberjack.wire.events import slices

from .pair_writer import PairWriter, as_bytes

__all__ = ["ASIDE", "JsonPairWriter", "JsonWriter"]

ASIDE: Final = "json"
"""The field for those of a line whose names are ours."""

_MAX_NAMES: Final = LumberjackLimits().max_pairs // 2
"""Fields of an event of version 1. Receivers refuse an event with too many pairs for ever."""

_OWN: Final = frozenset({
    "@timestamp", "host", "host.name", "log", "log.file", "log.file.id", "log.file.path",
    "log.offset", "log.flags", ASIDE,
    # Logstash takes these as its own, and its pipelines decide by them.
    "@metadata", "@version",
})  # fmt: skip
"""Names of our fields, also as one name with dots: Elasticsearch joins both forms."""

_ESCAPED: Final = re.compile("[\udc80-\udcff]")
"""Bytes that an encoding does not allow, after ``surrogateescape``."""


class _Fields:
    """Reads the fields of lines.

    Args:
        writer: Makes the events.
        key: The name of a field that has all of them; ``None``: they are fields of the event.
        own: The names that they cannot have then.
        message: The name of the field for a line that is no JSON object.
    """

    def __init__(
        self, writer: EventWriter, key: str | None, own: frozenset[str], message: str
    ) -> None:
        self._writer = writer
        self._key = key
        self._own = own
        self._message = message

    def slices(self, entries: Sequence[Entry]) -> Iterator[list[dict[str, Any]]]:
        """Iterate over the fields of entries, some at a time."""
        lines = [entry.data for entry in entries]
        done = 0
        for raws in slices(
            lines if self._writer.encoding == "utf-8" else [*map(self._utf_8, lines)]
        ):
            values: list[object]
            try:
                values = read_all(raws)
            except (ValueError, RecursionError):
                values = [self._decoded(raw) for raw in raws]
            part = lines[done : done + len(raws)]
            done += len(raws)
            yield [
                self._placed(value) if type(value) is dict else self._without(line, value)
                for line, value in zip(part, values, strict=True)
            ]

    def refused(self, line: bytes, reason: str) -> dict[str, Any]:
        """Return the fields of a line whose own ones cannot be sent."""
        error = {"message": f"the line {reason}", "type": "json"}
        return {self._message: self._writer.text(line), "error": error}

    def _without(self, line: bytes, value: object) -> dict[str, Any]:
        if isinstance(value, InvalidEvent):
            return self.refused(line, value.reason)
        return self.refused(line, "is JSON, but no object")

    def _placed(self, value: dict[str, Any]) -> dict[str, Any]:
        if self._key is not None:
            return {self._key: value}
        if self._own.isdisjoint(value):
            return value
        aside = {name: value[name] for name in value if name in self._own}
        return {name: each for name, each in value.items() if name not in aside} | {ASIDE: aside}

    def _decoded(self, raw: bytes) -> object:
        try:
            return decode_json(raw if _is_utf_8(raw) else self._utf_8(raw))
        except InvalidEvent as error:
            return error

    def _utf_8(self, line: bytes) -> bytes:
        """Return a line in UTF-8, without bytes that its encoding does not allow."""
        if self._writer.invalid == "replace":
            text = self._writer.text(line)
        else:  # a backslash in a JSON text is written twice
            text = _ESCAPED.sub(
                lambda found: f"\\\\x{ord(found[0]) - 0xDC00:02x}",
                line.decode(self._writer.encoding, "surrogateescape"),
            )
        return text.encode("utf-8", "replace")


def _is_utf_8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


class JsonWriter(EventWriter):
    """Makes events of version 2 of lines that are JSON objects.

    Args:
        key: The field that has the fields of a line; ``None``: they are fields of the event.

    The other arguments are those of `EventWriter`.
    """

    MESSAGE = "message"
    """The field for a line that is no JSON object."""

    @staticmethod
    def own_names(fields: Collection[str]) -> frozenset[str]:
        """Return the names that fields of lines cannot have.

        Args:
            fields: The names of the further fields.
        """
        return _OWN | ({"fields", *(f"fields.{name}" for name in fields)} if fields else set())

    def __init__(
        self,
        path: str,
        file_id: str,
        *,
        fields: Mapping[str, str],
        key: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path, file_id, fields=fields, **options)
        self._fields: Final = _Fields(self, key, self.own_names(fields), self.MESSAGE)

    def write(self, entries: list[Entry]) -> list[bytes]:
        """See `EventWriter.write`."""
        entries = self.without_mark(entries)
        texts: list[bytes] = []
        for fields in self._fields.slices(entries):
            texts += write_all(fields) or [
                _encoded(each, partial(self._fields.refused, entry.data))
                for each, entry in zip(fields, entries[len(texts) :], strict=False)
            ]
        return [
            head + (b"}" if text == b"{}" else b"," + text[1:])
            for head, text in zip(self.heads(entries), texts, strict=True)
        ]


class JsonPairWriter(JsonWriter, PairWriter):
    """Makes events of version 1 of lines that are JSON objects. Values that are no text are JSON.

    The arguments are those of `JsonWriter`.
    """

    MESSAGE = "line"
    """See `JsonWriter.MESSAGE`."""

    @staticmethod
    def own_names(fields: Collection[str]) -> frozenset[str]:
        """See `JsonWriter.own_names`."""
        own = {"file", "file_id", "flags", "host", "offset", "@metadata", "@version"}
        return frozenset({*own, ASIDE, *fields})

    def write(self, entries: list[Entry]) -> list[bytes]:
        """See `PairWriter.write`."""
        entries = self.without_mark(entries)
        found: list[bytes] = []
        for fields in self._fields.slices(entries):
            for each in fields:
                entry = entries[len(found)]
                texts = self._texts(each, entry.data)
                pairs = [(as_bytes(name, "replace"), text) for name, text in texts.items()]
                found.append(encode_pairs([*pairs, *self.own_pairs(entry)]))
        return found

    def _texts(self, fields: dict[str, Any], line: bytes) -> dict[str, bytes]:
        if len(fields) > _MAX_NAMES:
            fields = self._fields.refused(line, f"has more than {_MAX_NAMES} fields")
        try:
            return _as_texts(fields)
        except _NOT_ENCODED as error:
            return _as_texts(self._fields.refused(line, _why(error)))


def _as_texts(fields: Mapping[str, Any]) -> dict[str, bytes]:
    return {
        name: as_bytes(value, "replace") if isinstance(value, str) else write(value, "replace")
        for name, value in fields.items()
    }


def _encoded(fields: dict[str, Any], refused: Callable[[str], dict[str, Any]]) -> bytes:
    """Return fields as JSON text; half a surrogate pair, which UTF-8 cannot have, becomes ``?``."""
    try:
        return write(fields, "replace")
    except _NOT_ENCODED as error:
        return write(refused(_why(error)), "replace")


_NOT_ENCODED: Final = (ValueError, RecursionError)


def _why(error: Exception) -> str:
    is_deep = isinstance(error, RecursionError)
    return "is nested too deeply" if is_deep else "contains a number that is too large"
