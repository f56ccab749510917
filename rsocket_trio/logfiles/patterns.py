"""The files that a pattern matches: `expand`. It blocks.

Whoever may write into a directory of logs may put a link there, to a file that only this process
may read. So links that a pattern finds are not followed unless it is asked for, neither to files
nor to directories. Each directory is opened relative to the one above, so nobody can replace it by
a link meanwhile. The directories before the first wildcard were named by the user, and may be
links.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final

import attrs

from .identity import FileKey

__all__ = ["GONE", "Matches", "expand", "matches"]

GONE: Final = (FileNotFoundError, NotADirectoryError)
"""What is there may disappear at any moment."""

MAX_LEVELS: Final = 64
"""Directories one in another, from the first wildcard on. Each of them takes a descriptor while it
is looked at, and whoever may write into a directory of logs may make thousands of them."""


@attrs.define
class Matches:
    """What a pattern matches.

    Attributes:
        files: The paths of regular files, with what ``stat`` returns.
        links: The paths of links that were not followed, and what they lead to.
        failures: The directories and files that could not be looked at.
    """

    files: list[tuple[str, os.stat_result]] = attrs.field(factory=list)
    links: list[tuple[str, FileKey]] = attrs.field(factory=list)
    failures: list[tuple[str, OSError]] = attrs.field(factory=list)


def expand(pattern: str, *, follow_links: bool) -> Matches:
    """Find the regular files that an absolute pattern matches.

    ``*``, ``?`` and ``[...]`` stand for parts of a name, but not for a dot at its beginning; ``**``
    for any number of directories.
    """
    parts = pattern.split(os.sep)
    wild = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    base = os.sep.join(parts[:wild])
    search = _Search(follow_links)
    search.descend(None, base or os.sep, base, parts[wild:])
    return search.matches


class _Search:
    def __init__(self, follow_links: bool) -> None:
        self.matches = Matches()
        self._follow = follow_links
        self._level = 0
        # The directories that were looked at, for so many parts of the pattern, and the lowest
        # level where. Links may lead to them in any number of ways, also back from inside.
        self._levels: dict[tuple[FileKey, int], int] = {}

    def descend(self, above: int | None, name: str, path: str, parts: Sequence[str]) -> None:
        """Look into a directory of the open directory ``above``, or into the first one."""
        if self._level == MAX_LEVELS:
            reason = (
                f"it is {MAX_LEVELS} directories below the first wildcard, and no more are looked"
                " into: name the first ones in the pattern"
            )
            self.matches.failures.append((path, OSError(errno.ENAMETOOLONG, reason)))
            return
        flags = 0 if above is None or self._follow else os.O_NOFOLLOW
        try:
            directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | flags, dir_fd=above)
        except GONE:
            return
        except OSError as error:
            self.matches.failures.append((path or os.sep, error))
            return
        try:
            place = FileKey.of(os.fstat(directory)), len(parts)
            if self._level < self._levels.get(place, MAX_LEVELS):
                self._levels[place] = self._level
                self._level += 1
                self._look(directory, path, parts)
                self._level -= 1
        finally:
            os.close(directory)

    def _look(self, directory: int, path: str, parts: Sequence[str]) -> None:
        part, *rest = parts
        if part == "**":
            # Here, or in any directory below.
            self._look(directory, path, rest or ["*"])
            part, rest = "*", list(parts)
        names = [part]
        if glob.has_magic(part):
            try:
                listed = os.listdir(directory)
            except OSError as error:
                self.matches.failures.append((path or os.sep, error))
                return
            names = [name for name in listed if _matches(name, part)]
        for name in names:
            self._visit(directory, name, f"{path}{os.sep}{name}", rest)

    def _visit(self, directory: int, name: str, path: str, parts: Sequence[str]) -> None:
        """Take a file, or look into a directory if parts of the pattern are left."""
        is_wanted = stat.S_ISDIR if parts else stat.S_ISREG
        try:
            facts = os.stat(name, dir_fd=directory, follow_symlinks=self._follow)
        except GONE:
            return
        except OSError as error:
            self.matches.failures.append((path, error))
            return
        if stat.S_ISLNK(facts.st_mode):
            with suppress(OSError):
                facts = os.stat(name, dir_fd=directory)
            if is_wanted(facts.st_mode):
                self.matches.links.append((path, FileKey.of(facts)))
        elif is_wanted(facts.st_mode):
            if parts:
                self.descend(directory, name, path, parts)
            else:
                self.matches.files.append((path, facts))


def matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern, by the same rules."""
    if not pattern:
        return not parts
    part, *rest = pattern
    if part == "**":
        if matches(parts, rest or ["*"]):
            return True
        part, rest = "*", list(pattern)
    return bool(parts) and _matches(parts[0], part) and matches(parts[1:], rest)


def _matches(name: str, part: str) -> bool:
    return fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))
