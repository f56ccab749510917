"""Settings of a spool: `SpoolConfig` and `Retention`."""

from __future__ import annotations

import attrs

from ..field_checks import COUNT, FINITE, FLAG, instance_of, optional, whole
from ..protocol.retry import Retry

__all__ = ["Retention", "SpoolConfig"]


@attrs.frozen(kw_only=True)
class Retention:
    """How long batches are kept that no consumer needs.

    With consumers, a batch is needed until all of them have committed an offset behind it; then
    it is kept within this retention, but no longer than there is room: new batches have
    precedence. Without consumers no batch is needed, and only this retention limits the spool.

    Attributes:
        max_size: The newest batches are kept, up to this many bytes. ``None``: there is no limit.
        max_age: Batches are kept for this time after they were stored, in seconds. Ages do not
            change when the clock of the host is set while the spool is open. ``None``: there is no
            limit.
    """

    max_size: int | None = attrs.field(default=None, validator=optional(whole(0)))
    max_age: float | None = attrs.field(default=None, validator=optional(FINITE))

    def __attrs_post_init__(self) -> None:
        if self.max_size is None and self.max_age is None:
            raise ValueError("a Retention needs max_size, max_age, or both")


@attrs.frozen(kw_only=True)
class SpoolConfig:
    """How a spool works. The defaults suit most programs.

    Attributes:
        max_group_batches: Batches that one transaction stores. Tasks that append at the same time
            share a transaction. 256.
        max_group_size: Bytes that one transaction stores, or one batch if that is larger. A batch
            waits for the transaction before its own, so this bounds its latency. 8 MiB.
        max_trim_batches: Batches that one transaction deletes, at most. 256.
        max_trim_size: Bytes that one transaction deletes, or one batch if that is larger. 16 MiB.
        max_read_batches: Batches that one query of a reader returns, at most. 64.
        max_read_size: Bytes that one query of a reader returns, or one batch if that is larger.
            A reader keeps this much in memory. 4 MiB.
        max_read_threads: Queries of readers that run at the same time, each in a thread and on a
            connection to the database. 4.
        checkpoint_size: Bytes of new pages in the write-ahead log that are moved to the database
            together. 16 MiB.
        reserve_size: Bytes of the disk that the spool holds in a file of its own, in addition to
            what the log needs. When the disk is full, positions are stored and batches are deleted
            with them. Then a batch of up to three quarters of this can be stored in place of
            deleted ones; a larger one may have to wait until the spool is empty. On a disk of less
            than eight times this size, an eighth of the disk. 8 MiB.
        group_readers: Members of the directory's group may read the spool. SQLite keeps the locks
            of readers in its files, so they may write to these, and can stop the writer. False:
            only the user who writes can use the spool.
        retry: The waits before a transaction is tried again that failed because the disk is full
            or does not work. Its ``attempts`` are ignored: the spool does not give up. From 0.1 s
            to 2 s.
    """

    max_group_batches: int = attrs.field(default=256, validator=COUNT)
    max_group_size: int = attrs.field(default=8 * 2**20, validator=COUNT)
    max_trim_batches: int = attrs.field(default=256, validator=COUNT)
    max_trim_size: int = attrs.field(default=16 * 2**20, validator=COUNT)
    max_read_batches: int = attrs.field(default=64, validator=COUNT)
    max_read_size: int = attrs.field(default=4 * 2**20, validator=COUNT)
    max_read_threads: int = attrs.field(default=4, validator=COUNT)
    checkpoint_size: int = attrs.field(default=16 * 2**20, validator=COUNT)
    reserve_size: int = attrs.field(default=8 * 2**20, validator=COUNT)
    group_readers: bool = attrs.field(default=False, validator=FLAG)
    retry: Retry = attrs.field(factory=lambda: Retry(max_delay=2.0), validator=instance_of(Retry))
