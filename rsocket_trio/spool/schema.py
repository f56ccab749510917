"""The database of a spool: its tables, settings and versions, and how it is opened."""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ..private_files import NotOurs, bounded, check_files, check_tables, close_database
from .directory import DATABASE, FILES, database_of, sync_directory
from .epochs import new_epoch
from .errors import NotASpool, SpoolFailed, SpoolTooNew
from .runs import find_runs

__all__ = ["DATABASE_ERRORS", "WAIT", "connect_reader", "connect_writer", "failure"]

DATABASE_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What `sqlite3` raises. The second one, if a damaged database makes SQLite quote its damage."""

APPLICATION: Final = 0x52537030
"""``PRAGMA application_id``: the letters "RSp0". This package recognises a spool by it."""

VERSION: Final = 3
"""``PRAGMA user_version``: the version of the tables."""

PAGE_SIZE: Final = 16384
"""Bytes. A batch has many pages, so large pages save work; see docs/design.md."""

WAIT: Final = 5.0
"""Seconds to wait for a lock of the database. Other processes hold one only while they open it."""

_INSTANCES: Final = """
CREATE TABLE instances (
    consumer TEXT NOT NULL,
    name TEXT NOT NULL,
    "offset" INTEGER NOT NULL,
    seen_at REAL NOT NULL,
    lease REAL,
    absent REAL NOT NULL,
    PRIMARY KEY (consumer, name)
) STRICT, WITHOUT ROWID
"""
_EPOCHS: Final = "CREATE TABLE epochs (first INTEGER PRIMARY KEY, epoch TEXT NOT NULL) STRICT"
_RUNS: Final = "CREATE TABLE runs (first INTEGER PRIMARY KEY) STRICT"

TABLES: Final = f"""
CREATE TABLE spool (
    id INTEGER PRIMARY KEY CHECK (id = 0),
    spool_id TEXT NOT NULL,
    created_at REAL NOT NULL,
    oldest INTEGER NOT NULL
) STRICT;
CREATE TABLE batches (
    first INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    number INTEGER NOT NULL,
    before INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    stored_at REAL NOT NULL,
    encoding TEXT NOT NULL,
    facts TEXT NOT NULL,
    data BLOB NOT NULL
) STRICT;
{_INSTANCES};
{_EPOCHS};
{_RUNS};
"""
# instances         one row for what an instance of a consumer needs; see `ConsumerInstance`.
# epochs            where each epoch begins that has stored a batch; see `Epochs`.
# runs              where the times of batches go back; see `find_runs`.
# spool.oldest      the first offset that is kept; also where a spool without batches goes on.
# batches.number    counts the batches, batches.before their costs: the differences of two rows give
#                   what is between them, so no total has to be written with each batch.
# batches.data      is last, so that the other columns are read without it.

_LEASE_OF_VERSION_1: Final = 3600.0
"""Seconds. Version 1 has one position for all instances of a consumer, which come back by names
that it does not know. So this position counts for a while longer, and not for ever."""


def _from_version_1(connection: sqlite3.Connection) -> None:
    connection.execute(_INSTANCES)
    connection.execute(_EPOCHS)
    connection.execute(
        "INSERT INTO instances SELECT consumer, '', \"offset\", committed_at, ?, 0 FROM positions",
        (_LEASE_OF_VERSION_1,),
    )
    connection.execute("DROP TABLE positions")
    # What is stored already was written in one epoch, as far as anybody knows.
    connection.execute(
        "INSERT INTO epochs SELECT oldest, ? FROM spool WHERE EXISTS (SELECT 1 FROM batches)",
        (new_epoch(),),
    )


def _from_version_2(connection: sqlite3.Connection) -> None:
    connection.execute(_RUNS)
    found = [(first,) for first in find_runs(connection)]
    connection.executemany("INSERT INTO runs VALUES (?)", found)


MIGRATIONS: Final[dict[int, Callable[[sqlite3.Connection], None]]] = {
    1: _from_version_1,
    2: _from_version_2,
}
"""By version: what makes the tables of this version those of the next one."""

_VIEWS_OF_VERSION_1: Final = (
    """CREATE TEMP VIEW instances AS SELECT consumer, '' AS name, "offset",
    committed_at AS seen_at, NULL AS lease, 0.0 AS absent FROM positions""",
    "CREATE TEMP VIEW epochs AS SELECT 0 AS first, '' AS epoch WHERE 0",
)
"""What readers need who find a spool that no writer of this version has opened."""


def connect_writer(
    directory: Path, checkpoint_size: int, *, group: bool = False
) -> sqlite3.Connection:
    """Open the database for writing, and make it if there is none.

    Args:
        directory: The directory of the spool.
        checkpoint_size: See `SpoolConfig`.
        group: Its group may read.

    Raises:
        NotASpool: There is another database, or a file that is none.
        SpoolTooNew: See there.
        SpoolFailed: The database cannot be opened.
        OSError: The file cannot be made.
    """
    path = database_of(directory)
    close_database(path, group=group)
    try:
        connection = sqlite3.connect(
            path, timeout=WAIT, isolation_level=None, check_same_thread=False
        )
        try:
            if _recognise(connection, path) is None:
                # The size of a page is fixed when the first page is written.
                connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            _set_up(connection, directory, checkpoint_size)
            _upgrade(connection, path)
            sync_directory(directory)
        except BaseException:  # closed before the error goes on
            connection.close()
            raise
    except DATABASE_ERRORS as error:
        raise failure(error, directory) from error
    return connection


def connect_reader(directory: Path) -> sqlite3.Connection:
    """Open the database of an existing spool for reading only.

    Raises:
        NotASpool: There is no spool.
        SpoolTooNew: See there.
        SpoolFailed: The database cannot be opened.
    """
    path = database_of(directory)
    if not directory.exists():
        raise NotASpool(f"{directory} is not a spool: there is no such directory")
    if not os.path.lexists(path):
        raise NotASpool(f"{directory} is not a spool: it has no file {DATABASE}")
    try:
        check_files(directory, FILES)
    except NotOurs as error:
        raise NotASpool(str(error)) from None
    except OSError as error:
        raise SpoolFailed(f"the spool in {directory} cannot be read: {error.strerror}") from error
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?mode=ro",
            uri=True,
            timeout=WAIT,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            version = _recognise(connection, path)
            if version == 1:
                for statement in _VIEWS_OF_VERSION_1:
                    connection.execute(statement)
        except BaseException:  # as above
            connection.close()
            raise
    except DATABASE_ERRORS as error:
        raise failure(error, directory) from error
    if version is None:
        connection.close()
        raise NotASpool(f"{directory} is not a spool yet: its database is empty")
    return connection


def failure(error: sqlite3.Error | UnicodeDecodeError, directory: Path) -> NotASpool | SpoolFailed:
    """Return the error of this package for an error of the database."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
        return NotASpool(f"{database_of(directory)} is not a database: {error}")
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
        return SpoolFailed(
            f"the database in {directory} is damaged, or somebody has prepared it: its tables have"
            " no end; use another directory, or an older copy of this one"
        )
    if isinstance(error, UnicodeDecodeError):
        return SpoolFailed(f"the database in {directory} is damaged: its tables are not readable")
    return SpoolFailed(f"the database in {directory} failed: {error}")


