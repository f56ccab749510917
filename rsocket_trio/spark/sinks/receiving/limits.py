"""What the tasks of Spark may cost a responder: `SinkLimits`."""

from __future__ import annotations

import attrs

from ....field_checks import COUNT, FINITE

__all__ = ["SinkLimits"]


@attrs.frozen(kw_only=True)
class SinkLimits:
    """The memory, disk and time that Spark may take from a responder.

    Attributes:
        max_rows: Rows of one attempt. A task without an end would fill the disk. Ten million: a
            Spark partition has some ten thousand to a million.
        max_attempt_size: Bytes of the rows of one attempt; each payload counts 16 bytes more, as
            empty ones cost room too. 256 MiB, twice the size of Spark's default partitions.
        max_staged_size: Bytes of all attempts that are not committed. 1 GiB. Without a directory
            this is memory.
        max_attempts: Attempts that are not committed, counted over all queries: a job has one
            for each partition, and more if tasks fail. Each is in memory with its schema, and
            counts a KiB more than that in ``max_staged_size``. 16384.
        max_open_attempts: Attempts that are receiving rows at the same time. Each keeps up to 512
            KiB in memory, or one payload if that is larger. The tasks beyond wait and try again.
            256: one for each core of a cluster of a medium size.
        max_idle: Seconds for which an attempt that is receiving rows may get none. A task may
            compute for long before its next rows, but a task that hangs should not keep its place.
            900 s.
        max_payload_size: Bytes of one payload: a row, or rows of Arrow. 16 MiB.
        max_schema_size: Characters of a schema. 256 KiB: a table of some thousand columns.
        max_age: Seconds for which an attempt is kept that is not committed. It has to be longer
            than a job takes, because the first task waits for the last one. A day.
        max_queries: Queries whose last committed batch is remembered; the one whose commit is the
            oldest is forgotten first, and those of the same owner before others. A query that was
            forgotten could commit its last batch twice. A batch write without ``txnId`` is a query
            of its own. 100000; each costs some hundred bytes.
    """

    max_rows: int = attrs.field(default=10_000_000, validator=COUNT)
    max_attempt_size: int = attrs.field(default=256 * 2**20, validator=COUNT)
    max_staged_size: int = attrs.field(default=2**30, validator=COUNT)
    max_attempts: int = attrs.field(default=16384, validator=COUNT)
    max_open_attempts: int = attrs.field(default=256, validator=COUNT)
    max_idle: float = attrs.field(default=900.0, validator=FINITE)
    max_payload_size: int = attrs.field(default=16 * 2**20, validator=COUNT)
    max_schema_size: int = attrs.field(default=256 * 2**10, validator=COUNT)
    max_age: float = attrs.field(default=86400.0, validator=FINITE)
    max_queries: int = attrs.field(default=100_000, validator=COUNT)
