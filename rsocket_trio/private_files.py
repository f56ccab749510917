"""What this package keeps on disk is closed to other users: how its files and directories are made.

Somebody else may have prepared a directory, with links to files of ours in it. So a file is opened
without following a link, and neither links nor files of other users are taken for our own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["NotOurs", "check_ours", "close_database", "make_directory", "open_private"]


class NotOurs(Exception):
    """A directory or a file in it belongs to another user, or is a link. The text says which."""


def make_directory(path: Path, *, group: bool = False) -> None:
    """Make a directory if there is none, and those above it.

    Args:
        path: The directory. If it exists, it stays as it is.
        group: Its group may use it, too, and gets the files in it.

    Raises:
        OSError: It cannot be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True)  # those above get the usual mode
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        if group:  # not by `mkdir`, because of the umask
            path.chmod(0o2770)


def check_ours(directory: Path, names: Iterable[str]) -> None:
    """Check that a directory is ours or the system's, and that what it has of these names is ours.

    Raises:
        NotOurs: It is not so.
        OSError: The directory cannot be read.
    """
    user = os.geteuid()
    owner = os.stat(directory).st_uid
    if owner not in (user, 0):
        raise NotOurs(_foreign(directory, owner, user))
    for name in names:
        path = directory / name
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(found.st_mode):
            raise NotOurs(
                f"{path} is a link, which somebody may have prepared: put the file itself there, or"
                " use another directory"
            )
        if found.st_uid != user:
            raise NotOurs(_foreign(path, found.st_uid, user))


def _foreign(path: Path, owner: int, user: int) -> str:
    return (
        f"{path} belongs to the user {owner}, and this process is the user {user}: run it as that"
        " user, give the files to this one (chown), or use another directory"
    )


def open_private(path: Path, flags: int) -> int:
    """Open a file, and return its descriptor. Only we can read it if it is made here.

    Args:
        path: The file.
        flags: As for `os.open`.

    Raises:
        OSError: It cannot be opened, or it is a link (ELOOP).
    """
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600)


def close_database(path: Path, *, group: bool = False) -> None:
    """Make a database of SQLite if there is none, and let other users neither read nor write it.

    The files beside it that exist are treated in the same way; SQLite gives those that it makes the
    mode of the database. An existing file is not opened: to close it would release the locks that
    SQLite has on it.

    Args:
        path: The database; it was checked by `check_ours`, with its other files.
        group: Its group may read and write.

    Raises:
        OSError: A file cannot be made or changed.
    """
    wanted = 0o660 if group else 0o600
    with suppress(FileExistsError):
        os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    for suffix in ("", "-wal", "-shm"):
        each = Path(f"{path}{suffix}")
        with suppress(FileNotFoundError):  # SQLite removes it with its last connection
            if stat.S_IMODE(os.lstat(each).st_mode) != wanted:
                each.chmod(wanted)
