"""What this package keeps on disk is closed to other users: how its files and directories are made.

Somebody else may have prepared a directory: with links to files of ours, with pipes that block who
opens them, or with a database that runs code of its maker, as a trigger does, or a view without end
in place of a table. So a file is opened without following a link, neither links nor files of other
users are taken for our own, and a database has plain tables, or it is not read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

__all__ = [
    "NotOurs",
    "bounded",
    "check_files",
    "check_ours",
    "check_tables",
    "close_database",
    "make_directory",
    "open_private",
    "open_to_all",
]

_INSTRUCTIONS: Final = 10_000_000
"""What SQLite may do in a block of `bounded`: a fraction of a second. Half a million consumers of
a spool take less."""
_LOOK: Final = 10_000
"""Instructions between two looks at their number."""
_VALUE: Final = 2**20
"""The largest value or row that SQLite may read in such a block, in bytes: names and numbers have
less, and a prepared name of 400 MB took many seconds to read and to print."""
_LENGTH: Final = 0  # sqlite3.SQLITE_LIMIT_LENGTH; this module does not import it

_ODD: Final = """
SELECT type, name FROM main.sqlite_schema
WHERE NOT (type = 'table' AND rootpage > 0 AND sql LIKE 'CREATE TABLE %')
AND NOT (type = 'index' AND sql IS NULL)
UNION ALL
SELECT 'computed column', found.name || '.' || col.name
FROM main.sqlite_schema AS found, pragma_table_xinfo(found.name) AS col
WHERE found.type = 'table' AND col.hidden
LIMIT 1
"""
# The index of a primary key has no SQL. Another one may have any expression.


class NotOurs(Exception):
    """A directory or a file in it is not as we make it, and the text says why.

    It belongs to another user, it is a link or no file, or a database has more than tables.
    """


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
    for path, found in check_files(directory, names):
        if found.st_uid != user:
            raise NotOurs(_foreign(path, found.st_uid, user))


def open_to_all(directory: Path) -> str | None:
    """Return what to tell about a directory in which every user can put files in place of ours.

    It is not refused: the volumes of some orchestrators are like this, with one user inside.

    Raises:
        OSError: The directory cannot be read.
    """
    mode = stat.S_IMODE(os.stat(directory).st_mode)
    if not mode & stat.S_IWOTH:
        return None
    return (
        f"every user of this host can replace the files in {directory}, whose mode is {mode:04o}:"
        " use a directory of your own (chmod 700)"
    )


def check_files(directory: Path, names: Iterable[str]) -> list[tuple[Path, os.stat_result]]:
    """Check that what a directory has of these names are files; return them.

    Raises:
        NotOurs: One is a link, or something else: the open of a pipe would wait for ever.
        OSError: The directory cannot be read.
    """
    files = []
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
        if not stat.S_ISREG(found.st_mode):
            raise NotOurs(
                f"{path} is no file, and somebody may have prepared it: remove it, or use another"
                " directory"
            )
        files.append((path, found))
    return files


def _foreign(path: Path, owner: int, user: int) -> str:
    return (
        f"{path} belongs to the user {owner}, and this process is the user {user}: run it as that"
        " user, give the files to this one (chown), or use another directory"
    )


def open_private(path: str | os.PathLike[str], flags: int) -> int:
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


@contextmanager
def bounded(connection: sqlite3.Connection) -> Iterator[None]:
    """Let SQLite do a moment's work in the block: else it is interrupted (SQLITE_INTERRUPT).

    The tables of a damaged database, or of one that somebody has prepared, may have no end. Values
    of more than 1 MiB are refused (SQLITE_TOOBIG), so read no events here.
    """
    looks = 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        return looks > _INSTRUCTIONS // _LOOK

    connection.set_progress_handler(look, _LOOK)
    largest = connection.setlimit(_LENGTH, _VALUE)
    try:
        yield
    finally:
        connection.setlimit(_LENGTH, largest)
        connection.set_progress_handler(None, 0)


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a database has plain tables: nothing in it runs code when we read or write it.

    Args:
        connection: A connection to the database, which has not read its tables yet.
        path: Its path, for the text of the error.

    Raises:
        NotOurs: It has something else.
        sqlite3.Error: It cannot be read.
    """
    connection.execute("PRAGMA trusted_schema = OFF")
    found = connection.execute(_ODD).fetchone()
    if found is not None:
        raise NotOurs(
            f"{path} has a {found[0]} named {found[1]!r}, and we make plain tables only: somebody"
            " else has made or changed this database, so it is not read; use another directory"
        )
