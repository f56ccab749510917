"""What strangers may take from a collector: `CollectorLimits`."""

from __future__ import annotations

import attrs

from ..field_checks import COUNT, FINITE

__all__ = ["CollectorLimits"]


@attrs.frozen(kw_only=True)
class CollectorLimits:
    """What the readers of a collector may take from it. Beyond a limit, a request is refused.

    Attributes:
        max_reads: Ranges that are read at the same time, in all. Each costs a task. 256.
        max_reads_per_connection: Ranges that one connection has open. 16: a reader needs one, and
            an executor of Spark has one for each core.
        max_read_memory: Bytes of the batches that are on the way to readers, of all ranges. A batch
            counts from the time when it is read from the disk until the last of it is in the queue
            of its connection, which has 1 MiB at most. Further batches wait. One batch that is
            larger is read alone. 128 MiB.
        max_read_memory_per_connection: The same for one connection, so that no reader takes all.
            32 MiB: each of its 16 ranges can have the 1 MiB of one query of small batches.
        max_read_wait: A batch waits so long for this memory, in seconds; then its range ends with
            an error, and its reader asks for the rest again after a pause. 15 s: longer than
            ``stall_time``, so that the memory of stalled readers is free by then.
        stall_time: A range loses its place, or its memory, as soon as another reader needs it, if
            its reader has taken nothing for this time, in seconds. It ends with an error then, and
            its reader asks for the rest again. 10 s: even a long pause of a garbage collector is
            shorter, and to ask again costs little.
        min_read_rate: A range also loses its memory if its reader takes a batch more slowly than
            this, in bytes per second, after ``stall_time``. So a reader that takes a byte now and
            then cannot keep others out. 256 KiB.
        max_consumers: Consumers that the spool remembers. Each keeps events in the spool until it
            commits, for ever if it never comes back. 64.
        max_consumers_per_connection: Consumers that one connection makes positions for. 8: a
            reader is one consumer.
        max_instances: Instances of all consumers. Each costs some hundred bytes, also on
            the disk. 4096.
        max_instances_per_connection: Instances that use one connection. 16: a reader is one.
        max_instances_per_consumer: Instances of one consumer, so that one that is started anew
            again and again leaves room for others. 256.
        instance_timeout: The lease of an instance that names none, in seconds: how long it may be
            away while another instance of its consumer is connected. Then its position is
            forgotten. While no instance of its consumer is connected, the time does not pass, and
            an instance that is connected is never away: a batch of a query may take hours. Seven
            days: a query may be stopped over the longest weekend, and a position that nobody
            forgets does not fill the spool for ever.
    """

    max_reads: int = attrs.field(default=256, validator=COUNT)
    max_reads_per_connection: int = attrs.field(default=16, validator=COUNT)
    max_read_memory: int = attrs.field(default=128 * 2**20, validator=COUNT)
    max_read_memory_per_connection: int = attrs.field(default=32 * 2**20, validator=COUNT)
    max_read_wait: float = attrs.field(default=15.0, validator=FINITE)
    stall_time: float = attrs.field(default=10.0, validator=FINITE)
    min_read_rate: float = attrs.field(default=256.0 * 2**10, validator=FINITE)
    max_consumers: int = attrs.field(default=64, validator=COUNT)
    max_consumers_per_connection: int = attrs.field(default=8, validator=COUNT)
    max_instances: int = attrs.field(default=4096, validator=COUNT)
    max_instances_per_connection: int = attrs.field(default=16, validator=COUNT)
    max_instances_per_consumer: int = attrs.field(default=256, validator=COUNT)
    instance_timeout: float = attrs.field(default=7 * 86400.0, validator=FINITE)
