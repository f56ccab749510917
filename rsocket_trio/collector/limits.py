"""What strangers may take from a collector: `CollectorLimits`."""

from __future__ import annotations

from math import inf

import attrs
from attrs import validators as v

__all__ = ["CollectorLimits"]

_count = v.and_(v.instance_of(int), v.ge(1))


def _positive(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    # This form of the condition also refuses NaN.
    if not 0 < value < inf:
        raise ValueError(f"{attribute.name} must be greater than 0 and finite, not {value!r}")


@attrs.frozen(kw_only=True)
class CollectorLimits:
    """What the readers of a collector may take from it. Beyond a limit, a request is REJECTED.

    Attributes:
        max_reads: Ranges that are read at the same time, in all. Each has the batches of one query
            in memory (`SpoolConfig.max_read_size`), or one batch if that is larger. 256: with the
            spool of a collector, 256 MiB if no batch is larger than 1 MiB.
        max_reads_per_connection: Ranges that one connection has open. 16: a reader needs one, and
            an executor of Spark has one for each core.
        stall_time: A range whose reader takes no batch for this time loses its place as soon as
            another reader needs it, in seconds. Its reader asks for the rest again. 30 s.
        max_consumers: Consumers that the spool remembers. Each keeps events in the spool until it
            commits, for ever if it never comes back. 64.
        max_consumers_per_connection: Consumers that one connection makes positions for. 8: a
            reader is one consumer.
        max_instances: Instances of all consumers. Each costs some hundred bytes. 4096.
        max_instances_per_connection: Instances that use one connection. 16: a reader is one.
        instance_timeout: An instance counts for this time after its connection has ended, which the
            next position of its consumer shows, in seconds. So a short loss of a connection lets no
            other instance move the position of the consumer beyond it. While it is connected, an
            instance always counts: a batch of a query may take hours, and the events of it must not
            be deleted meanwhile. If the process of the instance dies, its connection ends. 10 s.
    """

    max_reads: int = attrs.field(default=256, validator=_count)
    max_reads_per_connection: int = attrs.field(default=16, validator=_count)
    stall_time: float = attrs.field(default=30.0, validator=_positive)
    max_consumers: int = attrs.field(default=64, validator=_count)
    max_consumers_per_connection: int = attrs.field(default=8, validator=_count)
    max_instances: int = attrs.field(default=4096, validator=_count)
    max_instances_per_connection: int = attrs.field(default=16, validator=_count)
    instance_timeout: float = attrs.field(default=10.0, validator=_positive)
