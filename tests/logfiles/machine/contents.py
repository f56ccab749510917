"""What is in the log files of the machine: each line, its key, and whether it must arrive."""

from __future__ import annotations

import hashlib
import json
import os

HEADER = "# time level text"
"""The first line of each content in some worlds: files that begin alike are not one file."""


class Content:
    """What a file has between two truncations.

    Attributes:
        lines: The offset of each complete line, by its text. No two lines of a world are equal.
        begun: The same of beginnings of lines that were written alone.
        over: Whether nothing can follow. Then a beginning may have been shipped as a line.
        looks_like: What tells it from others. A writer that does not append goes on at its old
            offset, behind NUL bytes: so from the first truncation on, all contents begin alike, and
            are one sequence of offsets.
    """

    def __init__(self, looks_like=None):
        self.looks_like = looks_like or self
        self.lines = {}
        self.begun = {}
        self.over = False


class LogFile:
    """A file, also when it has another name or none.

    Attributes:
        path: Its path; ``None``: it was deleted.
        key: Its device and inode.
        stale: The identity that the registry had for the inode when this file was made.
        held: Whether the running shipper keeps it, so that it needs no name any more.
        unfinished: The beginning of a line.
    """

    def __init__(self, path, stale_of, *, appends):
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if appends else 0)
        self._out = os.open(path, flags, 0o600)
        facts = os.fstat(self._out)
        self.path = path
        self.key = facts.st_dev, facts.st_ino
        self.stale = stale_of(self.key)
        self.appends = appends
        self.content = Content()
        self.held = False
        self.unfinished = ""
        self._with_hole = None

    def has_head(self, entry):
        """Whether this can be the file of an entry: its first bytes are those of then."""
        with open(self.path, "rb") as file:
            head = file.read(entry["head_size"])
        same = hashlib.sha256(head).hexdigest() == entry["head_sha256"]
        return same and self.size >= entry["offset"]

    @property
    def size(self):
        return os.fstat(self._out).st_size

    def write(self, data):
        """Write; return the offset of the first byte."""
        os.write(self._out, data)
        return os.lseek(self._out, 0, os.SEEK_CUR) - len(data)

    def truncate(self):
        os.ftruncate(self._out, 0)
        self.content.over = True
        if self.appends:
            self.content = Content()
        else:
            self._with_hole = self._with_hole or Content()
            self.content = Content(self._with_hole)
        self.unfinished = ""

    def unlink(self):
        os.unlink(self.path)
        self.path = None
        self.content.over = True

    def close(self):
        os.close(self._out)


class Registered:
    """What the registry file has, by device and inode."""

    def __init__(self, path):
        self.entries = {}
        if path.exists():
            for each in json.loads(path.read_text())["files"]:
                self.entries[each["device"], each["inode"]] = each

    def entry_of(self, file):
        """The entry of a file; ``None`` if there is none, or one of another file with its inode."""
        entry = self.entries.get(file.key)
        return None if entry is None or entry["id"] == file.stale else entry


class Arrived:
    """The events that came, and checks of their keys.

    Args:
        lines: The content of each line, by its text.
        begun: The content of each beginning of a line that was written alone.

    Attributes:
        acknowledged: The texts of those that were acknowledged.
    """

    def __init__(self, lines, begun):
        self.acknowledged = set()
        self._lines = lines
        self._begun = begun
        self._content_of = {}
        self._id_of = {}
        self._at = {}
        self._began_at = {}

    def begin(self, run, registered):
        """Take what the registry has before a run begins."""
        self._began_at[str(run)] = {
            entry["id"]: entry["offset"] for entry in registered.entries.values()
        }

    def check(self, event):
        """Check an event when it comes: nothing is invented, and its key names this line only."""
        text, offset = event["message"], event["log"]["offset"]
        file_id, run = event["log"]["file"]["id"], event["fields"]["run"]
        if text == HEADER:
            assert offset == 0, f"the header at {offset}"
            return
        content = self._lines.get(text)
        if content is None:
            content = self._begun.get(text)
            assert content is not None, f"{text!r} was invented"
            assert content.over, f"{text!r} was torn"
            assert offset == content.begun[text], f"{text!r} at {offset}"
        else:
            assert offset == content.lines[text], f"{text!r} at {offset}"
        begin = self._began_at[run].get(file_id, 0)
        assert offset >= begin, f"{text!r} came again, before {begin} of the registry"
        known = self._content_of.setdefault(file_id, content.looks_like)
        assert known is content.looks_like, f"{text!r}: two contents have the identity {file_id}"
        which = content if content.looks_like is content else text
        known = self._id_of.setdefault(which, file_id)
        assert known == file_id, f"{text!r}: one content has the identities {known}, {file_id}"
        assert self._at.setdefault((file_id, offset), text) == text, (
            f"{text!r}: a key is used again"
        )

    def check_registry(self, registered, excused):
        """Check that all lines before the offsets of the registry are acknowledged, or excused."""
        offsets = {each["id"]: each["offset"] for each in registered.entries.values()}
        for (file_id, offset), text in self._at.items():
            is_before = offset < offsets.get(file_id, 0)
            assert not is_before or text in self.acknowledged | excused, (
                f"{text!r} at {offset} is not acknowledged, but before the registry's offset"
            )
