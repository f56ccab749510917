"""Join lines that belong together, without I/O: `Multiline`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import attrs

from ..field_checks import COUNT, SECONDS
from .entry import Entry

__all__ = ["Multiline", "MultilineRule"]


@attrs.frozen(kw_only=True)
class MultilineRule:
    """Which lines belong together. A pattern may match anywhere in a line.

    Attributes:
        start: A line that matches begins an entry. All other lines continue the entry before.
        continues: A line that matches continues the entry before. All other lines begin one.
            Exactly one of the two patterns is given.
        max_lines: Lines of one entry. The lines after that begin a new entry, so none is lost.
            500, as Filebeat.
        timeout: An entry is complete if no line follows for this time, in seconds. 5 s,
            as Filebeat.
    """

    start: re.Pattern[str] | None = None
    continues: re.Pattern[str] | None = None
    max_lines: int = attrs.field(default=500, validator=COUNT)
    timeout: float = attrs.field(default=5.0, validator=SECONDS)

    def __attrs_post_init__(self) -> None:
        if (self.start is None) == (self.continues is None):
            raise ValueError("give either start or continues")


class Multiline:
    """Joins lines into entries. However the lines are divided into lists, the entries are the same.

    Args:
        rule: Which lines belong together.
        max_size: Bytes of an entry with several lines. A line that would go past this limit begins
            a new entry.
        decode: Returns the text of a line, for the patterns.
    """

    def __init__(self, rule: MultilineRule, max_size: int, decode: Callable[[bytes], str]) -> None:
        self._rule = rule
        self._max_size = max_size
        self._decode = decode
        self._lines: list[Entry] = []
        self._size = 0

    @property
    def pending(self) -> bool:
        """Whether an entry has begun that further lines may continue."""
        return bool(self._lines)

    def feed(self, lines: Iterable[Entry]) -> list[Entry]:
        """Take further lines; return the entries that are complete now."""
        complete: list[Entry] = []
        for line in lines:
            if self._lines and not self._continues(line):
                complete.append(self._joined())
            self._lines.append(line)
            self._size += len(line.data) + 1
        return complete

    def flush(self) -> Entry | None:
        """Return the entry that has begun. The next line begins a new one."""
        return self._joined() if self._lines else None

    def _continues(self, line: Entry) -> bool:
        if len(self._lines) >= self._rule.max_lines:
            return False
        if self._size + len(line.data) > self._max_size:
            return False
        text = self._decode(line.data)
        if self._rule.continues is not None:
            return self._rule.continues.search(text) is not None
        assert self._rule.start is not None
        return self._rule.start.search(text) is None

    def _joined(self) -> Entry:
        lines = self._lines
        self._lines = []
        self._size = 0
        if len(lines) == 1:
            return lines[0]
        return Entry(
            lines[0].start,
            lines[-1].end,
            b"\n".join([line.data for line in lines]),
            any(line.cut for line in lines),
            len(lines),
        )
