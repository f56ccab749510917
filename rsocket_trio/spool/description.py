"""What a spool holds, for any process of its host: `describe_spool`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from ..private_files import bounded
from .epochs import read_epochs
from .extent import extent_within, read_identity, snapshot, typed
from .instances import ConsumerInstance, lowest, read_instances
from .reach import times_within
from .schema import DATABASE_ERRORS, connect_reader, failure

__all__ = ["SpoolDescription", "describe_spool"]


@attrs.frozen(kw_only=True)
class SpoolDescription:
    """A spool at one moment.

    Attributes:
        spool_id: Its identity, which is made with it: a UUID as text.
        created_at: When it was made, in seconds since 1970, by the clock of its host.
        oldest: The offset of the first event that is kept.
        head: The offset that the next event will have.
        batches: The batches that are kept.
        size: The bytes that they cost; each batch costs 64 bytes more than its contents.
        oldest_at: When the oldest of them was stored, in seconds since 1970, by the clock of its
            host; ``None`` if there is none.
        newest_at: When the last of them was stored; it may be earlier, if the clock was set.
        epoch: Its last epoch, see `read_range`; ``None`` if nothing was ever stored.
        instances: What each instance of a consumer needs, in the order of their names.
        needed_at: When the first event that an instance needs was stored, by its offset; without
            those that need none yet.
    """

    spool_id: str
    created_at: float
    oldest: int
    head: int
    batches: int
    size: int
    oldest_at: float | None
    newest_at: float | None
    epoch: str | None
    instances: tuple[ConsumerInstance, ...]
    needed_at: Mapping[int, float]

    @property
    def positions(self) -> Mapping[str, int]:
        """The offset that each consumer has committed, the lowest one of its instances."""
        return lowest(self.instances)


def describe_spool(directory: str | os.PathLike[str]) -> SpoolDescription:
    """Return what the spool in a directory holds, in numbers.

    This works in every process on the host of the spool, whether the spool is open for writing or
    not. It takes a moment, however large the spool is. The process must be allowed to write to the
    directory, as SQLite keeps its locks there.

    Args:
        directory: The directory of the spool.

    Raises:
        NotASpool: The directory has no spool.
        SpoolTooNew: A newer version of this package has made the spool.
        SpoolFailed: The database cannot be read.
    """
    where = Path(directory)
    connection = connect_reader(where)
    try:
        with bounded(connection), snapshot(connection):
            spool_id, _ = read_identity(connection)
            (created_at,) = typed(
                connection.execute("SELECT created_at FROM spool").fetchone(), float
            )
            extent = extent_within(connection)
            epochs = read_epochs(connection)
            instances = read_instances(connection)
            needed_at = times_within(connection, [each.offset for each in instances])
    except DATABASE_ERRORS as error:
        raise failure(error, where) from error
    finally:
        connection.close()
    return SpoolDescription(
        spool_id=spool_id,
        created_at=created_at,
        oldest=extent.oldest,
        head=extent.head,
        batches=extent.batches,
        size=extent.size,
        oldest_at=extent.oldest_at,
        newest_at=extent.newest_at,
        epoch=epochs.last,
        instances=tuple(instances),
        needed_at=needed_at,
    )
