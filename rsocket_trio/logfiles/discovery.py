"""Find the files that paths and patterns name, also renamed: `scan`, `find_moved`, `Listings`.

All functions block.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Iterable
from typing import Final

import attrs

from .identity import FileKey, head_of
from .patterns import GONE, expand, matches
from .registry import Position

__all__ = ["Found", "Listings", "Look", "Problem", "Source", "find_moved", "scan"]

_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip")
"""A pattern does not name these: logrotate compresses old files, and their names often match."""
_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


@attrs.frozen
class Source:
    """A path or a pattern from the command line, as an absolute path.

    Attributes:
        text: The path or pattern.
        is_pattern: Whether it is a pattern. A path that exists is never one.
        follow_links: Whether files are found through links. A path that is named may be a link.
    """

    text: str
    is_pattern: bool
    follow_links: bool

    @classmethod
    def of(cls, argument: str, *, follow_links: bool = False) -> Source:
        """Return the source that an argument names, now.

        Args:
            argument: A path or a pattern.
            follow_links: Whether a pattern follows links.
        """
        text = os.path.abspath(argument)
        is_pattern = glob.has_magic(argument) and not os.path.lexists(text)
        return cls(text, is_pattern, follow_links or not is_pattern)

    def names(self, path: str) -> bool:
        """Return whether a file at a path would be found by this source."""
        if not self.is_pattern:
            return path == self.text
        return matches(path.split(os.sep), self.text.split(os.sep))


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

    @classmethod
    def of(cls, path: str, error: OSError) -> Problem:
        """Return the problem that an exception is about."""
        return cls(path, error.strerror or str(error))


@attrs.define
class Look:
    """What one look at the sources has found.

    Attributes:
        found: The files. A file with several names is found once.
        problems: What cannot be looked at.
        links: Links to further files and directories, which patterns do not follow.
        hidden: Directories and files that cannot be looked at now: what was there may be there.
    """

    found: list[Found] = attrs.field(factory=list)
    problems: list[Problem] = attrs.field(factory=list)
    links: list[str] = attrs.field(factory=list)
    hidden: list[str] = attrs.field(factory=list)

    def is_hidden(self, path: str) -> bool:
        """Return whether a path cannot be looked at now, or is below one that cannot."""
        return any(f"{path}{os.sep}".startswith(os.path.join(each, "")) for each in self.hidden)


def scan(sources: Iterable[Source]) -> Look:
    """Find the files of all sources.

    The files of a pattern are sorted by the time of their last change, the oldest first: rotated
    files come before the current one.
    """
    look = Look()
    found: dict[FileKey, Found] = {}
    links: list[tuple[str, FileKey]] = []
    for source in sources:
        if source.is_pattern:
            expanded = expand(source.text, follow_links=source.follow_links)
            here = [
                _found(path, source, facts)
                for path, facts in expanded.files
                if not path.endswith(_COMPRESSED)
            ]
            here.sort(key=lambda file: (file.modified, file.path))
            if not here:
                look.problems.append(Problem(source.text, "no file matches this pattern"))
            for path, error in expanded.failures:
                look.problems.append(Problem.of(path, error))
                look.hidden.append(path)
            links += [each for each in expanded.links if not each[0].endswith(_COMPRESSED)]
        else:
            here = []
            try:
                named = _look(source.text, source)
            except OSError as error:
                look.problems.append(Problem.of(source.text, error))
                if not isinstance(error, GONE):
                    look.hidden.append(source.text)
            else:
                if isinstance(named, Found):
                    here.append(named)
                else:
                    look.problems.append(named)
        for file in here:
            found.setdefault(file.key, file)
    look.found = list(found.values())
    look.links = [path for path, key in links if key not in found]
    return look


def _look(path: str, source: Source) -> Found | Problem:
    facts = os.stat(path, follow_symlinks=source.follow_links)
    if not stat.S_ISREG(facts.st_mode):
        kind = "a directory" if stat.S_ISDIR(facts.st_mode) else "not a regular file"
        return Problem(path, f"it is {kind}; give files, or a pattern in quotes")
    return _found(path, source, facts)


def _found(path: str, source: Source, facts: os.stat_result) -> Found:
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
        Each position whose file is found, with the file as it is now. One that cannot be opened
        now has the same device and inode, and may have another content.

    Raises:
        OSError: The process has no descriptors.
    """
    listings = Listings()
    moved: list[tuple[Position, Found]] = []
    for position in positions:
        paths: list[str] = []
        for directory in _directories_of(position.path, position.real):
            try:
                paths += listings.paths(directory, position.key.inode)
            except OSError as error:
                if error.errno in _SHORTAGES:
                    raise
        for path in paths:
            try:
                found = _look(path, Source(position.source, is_pattern=True, follow_links=False))
            except OSError:
                continue
            if isinstance(found, Found) and _is_same(found, position):
                moved.append((position, found))
                break
    return moved


class Listings:
    """Finds files that were renamed since a look has found them. Each directory is listed once.

    A file that is not in a list that was made after the look is not in the directory any more.
    """

    def __init__(self) -> None:
        self._paths: dict[str, dict[int, list[str]]] = {}

    def path_now(self, found: Found) -> str | None:
        """Return where a file is now; ``None``: it is not in its directory.

        It may have been renamed, and another file may have its path.

        Raises:
            OSError: This cannot be found out now.
        """
        if _is_at(found, found.path):
            return found.path
        for directory in _directories_of(found.path, os.path.realpath(found.path)):
            listed_before = directory in self._paths
            paths = self.paths(directory, found.key.inode)
            path = next((each for each in paths if _is_at(found, each)), None)
            if path is None and paths and listed_before:  # It was renamed once more.
                del self._paths[directory]
                paths = self.paths(directory, found.key.inode)
                path = next((each for each in paths if _is_at(found, each)), None)
            if path is not None:
                return path
        return None

    def paths(self, directory: str, inode: int) -> list[str]:
        """Return the paths in a directory that have this inode.

        Raises:
            OSError: It cannot be listed now.
        """
        if directory not in self._paths:
            self._paths[directory] = _paths_by_inode(directory)
        return self._paths[directory].get(inode, [])


def _is_at(found: Found, path: str) -> bool:
    try:
        return FileKey.of(os.stat(path, follow_symlinks=found.source.follow_links)) == found.key
    except OSError:
        return False


def _directories_of(path: str, real: str) -> list[str]:
    """Return where a file may be after it was renamed: also next to the target of a link.

    That is the target now, and the one when the file was opened.
    """
    paths = (path, os.path.realpath(path), real)
    return list(dict.fromkeys(map(os.path.dirname, paths)))


def _paths_by_inode(directory: str) -> dict[int, list[str]]:
    paths: dict[int, list[str]] = {}
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                paths.setdefault(entry.inode(), []).append(entry.path)
    except GONE:
        pass
    return paths


def _is_same(found: Found, position: Position) -> bool:
    if found.key != position.key or found.size < position.offset:
        return False
    if not position.fingerprint.size and not _is_rotated_name(found.path, position.path):
        return False
    try:
        descriptor = os.open(found.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            return position.fingerprint.matches(head_of(descriptor))
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _is_rotated_name(path: str, before: str) -> bool:
    """Return whether a path may be the new name of a file, by what most rotations keep of a name.

    Of a file that was empty there is only the inode, which may have been used again: a file that
    nobody named must not be taken for it.
    """
    stem = os.path.basename(before).partition(".")[0]
    return os.path.basename(path).startswith(stem)
