"""Find the files that paths and patterns name: `scan`, `find_moved`. All functions block."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final

import attrs

from .identity import FileKey, head_of
from .registry import Position

__all__ = ["Found", "Problem", "Source", "find_moved", "path_now", "scan"]

_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip")
"""A pattern does not name these: logrotate compresses old files, and their names often match."""


@attrs.frozen
class Source:
    """A path or a pattern from the command line, as an absolute path.

    Attributes:
        text: The path or pattern.
        is_pattern: Whether it is a pattern. A path that exists is never one.
    """

    text: str
    is_pattern: bool

    @classmethod
    def of(cls, argument: str) -> Source:
        """Return the source that an argument names, now."""
        text = os.path.abspath(argument)
        return cls(text, glob.has_magic(argument) and not os.path.lexists(text))

    def names(self, path: str) -> bool:
        """Return whether a file at a path would be found by this source."""
        if not self.is_pattern:
            return path == self.text
        return _matches(path.split(os.sep), self.text.split(os.sep))


@attrs.frozen(kw_only=True)
class Found:
    """A regular file.

    Attributes:
        path: Its path.
        source: What named it.
        key: Its identity.
        size: Its size.
        modified: The time of its last change, in nanoseconds.
    """

    path: str
    source: Source
    key: FileKey
    size: int
    modified: int


@attrs.frozen
class Problem:
    """A path that cannot be used, and the reason."""

    path: str
    reason: str


def _matches(parts: list[str], patterns: list[str]) -> bool:
    """Return whether the parts of a path match those of a pattern; ``**`` is any number of them."""
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_matches(parts[skipped:], patterns[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])


def scan(sources: Iterable[Source]) -> tuple[list[Found], list[Problem]]:
    """Find the files of all sources. A file with several names is found once.

    The files of a pattern are sorted by the time of their last change, the oldest first: rotated
    files come before the current one.
    """
    found: dict[FileKey, Found] = {}
    problems: list[Problem] = []
    for source in sources:
        here: list[Found] = []
        paths = _expand(source.text) if source.is_pattern else [source.text]
        for path in paths:
            each = _look(path, source)
            if isinstance(each, Found):
                here.append(each)
            elif each is not None:
                problems.append(each)
        if source.is_pattern and not here:
            problems.append(Problem(source.text, "no file matches this pattern"))
        here.sort(key=lambda file: (file.modified, file.path))
        for file in here:
            found.setdefault(file.key, file)
    return list(found.values()), problems


def _expand(pattern: str) -> list[str]:
    return [path for path in glob.iglob(pattern, recursive=True) if not path.endswith(_COMPRESSED)]


def _look(path: str, source: Source) -> Found | Problem | None:
    try:
        facts = os.stat(path)
    except OSError as error:
        # A file of a pattern may disappear at any moment.
        gone = source.is_pattern and isinstance(error, FileNotFoundError)
        return None if gone else Problem(path, error.strerror or str(error))
    if not stat.S_ISREG(facts.st_mode):
        if source.is_pattern:
            return None
        kind = "a directory" if stat.S_ISDIR(facts.st_mode) else "not a regular file"
        return Problem(path, f"it is {kind}; give files, or a pattern in quotes")
    return Found(
        path=path,
        source=source,
        key=FileKey.of(facts),
        size=facts.st_size,
        modified=facts.st_mtime_ns,
    )


def find_moved(positions: Iterable[Position]) -> list[tuple[Position, Found]]:
    """Find files that were renamed in their directories while no process read them.

    Returns:
        Each position whose file is found, with the file as it is now.
    """
    directories: dict[str, dict[int, list[str]]] = {}
    moved: list[tuple[Position, Found]] = []
    for position in positions:
        paths: list[str] = []
        for directory in _directories_of(position.path, position.real):
            if directory not in directories:
                directories[directory] = _paths_by_inode(directory)
            paths += directories[directory].get(position.key.inode, ())
        for path in paths:
            found = _look(path, Source(position.source, is_pattern=True))
            if isinstance(found, Found) and _is_same(found, position):
                moved.append((position, found))
                break
    return moved


def path_now(found: Found) -> str | None:
    """Return where a file is that was found a moment ago; ``None``: it is not in its directory.

    It may have been renamed meanwhile, and another file may have its path.
    """
    paths = [found.path]
    for directory in _directories_of(found.path, os.path.realpath(found.path)):
        paths += _paths_by_inode(directory).get(found.key.inode, ())
    for path in paths:
        try:
            same = FileKey.of(os.stat(path)) == found.key
        except OSError:
            continue
        if same:
            return path
    return None


def _directories_of(path: str, real: str) -> list[str]:
    """Return where a file may be after it was renamed: also next to the target of a link.

    That is the target now, and the one when the file was opened.
    """
    paths = (path, os.path.realpath(path), real)
    return list(dict.fromkeys(map(os.path.dirname, paths)))


def _paths_by_inode(directory: str) -> dict[int, list[str]]:
    paths: dict[int, list[str]] = {}
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            paths.setdefault(entry.inode(), []).append(entry.path)
    return paths


def _is_same(found: Found, position: Position) -> bool:
    if found.key != position.key or found.size < position.offset:
        return False
    if not position.fingerprint.size and not _is_rotated_name(found.path, position.path):
        return False
    try:
        descriptor = os.open(found.path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return position.fingerprint.matches(head_of(descriptor))
        finally:
            os.close(descriptor)
    except OSError:
        return False


def _is_rotated_name(path: str, before: str) -> bool:
    """Return whether a path may be the new name of a file, by what most rotations keep of a name.

    Of a file that was empty there is only the inode, which may have been used again: a file that
    nobody named must not be taken for it.
    """
    stem = os.path.basename(before).partition(".")[0]
    return os.path.basename(path).startswith(stem)
