"""The files that should be read and are not open yet: `Wanted`."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ..log_policy import logger
from .discovery import Found, Problem
from .identity import FileKey

__all__ = ["Wanted", "WantedFile"]


@attrs.define
class WantedFile:
    """A file that should be read.

    Attributes:
        found: What is known of it.
        name: The path that its events name.
        is_moved: Whether it was only found by its position: then another content is not meant.
        is_entered: Whether it is in the registry.
    """

    found: Found
    name: str
    is_moved: bool
    is_entered: bool = False


class Wanted:
    """Keeps each file that was found until it is open, or is gone.

    So a file is not forgotten that cannot be opened now, and that is renamed meanwhile.

    Attributes:
        problems: What cannot be read now, as it was reported last.
    """

    def __init__(self) -> None:
        self.problems: dict[FileKey | str, Problem] = {}
        self._files: dict[FileKey, WantedFile] = {}

    def add(self, found: Found, name: str, *, is_moved: bool = False) -> None:
        """Add a file, or take where it is now."""
        file = self._files.setdefault(found.key, WantedFile(found, name, is_moved))
        file.found = found
        file.is_moved = file.is_moved and is_moved

    def files(self) -> list[WantedFile]:
        """Return all files, in the order in which they came."""
        return list(self._files.values())

    def keys(self) -> set[FileKey]:
        """Return the identities of all files."""
        return set(self._files)

    def remove(self, key: FileKey) -> None:
        """Remove a file that is open now."""
        del self._files[key]
        problem = self.problems.pop(key, None)
        if problem is not None:
            logger.info("%s is read now: it was: %s", problem.path, problem.reason)

    def remove_gone(self, key: FileKey) -> None:
        """Remove a file that cannot be found any more."""
        del self._files[key]
        problem = self.problems.pop(key, None)
        if problem is not None:
            logger.warning("%s is gone, and was not read: %s", problem.path, problem.reason)

    def report(self, problems: Mapping[FileKey | str, Problem]) -> None:
        """Take all that cannot be read now. Each is logged once, again with another reason."""
        for key, problem in problems.items():
            before = self.problems.get(key)
            if before is None or before.reason != problem.reason:
                logger.warning("cannot read %s yet: %s", problem.path, problem.reason)
        for key, problem in self.problems.items():
            if key not in problems:
                logger.info("%s is waited for no more: it was: %s", problem.path, problem.reason)
        self.problems = dict(problems)
