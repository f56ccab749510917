"""Reading a spool without trio, also from other processes on its host: `read_range`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..private_files import bounded
from .batch import StoredBatch
from .config import SpoolConfig
from .epochs import read_epochs
from .errors import WrongSpool
from .extent import extent_within, read_identity, snapshot
from .queries import check_range, fetch
from .schema import DATABASE_ERRORS, connect_reader, failure

__all__ = ["read_range"]


def read_range(
    directory: str | os.PathLike[str],
    start: int,
    stop: int,
    *,
    spool_id: str | None = None,
    epoch: str | None = None,
    config: SpoolConfig | None = None,
) -> Iterator[StoredBatch]:
    """Iterate over the batches with the events from offset ``start`` up to ``stop``.

    This works in every process on the host of the spool, whether the spool is open for writing or
    not. It never blocks the writer. The iterator gives exactly ``stop - start`` events, counted by
    `StoredBatch.wanted`, or it raises. Its errors come with the first batch or later: it opens the
    database then, and closes it at its end. The process must be allowed to write to the directory,
    as SQLite keeps its locks there.

    Args:
        directory: The directory of the spool.
        start: The offset of the first event.
        stop: The offset behind the last event.
        spool_id: The `Spool.spool_id` that the directory must have, so that a spool that was made
            anew is not mistaken for the old one. ``None``: any.
        epoch: The last epoch of the spool when its head was ``stop`` or later
            (`SpoolDescription.epoch`), so that a spool that was restored from an older copy, and
            written on, is not mistaken for this one. ``None``: any.
        config: The limits of one query.

    Raises:
        OffsetTrimmed: ``start`` is not kept any more, or was deleted while we read.
        OffsetNotStored: ``stop`` is beyond the head.
        NotASpool: The directory has no spool.
        WrongSpool: It has another spool; or `SpoolRestored`, an older copy that was written on.
        SpoolTooNew: See there.
        SpoolFailed: The database cannot be read.
    """
    where = Path(directory)
    limits = SpoolConfig() if config is None else config
    connection = connect_reader(where)
    try:
        found, _ = read_identity(connection)
        if spool_id not in (None, found):
            raise WrongSpool(f"{where} has the spool {found}, not {spool_id}")
        with bounded(connection), snapshot(connection):
            extent = extent_within(connection)
            epochs = read_epochs(connection)
        epochs.check(epoch, stop, extent)
        check_range(start, stop, extent.oldest, extent.head)
        at = start
        while at < stop:
            for batch in fetch(connection, at, stop, limits):
                at = batch.stop
                yield batch
    except DATABASE_ERRORS as error:
        raise failure(error, where) from error
    finally:
        connection.close()