def _set_up(connection: sqlite3.Connection, directory: Path, checkpoint_size: int) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise SpoolFailed(f"the file system of {directory} does not allow SQLite's WAL")
    connection.execute("PRAGMA synchronous = FULL")
    # On macOS a plain fsync does not reach the disk; elsewhere these two do nothing.
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    # Some systems (Debian) overwrite deleted data by default, which doubles the writes.
    connection.execute("PRAGMA secure_delete = OFF")
    # KiB. Pages are written once, so more of them only displace others in the processor's cache:
    # 16 MiB take a tenth more time than these 2 MiB.
    connection.execute("PRAGMA cache_size = -2048")
    # A spool without batches is made small by VACUUM, on a full disk.
    connection.execute("PRAGMA temp_store = MEMORY")
    pages = max(checkpoint_size // PAGE_SIZE, 1)
    connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
    connection.execute(f"PRAGMA journal_size_limit = {2 * checkpoint_size}")


def _recognise(connection: sqlite3.Connection, path: Path) -> int | None:
    """Return the version of the tables; ``None`` for a database without tables.

    A crash may leave a database without tables: they are made in one transaction.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    with bounded(connection):
        if application == 0 and not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
            return None
        if application != APPLICATION or version < 1:
            raise NotASpool(f"{path} is the database of another program, not of a spool")
        try:
            check_tables(connection, path)
        except NotOurs as error:
            raise NotASpool(str(error)) from None
    if version > VERSION:
        raise SpoolTooNew(
            f"{path} has version {version} of the format, and this version of rsocket_trio knows "
            f"versions up to {VERSION}: update rsocket_trio"
        )
    return version


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or those of an older version new, in one transaction.

    After an error the caller closes the connection, so nothing is left half done.
    """
    version = _recognise(connection, path)
    if version == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    if version is None:
        for statement in filter(str.strip, TABLES.split(";")):
            connection.execute(statement)
        identity = str(uuid.uuid4())
        row = (0, identity, time.time(), 0)
        connection.execute("INSERT INTO spool VALUES (?, ?, ?, ?)", row)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
    else:
        for each in range(version, VERSION):
            MIGRATIONS[each](connection)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
