"""What a collector and its readers say to each other over RSocket.

A collector answers these routes. Requests and replies are maps in CBOR:

- `INFO` (request_response): `InfoRequest`, answered by a `SpoolInfo`
- `READ` (request_stream): `ReadRequest`, answered by one item for each stored batch. The data of an
  item are the bytes of the whole batch, and its metadata have an entry with a `BatchHead` in CBOR.
- `POSITION` (request_response): `PositionRequest`, answered by a `SpoolInfo`
- `FORGET` (request_response): `ForgetRequest`, answered by a `SpoolInfo`
- `STATUS` (request_response): no data, answered by `CollectorStatistics`

Senders of events use another one:

- `EVENTS` (fire_and_forget): an event; it is stored at most once, and its sender is not told
- `EVENTS` (request_channel): events. Each reply is a `Receipt` for a run of them that is durable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from ..field_checks import instance_of, number, optional, sized, whole

__all__ = [
    "EVENTS",
    "FORGET",
    "INFO",
    "POSITION",
    "READ",
    "STATUS",
    "BatchHead",
    "CollectorStatistics",
    "ForgetRequest",
    "InfoRequest",
    "PositionRequest",
    "ReadRequest",
    "Receipt",
    "SpoolInfo",
    "SubscriptionStatistics",
]

INFO: Final = "spool.info"
READ: Final = "spool.read"
POSITION: Final = "spool.position"
FORGET: Final = "spool.forget"
EVENTS: Final = "events"
STATUS: Final = "collector.status"

_MAX_OFFSET: Final = 2**63 - 1
_MAX_COUNT: Final = 2**31 - 1
_MAX_SPOOL_ID: Final = 100
"""Characters of the identity of a spool, which readers keep. A real one has 36."""
_MAX_ENCODING: Final = 64
_MAX_FACTS: Final = 2**16
"""Characters of all facts about a batch. A reader may repeat one for each event."""
_FIRST_TIME: Final = -62_135_596_800
_LAST_TIME: Final = 253_402_300_799
"""The years 1 to 9999, in seconds since 1970."""

# A reader checks what it is told: an offset, for example, may go to a checkpoint that lasts.
_offset = whole(0, _MAX_OFFSET)


def _check_facts(_head: object, _attribute: attrs.Attribute[Any], facts: Mapping[str, str]) -> None:
    if sum(len(name) + len(text) for name, text in facts.items()) > _MAX_FACTS:
        raise ValueError(f"the facts about a batch have more than {_MAX_FACTS} characters")


@attrs.frozen(kw_only=True)
class InfoRequest:
    """Ask what a spool holds.

    Attributes:
        reach_from: An offset, to ask also for `SpoolInfo.reach`.
        reach_size: The bytes that batches from this offset on may take, for `SpoolInfo.reach`.
    """

    reach_from: int | None = None
    reach_size: int | None = None


@attrs.frozen(kw_only=True)
class SpoolInfo:
    """What a spool holds.

    Attributes:
        spool_id: The identity of the spool.
        oldest: The offset of the first event that is kept.
        head: The offset that the next event will have.
        size: The bytes that the batches cost.
        max_size: The bytes that may be stored.
        full: Whether batches wait for room.
        trouble: Why the spool cannot be written now, or None.
        positions: The offset that each consumer has committed.
        reach: The offset up to which batches from ``reach_from`` on take at most ``reach_size``
            bytes; it is behind one batch at least, and at most the head. None if it was not asked
            for.
    """

    spool_id: str = attrs.field(validator=sized(str, 1, _MAX_SPOOL_ID))
    oldest: int = attrs.field(validator=_offset)
    head: int = attrs.field(validator=_offset)
    size: int
    max_size: int
    full: bool
    trouble: str | None
    positions: Mapping[str, int]
    reach: int | None = attrs.field(default=None, validator=optional(_offset))

    @head.validator
    def _check_head(self, _attribute: attrs.Attribute[int], head: int) -> None:
        if head < self.oldest:
            raise ValueError("the head of a spool is not less than its oldest offset")


@attrs.frozen(kw_only=True)
class ReadRequest:
    """Ask for the batches of a range of offsets.

    Attributes:
        spool_id: The spool that the offsets belong to.
        start: The offset of the first event.
        stop: The offset behind the last event, at most the head.
        size: The stream ends behind the batch with which it has this many bytes, even if more
            events are in the range. The reader asks for the rest then. So it bounds the bytes
            that wait in its memory. ``None``: it has the whole range.
    """

    spool_id: str
    start: int
    stop: int
    size: int | None = None


@attrs.frozen(kw_only=True)
class BatchHead:
    """Everything about a stored batch but its bytes: see `rsocket_trio.spool.StoredBatch`."""

    first: int = attrs.field(validator=_offset)
    count: int = attrs.field(validator=whole(1, _MAX_COUNT))
    start: int = attrs.field(validator=_offset)
    stop: int = attrs.field(validator=_offset)
    encoding: str = attrs.field(validator=sized(str, 0, _MAX_ENCODING))
    facts: Mapping[str, str] = attrs.field(validator=[instance_of(Mapping), _check_facts])
    stored_at: float = attrs.field(validator=number(at_least=_FIRST_TIME, at_most=_LAST_TIME))


@attrs.frozen(kw_only=True)
class PositionRequest:
    """Say which events a consumer does not need any more.

    A consumer can have several instances at the same time, e.g. two readers of one Spark query. The
    position that the spool keeps is the lowest of those that are alive.

    Attributes:
        spool_id: The spool that the offset belongs to.
        consumer: The name of the consumer.
        instance: A name that no other instance has.
        offset: The first offset that this instance still needs.
    """

    spool_id: str
    consumer: str
    instance: str
    offset: int


@attrs.frozen(kw_only=True)
class ForgetRequest:
    """Forget a consumer that does not come back: the spool keeps no more events for it.

    Attributes:
        spool_id: The spool.
        consumer: The name of the consumer.
        force: Also if an instance of it is connected. Its position is forgotten until it commits
            again.
    """

    spool_id: str
    consumer: str
    force: bool = False


@attrs.frozen(kw_only=True)
class Receipt:
    """Says that the next ``count`` events of a channel are durable.

    It is sent as CBOR if the data MIME type of the connection is CBOR, and as JSON otherwise.

    Attributes:
        first: The offset of the first of them in the spool.
        count: How many.
    """

    first: int
    count: int


@attrs.frozen(kw_only=True)
class SubscriptionStatistics:
    """Numbers about a subscription.

    Attributes:
        subscription: The address and the route.
        state: ``connecting``, ``open``, ``waiting`` (for the next attempt) or ``ended``.
        events: The events that were stored since the start.
        connections: The times that the stream was opened.
        trouble: Why the last attempt has failed, or the stream has ended; ``None`` while it is
            open.
    """

    subscription: str
    state: str
    events: int
    connections: int
    trouble: str | None


@attrs.frozen(kw_only=True)
class CollectorStatistics:
    """Numbers about a collector since its start.

    Attributes:
        connections: Connections that are open, of senders and readers.
        stored: Events that were stored, from all sources.
        lumberjack_events: Events that came by Lumberjack and were handled.
        dropped: Events that were not stored: fire_and_forget beyond the limits of its connection or
            of the collector, or of a connection that ended before their turn; and events that are
            larger than the spool. Those that a killed collector loses are in no number.
        pending_size: Bytes of fire_and_forget that wait to be stored.
        subscriptions: The subscriptions.
    """

    connections: int
    stored: int
    lumberjack_events: int
    dropped: int
    pending_size: int
    subscriptions: tuple[SubscriptionStatistics, ...]
