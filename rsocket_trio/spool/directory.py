"""The directory of a spool: its files, and the lock against a second writer."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from ..log_policy import logger
from ..private_files import NotOurs, check_ours, make_directory, open_to_all
from ..process_lock import LockHeld, NoFileLocks, ProcessLock
from .errors import NotASpool, SpoolError, SpoolLocked

__all__ = ["WriterLock", "database_of", "files_in_use", "prepare", "reserve_of", "sync_directory"]

DATABASE: Final = "spool.sqlite3"
LOCK: Final = "spool.lock"
RESERVE: Final = "spool.reserve"
FILES: Final = (
    DATABASE,
    f"{DATABASE}-wal",
    f"{DATABASE}-shm",
    f"{DATABASE}-journal",
    LOCK,
    RESERVE,
)
HARMLESS: Final = frozenset({LOCK, RESERVE, f"{DATABASE}-journal", "lost+found"})
"""Names that a new spool may find in its directory. A crash may have left the lock file, or what
SQLite needs while it makes a database. The reserve is left if only the database was deleted. A file
system of its own has ``lost+found``."""


def database_of(directory: Path) -> Path:
    """Return the path of the database in the directory of a spool."""
    return directory / DATABASE


def files_in_use(directory: Path) -> list[Path]:
    """Return the paths of the files that a writer needs as they are, as long as it is open."""
    return [directory / name for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", LOCK)]


def reserve_of(directory: Path) -> Path:
    """Return the path of the file that holds disk space; see `rsocket_trio.spool.reserve`."""
    return directory / RESERVE


def prepare(directory: Path, *, locked: bool, group: bool = False) -> None:
    """Make the directory if there is none, and check that it is a spool of ours or empty.

    Args:
        directory: The directory of the spool.
        group: Its group may read.
        locked: We hold its lock. Otherwise another process may be about to make the database.

    Raises:
        NotASpool: It has other files, or it is a file.
        SpoolError: It belongs to another user, or has links.
        OSError: It cannot be made or read.
    """
    if not directory.is_dir():
        if directory.exists():
            raise NotASpool(f"{directory} is a file: a spool needs a directory")
        make_directory(directory, group=group)
        sync_directory(directory.parent)
    try:
        check_ours(directory, FILES)
    except NotOurs as error:
        raise SpoolError(str(error)) from None
    if locked and (warning := open_to_all(directory)):
        logger.warning("%s", warning)
    if not database_of(directory).exists():
        names = sorted(set(os.listdir(directory)) - HARMLESS)
        strangers = [name for name in names if locked or not name.startswith(DATABASE)]
        if strangers:
            raise NotASpool(
                f"{directory} is not a spool: it has other files ({strangers[0]}, ...); give an "
                "empty directory or a new one"
            )


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class WriterLock:
    """The lock of a directory against a second writer, in any process.

    Raises:
        SpoolLocked: Another block holds the lock, in this process or in another.
        SpoolError: The system has no file locks.
        OSError: The file cannot be opened.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self._lock = ProcessLock(directory / LOCK)
        except LockHeld as held:
            raise SpoolLocked(
                f"{directory} is open for writing in process {held.holder}, and a spool has one"
                " writer: stop that process, or use another directory"
            ) from None
        except NoFileLocks:
            raise SpoolError("this system has no file locks (flock), which a spool needs") from None

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()
