"""How events that come by RSocket are stored: `IngestConfig`."""

from __future__ import annotations

from typing import Final

import attrs

from ..config import ConnectionConfig, Limits
from ..field_checks import COUNT, number, whole

__all__ = ["COLLECTOR_CONFIG", "IngestConfig"]


@attrs.frozen(kw_only=True)
class IngestConfig:
    """How a collector stores the events that come by RSocket. Times are in seconds.

    Attributes:
        max_batch_events: Events of one batch in the spool. 2048, as senders of Lumberjack.
        max_batch_size: Bytes of one batch, or one event if that is larger. 1 MiB.
        linger: How long the first event of a batch waits for others. Each batch costs a row in the
            spool, and a step of each reader. 0.02 s.
        max_pending_size: Bytes of fire_and_forget of one connection that wait to be stored. More
            events are dropped, as there is no way to hold back their sender. 16 MiB.
        max_all_pending_size: The same of all connections. 128 MiB.
        max_pending_connections: Connections of which events of fire_and_forget wait. Each costs
            some 4 KB until its events are stored, even if it has ended. 16384.
        max_channels_per_connection: Channels of events that one connection has open. While the
            spool is full, each holds a batch, which is not larger than ``max_batch_size`` and one
            event. Beyond it, a channel is REJECTED. 16: a sender needs one.
        max_granted_events: Events that a publisher may send before they are durable, for each
            subscription. 1024.
        max_granted_size: Bytes of these events, as far as the size of earlier ones tells. The
            unread bytes of a connection are bounded in any case (`Limits.max_unread_size`). 16 MiB.
    """

    max_batch_events: int = attrs.field(default=2048, validator=COUNT)
    max_batch_size: int = attrs.field(default=2**20, validator=COUNT)
    linger: float = attrs.field(default=0.02, validator=number(at_least=0, finite=True))
    max_pending_size: int = attrs.field(default=16 * 2**20, validator=COUNT)
    max_all_pending_size: int = attrs.field(default=128 * 2**20, validator=COUNT)
    max_pending_connections: int = attrs.field(default=16384, validator=COUNT)
    max_channels_per_connection: int = attrs.field(default=16, validator=COUNT)
    max_granted_events: int = attrs.field(default=1024, validator=whole(1, 65536))
    max_granted_size: int = attrs.field(default=16 * 2**20, validator=COUNT)

    def for_spool(self, max_size: int) -> IngestConfig:
        """Return this with batches of which several fit into a spool of this size."""
        at_most = max(max_size // 8, 1)
        return attrs.evolve(self, max_batch_size=min(self.max_batch_size, at_most))


COLLECTOR_CONFIG: Final = ConnectionConfig(
    limits=Limits(
        max_payload_size=16 * 2**20,
        max_reassembly_size=32 * 2**20,
        max_requests_size=32 * 2**20,
        max_unread_size=64 * 2**20,
    ),
    fragment_size=2**18,
)
"""How a collector serves RSocket. An event has 16 MiB at most, as a Lumberjack event. A connection
of a sender holds some 130 MB at most, if it is hostile. The batches that are on the way to readers
are bounded by `CollectorLimits.max_read_memory`. Beside them a connection has two frames in its
queue and two that are being sent, 1 MiB in all: they are large enough for a fast network."""
