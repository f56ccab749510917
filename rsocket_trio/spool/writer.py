"""The thread's side of writing: `Writer` makes each `Group` of changes one transaction."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from .ages import Ages
from .batch import Batch
from .config import SpoolConfig
from .directory import WriterLock, database_of, files_in_use, prepare
from .epochs import Epochs, new_epoch, read_epochs
from .errors import SpoolFailed
from .extent import Extent, read_extent, read_identity
from .instances import ConsumerInstance, Key, read_instances, store_instances
from .room import Room, empty_log, lacks_room
from .schema import DATABASE_ERRORS, connect_writer, failure
from .trimming import Trim, delete_step

__all__ = ["Group", "NewRow", "Outcome", "Writer", "may_pass"]

_PASSING: Final = frozenset({
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PROTOCOL,
})  # fmt: skip
_MOVED: Final = 0x0408  # SQLITE_READONLY_DBMOVED, which the sqlite3 module does not name.


@attrs.frozen
class NewRow:
    """A batch to be stored, with its facts as text and its cost."""

    batch: Batch
    facts: str
    cost: int


@attrs.frozen(kw_only=True)
class Group:
    """Changes that are stored together, or not at all.

    Attributes:
        rows: Batches to append, in this order.
        changes: What instances of consumers need now; ``None`` forgets the instance.
        trim: What to delete, after these changes and before the batches are stored.
    """

    rows: list[NewRow]
    changes: Mapping[Key, ConsumerInstance | None]
    trim: Trim | None


@attrs.frozen(kw_only=True)
class Outcome:
    """The state of the spool after a transaction.

    Attributes:
        extent: What the spool holds now.
        epochs: Its history.
        firsts: The first offset of each batch of the group.
        more: There is more to delete.
    """

    extent: Extent
    epochs: Epochs
    firsts: list[int]
    more: bool


class Writer:
    """The connection of the writer. All methods block, and may be called by one thread at a time.

    Attributes:
        spool_id: The identity of the spool.
        extent: What the spool holds.
        epochs: Its history.
        instances: What instances of consumers needed when the spool was opened.
        transactions: The number of transactions that were committed.
    """

    def __init__(self, directory: Path, config: SpoolConfig) -> None:
        self._config = config
        self._path = database_of(directory)
        self._log_path = f"{self._path}-wal"
        self._log_limit = 4 * config.checkpoint_size
        self._next_try = self._log_limit
        self._in_doubt = False
        # The room that could be made on the disk was not enough for batches.
        self._in_vain = False
        self.transactions = 0
        self._epoch: Final = new_epoch()
        prepare(directory, locked=False, group=config.group_readers)
        self._lock = WriterLock(directory)
        try:
            prepare(directory, locked=True, group=config.group_readers)
            self._room = Room(directory, config)
            self._connection = self._connect(directory)
            try:
                self.spool_id, _ = read_identity(self._connection)
                self.extent = read_extent(self._connection)
                self._ages = Ages(self.extent.head)
                self.epochs = read_epochs(self._connection)
                self.instances = read_instances(self._connection)
                self._places = {path: _place(path) for path in files_in_use(directory)}
                self._room.settle(self._connection)
            except DATABASE_ERRORS as error:
                self._connection.close()
                raise failure(error, directory) from error
            except BaseException:  # everything is closed before the error goes on
                self._connection.close()
                raise
        except BaseException:  # as above
            self._lock.release()
            raise

    def _connect(self, directory: Path) -> sqlite3.Connection:
        """Open the database. On a full disk this needs the reserve: SQLite makes small files.

        Raises:
            NotASpool, SpoolTooNew: See `connect_writer`.
            SpoolFailed: The database cannot be opened.
        """
        size, group = self._config.checkpoint_size, self._config.group_readers
        try:
            return connect_writer(directory, size, group=group)
        except SpoolFailed as error:
            if not lacks_room(error.__cause__):
                raise
        self._room.give_up()
        try:
            return connect_writer(directory, size, group=group)
        except SpoolFailed as error:
            if not lacks_room(error.__cause__):
                raise
            raise SpoolFailed(
                f"{error}. If the disk is full, make some megabytes of room on it"
            ) from error.__cause__

    @property
    def short(self) -> bool:
        """Whether the disk is full: the spool holds less of it in reserve than it should."""
        return self._room.short

    def close(self) -> None:
        """Close the database, and release the lock of the directory."""
        try:
            self._room.close()
            self._connection.close()
        finally:
            self._lock.release()

    def apply(self, group: Group) -> Outcome:
        """Store a group of changes. On return they are durable.

        If the disk is full, this makes room and tries once more; see `Room`.

        Raises:
            sqlite3.Error: Nothing is stored; `may_pass` says whether to try again.
            SpoolFailed: A file is not where it was; what is stored may be lost.
        """
        if self._in_doubt:
            self._look_again()
        before = self.extent
        try:
            outcome = self._store(group)
        except sqlite3.Error as error:
            if not lacks_room(error) or (group.rows and self._in_vain):
                raise
            outcome = self._store_tightly(group)
        if outcome.extent is not before or group.changes:
            self._in_vain = False
        self._bound_log()
        self._room.settle(self._connection)
        return outcome

    def _store_tightly(self, group: Group) -> Outcome:
        """Make room on the disk, and store the group.

        Raises:
            sqlite3.Error: As `apply`.
            SpoolFailed: As `apply`.
        """
        self._look_again()
        self._room.make(self._connection, self.extent)
        try:
            return self._store(group, tight=True)
        except BaseException:  # the reserve is taken again before the error goes on
            with suppress(sqlite3.Error):
                self._look_again()
            empty_log(self._connection)  # The failed attempt has left its pages there.
            self._room.settle(self._connection)
            # A reader may have kept the log from being emptied; the next attempt may have more.
            self._in_vain = self._log_size() == 0
            raise

    def _store(self, group: Group, *, tight: bool = False) -> Outcome:
        """Store a group in one transaction.

        Args:
            group: The changes.
            tight: The disk is full, and `Room.make` was called.

        Raises:
            sqlite3.Error: As `apply`.
            SpoolFailed: As `apply`.
        """
        connection = self._connection
        extent, epochs, more = self.extent, self.epochs, False
        at = self._ages.stamp(extent.head)
        try:
            connection.execute("BEGIN IMMEDIATE")
            store_instances(connection, group.changes)
            if group.trim is not None:
                most = self._config.max_trim_batches
                if tight:
                    most = min(most, self._room.trim_batches)
                extent, more = delete_step(
                    connection, group.trim, extent, most, self._config.max_trim_size, self._ages
                )
            if group.rows:
                self._room.admit(connection, [row.cost for row in group.rows], tight=tight)
                epochs = self._begin_epoch(extent.head)
                if extent.newest_at is not None and at < extent.newest_at:
                    connection.execute("INSERT INTO runs VALUES (?)", (extent.head,))
            epochs = self._trim_epochs(epochs, extent.oldest)
            firsts = []
            for row in group.rows:
                firsts.append(extent.head)
                self._insert(row, extent, at)
                extent = extent.grown(row.batch.count, row.cost, at)
            connection.execute("COMMIT")
        except BaseException:  # also errors that are not the database's: all or nothing
            self._in_doubt = True
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
        self._check_places()
        self.transactions += 1
        self.extent, self.epochs = extent, epochs
        return Outcome(extent=extent, epochs=epochs, firsts=firsts, more=more)

    def _begin_epoch(self, first: int) -> Epochs:
        """Write down that the epoch of this writer begins, unless it has begun."""
        epochs = self.epochs.begun(first, self._epoch)
        if epochs is not self.epochs:
            self._connection.execute("INSERT INTO epochs VALUES (?, ?)", (first, self._epoch))
        return epochs

    def _trim_epochs(self, epochs: Epochs, oldest: int) -> Epochs:
        kept = epochs.trimmed(oldest)
        if kept is not epochs:
            self._connection.execute("DELETE FROM epochs WHERE first < ?", (kept.chain[0][0],))
        return kept

    def _insert(self, row: NewRow, extent: Extent, at: float) -> None:
        batch = row.batch
        self._connection.execute(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                extent.head,
                batch.count,
                extent.number,
                extent.before,
                row.cost,
                at,
                batch.encoding,
                row.facts,
                batch.data,
            ),
        )

    def _check_places(self) -> None:
        """Check that no file was moved or deleted while it was open.

        What is written to such a log is lost after a crash, and another process may take the lock.
        """
        for path, opened in self._places.items():
            try:
                place = _place(path)
            except FileNotFoundError:
                place = None
            if place != opened:
                raise SpoolFailed(f"{path} was moved, replaced or deleted while it was open")

    def _look_again(self) -> None:
        """Read the extent after a failure."""
        if self._connection.in_transaction:  # To roll it back has failed, too.
            self._connection.execute("ROLLBACK")
        self.extent = read_extent(self._connection)
        self.epochs = read_epochs(self._connection)
        self._in_doubt = False

    def _bound_log(self) -> None:
        """Empty the log if it has grown past its limit.

        SQLite moves pages from the log to the database as readers allow it. Readers that overlap
        all the time would never let the log begin anew. Here we wait for those that read now.
        """
        size = self._log_size()
        if size < self._log_limit:
            self._next_try = self._log_limit
        elif size >= self._next_try:
            empty_log(self._connection)
            # A reader that hangs is waited for rarely.
            self._next_try = self._log_size() + self._log_limit

    def _log_size(self) -> int:
        try:
            return os.stat(self._log_path).st_size
        except FileNotFoundError:
            return 0


def _place(path: Path) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


def may_pass(error: sqlite3.Error) -> bool:
    """Return whether the cause may pass: a full disk, or one that fails. Then we try again."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code != _MOVED and (code & 0xFF) in _PASSING
