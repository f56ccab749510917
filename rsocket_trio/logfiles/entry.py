"""What is read from a log file: `Entry`."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Entry"]


class Entry(NamedTuple):
    """A line of a file, or several lines that belong together.

    Attributes:
        start: The offset of its first byte in the file.
        end: The offset behind its last byte, and behind its line end if it has one.
        data: Its bytes without the last line end. Between lines there is an LF.
        cut: Whether ``data`` has only the beginning of a line: the line was longer than the limit,
            or the file was truncated before its end was read.
        lines: How many lines it has.
    """

    start: int
    end: int
    data: bytes
    cut: bool = False
    lines: int = 1
