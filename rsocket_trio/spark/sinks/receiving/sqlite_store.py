"""Attempts and commits on disk, in a database of SQLite: `SqliteStore`."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from ....log_policy import logger
from ....private_files import (
    NotOurs,
    bounded,
    check_ours,
    check_tables,
    close_database,
    make_directory,
    open_to_all,
)
from ....process_lock import LockHeld, NoFileLocks, ProcessLock
from .store import Commit, StagedAttempt, join_payloads, split_payloads

__all__ = ["SinkDirectoryError", "SqliteStore"]

DATABASE: Final = "sink.sqlite3"
LOCK: Final = "sink.lock"
FILES: Final = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-journal", LOCK)
HARMLESS: Final = frozenset({LOCK, f"{DATABASE}-journal", "lost+found"})
"""Names that a new directory may have: a crash may have left them, or the file system."""

APPLICATION: Final = 0x52536B30
"""``PRAGMA application_id``: the letters "RSk0"."""

VERSION: Final = 1
"""``PRAGMA user_version``: the version of the tables."""

PURGE_CHUNKS: Final = 64
"""Chunks that one transaction deletes: about 32 MiB."""

TABLES: Final = """
CREATE TABLE attempts (
    key INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    query TEXT NOT NULL,
    batch INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    attempt TEXT NOT NULL,
    writer TEXT NOT NULL,
    format TEXT NOT NULL,
    schema TEXT NOT NULL,
    begun_at REAL NOT NULL,
    rows INTEGER NOT NULL,
    size INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    complete INTEGER NOT NULL
) STRICT;
CREATE TABLE chunks (
    key INTEGER NOT NULL,
    number INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (key, number)
) STRICT;
CREATE TABLE commits (
    owner TEXT NOT NULL,
    query TEXT NOT NULL,
    batch INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    source TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (owner, query)
) STRICT, WITHOUT ROWID;
"""
# chunks without a row in attempts belong to dropped attempts: purge deletes them.


class SinkDirectoryError(Exception):
    """The directory of a sink cannot be used; the text says why, and what to do."""


class SqliteStore:
    """Keeps attempts and commits in a directory that one process uses at a time.

    Raises:
        SinkDirectoryError: The directory is in use, it is not the directory of a sink, it belongs
            to another user, or it has links.
        OSError: It cannot be made or read.
    """

    def __init__(self, directory: Path) -> None:
        self.blocking = True
        make_directory(directory)
        try:
            check_ours(directory, FILES)
        except NotOurs as error:
            raise SinkDirectoryError(str(error)) from None
        if warning := open_to_all(directory):
            logger.warning("%s", warning)
        try:
            self._lock = ProcessLock(directory / LOCK)
        except LockHeld as held:
            raise SinkDirectoryError(
                f"{directory} is in use by process {held.holder}: stop it, or give this sink a "
                "directory of its own"
            ) from None
        except NoFileLocks:
            raise SinkDirectoryError(
                "this system has no file locks (flock), so a sink cannot keep rows in a directory"
            ) from None
        try:
            self._database = _open(directory)
        except BaseException:  # the lock is released before the error goes on
            self._lock.release()
            raise

    def load(self) -> tuple[list[StagedAttempt], list[Commit]]:
        """See `Store.load`."""
        database = self._database
        with self._transaction():
            database.execute("DELETE FROM attempts WHERE NOT complete")
        attempts = [
            StagedAttempt(**dict(zip(_COLUMNS, row, strict=True), complete=True))
            for row in database.execute(f"SELECT {', '.join(_COLUMNS)} FROM attempts")
        ]
        commits = [
            Commit(owner=owner, query=query, batch=batch, rows=rows, source=source, at=at)
            for owner, query, batch, rows, source, at in database.execute(
                "SELECT owner, query, batch, rows, source, at FROM commits ORDER BY at"
            )
        ]
        return attempts, commits

    def begin(self, attempt: StagedAttempt) -> None:
        """See `Store.begin`."""
        with self._transaction(durable=False):
            self._write(attempt)

    def append(self, key: int, number: int, payloads: Sequence[bytes]) -> None:
        """See `Store.append`."""
        with self._transaction(durable=False):
            self._database.execute(
                "INSERT INTO chunks VALUES (?, ?, ?)", (key, number, join_payloads(payloads))
            )

    def complete(self, attempt: StagedAttempt) -> None:
        """See `Store.complete`."""
        # The sync of this transaction includes those before it, because they are in one log.
        with self._transaction():
            self._write(attempt)

    def read(self, key: int, number: int) -> list[bytes]:
        """See `Store.read`."""
        row = self._database.execute(
            "SELECT data FROM chunks WHERE key = ? AND number = ?", (key, number)
        ).fetchone()
        if row is None:
            raise LookupError(f"chunk {number} of attempt {key} is not in the database")
        return split_payloads(row[0])

    def commit(self, commit: Commit, keys: Sequence[int], forgotten: Sequence[Commit]) -> None:
        """See `Store.commit`."""
        with self._transaction():
            self._database.execute(
                "INSERT OR REPLACE INTO commits VALUES (?, ?, ?, ?, ?, ?)",
                attrs.astuple(commit),
            )
            self._database.executemany(
                "DELETE FROM commits WHERE owner = ? AND query = ?",
                [(each.owner, each.query) for each in forgotten],
            )
            self._delete(keys)

    def drop(self, keys: Sequence[int]) -> None:
        """See `Store.drop`."""
        with self._transaction(durable=False):
            self._delete(keys)

    def purge(self) -> bool:
        """See `Store.purge`."""
        with self._transaction(durable=False):
            deleted = self._database.execute(
                "DELETE FROM chunks WHERE rowid IN (SELECT rowid FROM chunks WHERE key NOT IN "
                "(SELECT key FROM attempts) LIMIT ?)",
                (PURGE_CHUNKS,),
            ).rowcount
        return deleted == PURGE_CHUNKS

    def close(self) -> None:
        """See `Store.close`."""
        try:
            self._database.close()
        finally:
            self._lock.release()

    @contextmanager
    def _transaction(self, *, durable: bool = True) -> Iterator[None]:
        database = self._database
        # Without NORMAL each chunk would wait for the disk, and only `complete` has to.
        database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        database.execute("BEGIN IMMEDIATE")
        try:
            yield
            database.execute("COMMIT")
        except BaseException:  # nothing is left half done
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    def _write(self, attempt: StagedAttempt) -> None:
        values = [getattr(attempt, name) for name in _COLUMNS]
        marks = ", ".join("?" * len(values))
        self._database.execute(f"INSERT OR REPLACE INTO attempts VALUES ({marks})", values)

    def _delete(self, keys: Sequence[int]) -> None:
        self._database.executemany("DELETE FROM attempts WHERE key = ?", [(key,) for key in keys])


_COLUMNS: Final = (
    "key", "owner", "query", "batch", "partition", "attempt", "writer", "format", "schema",
    "begun_at", "rows", "size", "chunks", "complete",
)  # fmt: skip


def _open(directory: Path) -> sqlite3.Connection:
    path = directory / DATABASE
    if not path.exists():
        strangers = sorted(set(os.listdir(directory)) - HARMLESS)
        if strangers:
            raise SinkDirectoryError(
                f"{directory} is not the directory of a sink: it has other files "
                f"({strangers[0]}, ...); give an empty directory or a new one"
            )
    close_database(path)
    try:
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _set_up(database, path)
        except BaseException:  # closed before the error goes on
            database.close()
            raise
    except sqlite3.Error as error:
        raise SinkDirectoryError(
            f"the database in {directory} cannot be opened: {error}"
        ) from error
    return database


def _set_up(database: sqlite3.Connection, path: Path) -> None:
    application = database.execute("PRAGMA application_id").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    with bounded(database):
        empty = not database.execute("SELECT 1 FROM sqlite_schema").fetchone()
        try:
            check_tables(database, path)
        except NotOurs as error:
            raise SinkDirectoryError(str(error)) from None
    if not (application == APPLICATION or (application == 0 and empty)):
        raise SinkDirectoryError(f"{path} is the database of another program, not of a sink")
    if version > VERSION:
        raise SinkDirectoryError(
            f"{path} has version {version} of the format, and this version of rsocket_trio knows "
            f"versions up to {VERSION}: update rsocket_trio"
        )
    database.execute("PRAGMA page_size = 16384")  # chunks have many pages
    if database.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise SinkDirectoryError(f"the file system of {path} does not allow SQLite's WAL")
    # On macOS a plain fsync does not reach the disk; elsewhere these two do nothing.
    database.execute("PRAGMA fullfsync = ON")
    database.execute("PRAGMA checkpoint_fullfsync = ON")
    # Some systems (Debian) overwrite deleted data by default, which doubles the writes.
    database.execute("PRAGMA secure_delete = OFF")
    database.execute(f"PRAGMA journal_size_limit = {32 * 2**20}")
    if application == 0:
        database.execute("BEGIN IMMEDIATE")
        for statement in filter(str.strip, TABLES.split(";")):
            database.execute(statement)
        database.execute(f"PRAGMA application_id = {APPLICATION}")
        database.execute(f"PRAGMA user_version = {VERSION}")
        database.execute("COMMIT")
