"""Read one open log file, batch by batch: `Tail`. Its methods block, so they run in threads."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Final

import attrs

from .entry import Entry
from .event_text import EventWriter, wide_encoding
from .holes import find_data, without_holes
from .identity import FileKey, Fingerprint, head_of
from .lines import LineSplitter
from .multiline import Multiline, MultilineRule
from .registry import Position, new_id

__all__ = ["Batch", "Reading", "Tail"]

_CHUNK: Final = 256 * 2**10
"""Bytes of one read. Larger ones are not faster."""
_CHUNKS: Final = 4
"""Reads for one batch. A batch then has 1 MiB and one entry more, at most."""


@attrs.frozen(kw_only=True)
class Reading:
    """How files are read.

    Attributes:
        max_events: Events of one batch.
        max_line: Bytes of a line, or of an entry of several lines. Lines are cut there.
        multiline: Which lines belong together; ``None``: each line is an event.
        writer: Makes the `EventWriter` of a file, from its path and the identity of its content.
        refuse_wide: Whether files that are UTF-16 or UTF-32 are refused: their lines would be torn.
    """

    max_events: int
    max_line: int
    multiline: MultilineRule | None
    writer: Callable[[str, str], EventWriter]
    refuse_wide: bool


@attrs.frozen(kw_only=True)
class Batch:
    """Events that were read from one file, and that are sent together.

    Attributes:
        events: Their JSON texts.
        end: The offset behind the last of them; without events, it means nothing.
        lines: The lines in them.
        size: The bytes that they have in the file.
        skipped: NUL bytes that are no part of a line, and that were passed over.
        at_end: The end of the file was reached.
    """

    events: list[bytes]
    end: int
    lines: int
    size: int
    skipped: int
    at_end: bool


class Tail:
    """One open file. It is read on, also after it was renamed or deleted.

    Args:
        path: The path of the file.
        name: The path that its events name.
        reading: How it is read.
        known: Returns what is remembered of a file with this key, these first bytes and this size.
        follow_links: Whether the path may be a link.

    Raises:
        OSError: The file cannot be opened, it is refused by ``reading``, or it has bytes but no
            size: its end would look like a truncation again and again.

    Attributes:
        key: The identity of the file.
        real: Its path without links.
        first: The offset where reading begins.
        known: What was remembered of its content when it was opened.
        id: The identity of its content; another one after each truncation.
        fingerprint: The first bytes that were seen.
    """

    def __init__(
        self,
        path: str,
        name: str,
        reading: Reading,
        known: Callable[[FileKey, bytes, int], Position | None],
        *,
        follow_links: bool,
    ) -> None:
        self._reading = reading
        self._path = path
        self._name = name
        # Without O_NONBLOCK, the open of a named pipe waits for a writer.
        flags = os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
        self._descriptor = os.open(path, os.O_RDONLY | flags)
        try:
            self.real = os.path.realpath(path)
            head = head_of(self._descriptor)
            facts = os.fstat(self._descriptor)
            _check_size(path, head, facts.st_size)
            self._check_encoding(head)
            self.key = FileKey.of(facts)
            self.known = known(self.key, head, facts.st_size)
        except BaseException:  # closed before the error goes on
            os.close(self._descriptor)
            raise
        self.id = new_id() if self.known is None else self.known.id
        self.first = 0 if self.known is None else self.known.offset
        self._head = head
        self.fingerprint = Fingerprint.of(head)
        self._nul_at_end: int  # As the last read has found.
        self._begin(self.first)

    def _begin(self, offset: int) -> None:
        rule, limit = self._reading.multiline, self._reading.max_line
        self._writer = self._reading.writer(self._name, self.id)
        self._offset = offset
        # What was read and not given to the splitter. See `without_holes`.
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._in_hole = offset == 0
        self._searched = 0
        self._skipped = 0
        self._splitter = LineSplitter(offset, limit)
        self._multiline = None if rule is None else Multiline(rule, limit, self._writer.text)

    @property
    def pending(self) -> bool:
        """Whether an entry of several lines waits for its next line."""
        return self._multiline is not None and self._multiline.pending

    @property
    def deleted(self) -> bool:
        """Whether the file has no name any more."""
        return os.fstat(self._descriptor).st_nlink == 0

    @property
    def offset(self) -> int:
        """The offset behind the last byte that was read."""
        return self._offset

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self) -> Batch:
        """Read the next events.

        A file that became shorter, or that begins with other bytes than before, was truncated and
        written anew (``copytruncate`` of logrotate). Then the batch has the unfinished entry, whose
        last line counts as cut, and the next one begins at the offset 0, with another `id`. When
        there are more first bytes than before, the `fingerprint` is taken of them, and the batch is
        empty. So both can be written down before anything is read of them: whatever is sent, no
        other content can be taken for it later.

        Raises:
            OSError: The file cannot be read, or now it is refused.
        """
        if not self._splitter.more and not self._pieces:
            head = head_of(self._descriptor)
            if not self._continues(head, self._offset):
                batch = self._last(is_whole=False)
                self.id = new_id()
                self._see(b"")
                self._begin(0)
                return batch
            if head != self._head:
                self._see(head)
                return self._batch([])
        entries: list[Entry] = []
        room = self._reading.max_events
        reads = 0
        at_end = False
        while room > 0:
            if not self._splitter.more and not self._pieces:
                if reads == _CHUNKS:
                    break
                reads += 1
                at_end = self._fetch()
                if not self._pieces:
                    break
            if not self._splitter.more:
                cut = self._feed(*self._pieces.popleft())
                lines = [] if cut is None else [cut]
            else:
                lines = self._splitter.take(room)
            room -= len(lines)
            entries += lines if self._multiline is None else self._multiline.feed(lines)
        return self._batch(entries, at_end=at_end)

    def flush(self) -> Batch:
        """Return the entry whose next line has not come in time."""
        last = None if self._multiline is None else self._multiline.flush()
        return self._batch([] if last is None else [last])

    def finish(self) -> Batch:
        """Return what is left at the end of the file, also a line without its line end."""
        self._skipped += self._nul_at_end
        return self._last(is_whole=True)

    def _last(self, *, is_whole: bool) -> Batch:
        """Return the unfinished entry. If the file was truncated, its last line is not whole."""
        line = self._splitter.finish()
        entries = [] if line is None else [line if is_whole else line._replace(cut=True)]
        if self._multiline is not None:
            entries = self._multiline.feed(entries)
            last = self._multiline.flush()
            if last is not None:
                entries.append(last)
        return self._batch(entries)

    def _fetch(self) -> bool:
        """Read the next pieces; return whether they are the last ones.

        There are none if the file was truncated meanwhile, has more first bytes now, or a hole has
        not ended yet. NUL bytes at the end stay unread: a program may have reserved them for
        lines that it writes later.
        """
        data = os.pread(self._descriptor, _CHUNK, self._offset)
        head = head_of(self._descriptor)
        # It is empty only for a moment: another content may follow before its size is looked at.
        was_emptied = bool(data) and not head
        is_other = was_emptied or head != self._head
        if is_other or not self._continues(head, self._offset + len(data)):
            # It may be a part of the new content, and would be joined with a line of the old one.
            return False
        self._nul_at_end = 0
        if not data:
            return True
        text = data.rstrip(b"\0")
        if not text:
            return self._search(len(data))
        self._offset += len(text)
        any_size = self._head.startswith(bytes(4))  # No wide text begins like this.
        self._pieces.extend(without_holes(text, begun=self._in_hole, any_size=any_size))
        self._in_hole = False
        return False

    def _search(self, size: int) -> bool:
        """Look for the end of a hole, of which ``size`` bytes were read; return as `_fetch`."""
        if size < _CHUNK:
            self._nul_at_end = size
            return True
        end, found = find_data(self._descriptor, max(self._searched, self._offset + size))
        self._searched = end
        if found:
            # A program that writes lines into reserved room has begun in front.
            if os.pread(self._descriptor, 1, self._offset) == b"\0":
                self._pieces.append((end - self._offset, b""))
                self._offset = end
                self._in_hole = True
            self._searched = 0
            return False
        if end < os.fstat(self._descriptor).st_size:
            return False
        self._nul_at_end = end - self._offset
        self._searched = 0
        return True

    def _feed(self, hole: int, text: bytes) -> Entry | None:
        """Pass over a hole, and give the text behind it to the splitter.

        Returns:
            The line that had begun before the hole, without its end.
        """
        cut = None
        if hole:
            line = self._splitter.finish()
            cut = None if line is None else line._replace(cut=True)
            self._splitter.skip(hole)
            self._skipped += hole
        self._splitter.feed(text)
        return cut

    def _continues(self, head: bytes, end: int) -> bool:
        """Return whether the file, now with these first bytes, was not truncated before ``end``."""
        return head.startswith(self._head) and os.fstat(self._descriptor).st_size >= end

    def _see(self, head: bytes) -> None:
        if head != self._head:
            self._check_encoding(head)
            self._head = head
            self.fingerprint = Fingerprint.of(head)

    def _check_encoding(self, head: bytes) -> None:
        name = wide_encoding(head) if self._reading.refuse_wide else None
        if name is not None:
            raise OSError(
                errno.EINVAL,
                f"it seems to be {name}, which is not supported: write it, or convert it, in UTF-8"
                " (--encoding utf-8 ships it as it is)",
                self._path,
            )

    def _batch(self, entries: list[Entry], *, at_end: bool = False) -> Batch:
        skipped, self._skipped = self._skipped, 0
        return Batch(
            events=self._writer.write(entries),
            end=entries[-1].end if entries else 0,
            lines=sum([entry.lines for entry in entries]),
            size=entries[-1].end - entries[0].start if entries else 0,
            skipped=skipped,
            at_end=at_end,
        )


def _check_size(path: str, head: bytes, size: int) -> None:
    if head and not size:
        raise OSError(errno.EINVAL, "it has bytes, but no size, as the files of /proc", path)
