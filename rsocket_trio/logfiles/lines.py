"""Cut the bytes of a file into lines, without I/O: `LineSplitter`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate, repeat
from typing import Final

from .entry import Entry

__all__ = ["LineSplitter"]

_make: Final[Callable[[tuple[int, int, bytes, bool, int]], Entry]] = partial(tuple.__new__, Entry)
"""As `Entry._make`, which is a function of Python."""


class LineSplitter:
    """Cuts bytes into lines that end with LF or CRLF.

    However the bytes are divided into pieces, the lines and their offsets are the same. The memory
    is bounded: of a line above the limit only its beginning is kept, also if it never ends.

    Args:
        offset: The offset of the first byte in the file.
        max_line: The bytes of a line that are kept, at most. Its line end does not count.
    """

    def __init__(self, offset: int, max_line: int) -> None:
        self._max_line = max_line
        # The bytes that `feed` gave, and that `take` has not looked at.
        self._rest = b""
        self._has_cr = False  # Whether a CR is in them.
        # The beginning of an incomplete line. One byte more than the limit: it may be a CR that
        # belongs to the line end.
        self._begun = bytearray()
        self._start = offset
        self._at = offset

    @property
    def more(self) -> bool:
        """Whether `take` may find lines without further bytes. `feed` must not be called then."""
        return bool(self._rest)

    @property
    def incomplete(self) -> bool:
        """Whether a line has begun and has not ended."""
        return self._at > self._start

    @property
    def start(self) -> int:
        """The offset where the next line begins, or has begun."""
        return self._start

    def feed(self, data: bytes) -> None:
        """Give the next bytes of the file to the splitter."""
        if self._rest:
            raise ValueError("take all lines before you feed more bytes")
        self._rest = data
        self._has_cr = b"\r" in data

    def skip(self, size: int) -> None:
        """Pass over bytes of the file that belong to no line, before a line has begun."""
        if self._rest or self.incomplete:
            raise ValueError("a line has begun")
        self._at += size
        self._start = self._at

    def take(self, at_most: int) -> list[Entry]:
        """Return the next complete lines, ``at_most`` of them."""
        pieces: list[bytes] = self._rest.split(b"\n", at_most)
        rest = pieces.pop()
        found: list[Entry] = []
        if pieces:
            if self.incomplete:
                found.append(self._complete(pieces.pop(0)))
            found += self._entries(pieces)
        if len(found) == at_most:
            self._rest = rest
        else:
            self._rest = b""
            self._begin(rest)
        return found

    def finish(self) -> Entry | None:
        """Return the incomplete line as a line, because the file ends here."""
        if not self.incomplete:
            return None
        entry = self._entry(self._at)
        self._start = self._at
        self._begun.clear()
        return entry

    def _entries(self, pieces: list[bytes]) -> Iterable[Entry]:
        """Return an entry for each piece, the line end behind which was found."""
        if not pieces:
            return ()
        # This is the fast way: no Python code runs for a single line.
        ends = list(accumulate([len(piece) + 1 for piece in pieces], initial=self._at))
        starts = ends[:-1]
        del ends[0]
        self._at = self._start = ends[-1]
        if self._has_cr:
            pieces = [piece.removesuffix(b"\r") for piece in pieces]
        limit = self._max_line
        if max(map(len, pieces)) <= limit:
            return map(_make, zip(starts, ends, pieces, repeat(False), repeat(1), strict=False))
        return [
            Entry(start, end, piece[:limit], cut=len(piece) > limit)
            for start, end, piece in zip(starts, ends, pieces, strict=True)
        ]

    def _begin(self, piece: bytes) -> None:
        """Keep a part of a line whose end has not come."""
        self._at += len(piece)
        self._begun += piece[: self._max_line + 1 - len(self._begun)]

    def _complete(self, piece: bytes) -> Entry:
        self._begin(piece)
        self._at += 1
        entry = self._entry(self._at - 1)
        self._start = self._at
        self._begun.clear()
        return entry

    def _entry(self, stop: int) -> Entry:
        """Return the line that has begun. It stops at the offset ``stop``, before its line end."""
        data = bytes(self._begun)
        complete = len(data) == stop - self._start
        ended = stop < self._at
        if ended and complete:
            data = data.removesuffix(b"\r")
        cut = not complete or len(data) > self._max_line
        return Entry(self._start, self._at, data[: self._max_line], cut)
