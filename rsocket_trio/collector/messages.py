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
from ..spool.batch import MAX_COUNT, MAX_ENCODING, MAX_FACTS
from ..spool.extent import MAX_OFFSET

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
    "InstanceInfo",
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

MAX_ID: Final = 100
"""Characters of the identity of a spool, or the name of an epoch, which readers keep, and errors
repeat. Real ones have 36 and 16; a stranger may send megabytes."""
_MAX_LEASE: Final = 100 * 365 * 86400.0
"""Seconds."""
_FIRST_TIME: Final = -62_135_596_800
_LAST_TIME: Final = 253_402_300_799
"""The years 1 to 9999, in seconds since 1970."""

# A reader checks what it is told: an offset, for example, may go to a checkpoint that lasts.
_offset = whole(0, MAX_OFFSET)
_lease = number(at_least=0, at_most=_MAX_LEASE)
_epoch = sized(str, 1, MAX_ID)
_time = number(at_least=_FIRST_TIME, at_most=_LAST_TIME)
_age = number(at_least=0, at_most=_LAST_TIME - _FIRST_TIME)
_seconds = number(at_least=0, finite=True)


def _check_facts(_head: object, _attribute: attrs.Attribute[Any], facts: Mapping[str, str]) -> None:
    if sum(len(name) + len(text) for name, text in facts.items()) > MAX_FACTS:
        raise ValueError(f"the facts about a batch have more than {MAX_FACTS} characters")


@attrs.frozen(kw_only=True)
class InfoRequest:
    """Ask what a spool holds.

    Attributes:
        reach_from: An offset, to ask also for `SpoolInfo.reach`.
        reach_size: The bytes that batches from this offset on may take, for `SpoolInfo.reach`.
        since: A time in seconds since 1970, to ask also for `SpoolInfo.since`.
        lag_from: An offset, to ask also for `SpoolInfo.lag_seconds`.
        epoch: An epoch of the spool, to ask also for `SpoolInfo.epoch_end`.
        instances: Ask also for `SpoolInfo.instances`.
    """

    reach_from: int | None = None
    reach_size: int | None = None
    since: float | None = None
    lag_from: int | None = None
    epoch: str | None = None
    instances: bool = False


@attrs.frozen(kw_only=True)
class InstanceInfo:
    """What an instance of a consumer needs.

    Attributes:
        consumer: The name of the consumer.
        instance: The name of the instance; empty for a consumer that has none.
        offset: The first offset that it needs. No event from there on is deleted.
        lag: The events from there up to the head.
        lag_seconds: How long ago the first of them was stored, by the clock of the collector's
            host; 0 if there is none. None if the collector is of an older version.
        age: Seconds since it said so last, by the clock of the collector's host. It says so at
            least once in a minute while its reader asks for news.
        connected: Whether its connection is open.
        lease: The seconds that it may be away while another instance of its consumer is connected.
        lease_left: The seconds that are left of them. Then its position is forgotten.
    """

    consumer: str
    instance: str
    offset: int = attrs.field(validator=_offset)
    lag: int = attrs.field(validator=_offset)
    age: float = attrs.field(validator=_age)
    connected: bool
    lease: float = attrs.field(validator=_seconds)
    lease_left: float = attrs.field(validator=_seconds)
    lag_seconds: float | None = attrs.field(default=None, validator=optional(_age))


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
        positions: The offset that each consumer has committed: the lowest one of its instances.
        epoch: The last epoch of the spool, see `rsocket_trio.spool.Spool.epoch`. None if nothing
            was ever stored.
        epoch_end: The offset up to which the spool has the epoch that was asked for. None: not at
            all, or none was asked for.
        instances: What each instance of a consumer needs. None if it was not asked for.
        reach: The offset up to which batches from ``reach_from`` on take at most ``reach_size``
            bytes; it is behind one batch at least, and at most the head. None if it was not asked
            for.
        since: The offset of the first event that was stored at the time that was asked for, or
            later; the head, if there is none. See `rsocket_trio.spool.find_since`. None if it was
            not asked for, or the collector is of an older version.
        lag_seconds: How long ago the event at the offset ``lag_from`` was stored, by the clock of
            the collector's host; 0 at the head. None if it is not kept, or as for ``since``.
        oldest_at: When the oldest batch was stored, in seconds since 1970, by the same clock. None
            if there is none, or the collector is of an older version.
        newest_at: When the last batch was stored; it may be earlier, if the clock was set.
    """

    spool_id: str = attrs.field(validator=sized(str, 1, MAX_ID))
    oldest: int = attrs.field(validator=_offset)
    head: int = attrs.field(validator=_offset)
    size: int
    max_size: int
    full: bool
    trouble: str | None
    positions: Mapping[str, int]
    epoch: str | None = attrs.field(default=None, validator=optional(_epoch))
    epoch_end: int | None = attrs.field(default=None, validator=optional(_offset))
    instances: tuple[InstanceInfo, ...] | None = None
    reach: int | None = attrs.field(default=None, validator=optional(_offset))
    since: int | None = attrs.field(default=None, validator=optional(_offset))
    lag_seconds: float | None = attrs.field(default=None, validator=optional(_age))
    oldest_at: float | None = attrs.field(default=None, validator=optional(_time))
    newest_at: float | None = attrs.field(default=None, validator=optional(_time))

    @head.validator
    def _check_head(self, _attribute: attrs.Attribute[int], head: int) -> None:
        if head < self.oldest:
            raise ValueError("the head of a spool is not less than its oldest offset")

    @reach.validator
    @since.validator
    def _check_place(self, attribute: attrs.Attribute[int | None], offset: int | None) -> None:
        if offset is not None and offset > self.head:  # It may go to a checkpoint that lasts.
            raise ValueError(f"SpoolInfo.{attribute.name} is at most the head of the spool")


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
        epoch: The epoch that the spool has up to ``stop``. If it has not, it was restored from an
            older copy, and the request is refused. ``None``: any.
    """

    spool_id: str
    start: int
    stop: int
    size: int | None = None
    epoch: str | None = None


@attrs.frozen(kw_only=True)
class BatchHead:
    """Everything about a stored batch but its bytes: see `rsocket_trio.spool.StoredBatch`."""

    first: int = attrs.field(validator=_offset)
    count: int = attrs.field(validator=whole(1, MAX_COUNT))
    start: int = attrs.field(validator=_offset)
    stop: int = attrs.field(validator=_offset)
    encoding: str = attrs.field(validator=sized(str, 0, MAX_ENCODING))
    facts: Mapping[str, str] = attrs.field(validator=[instance_of(Mapping), _check_facts])
    stored_at: float = attrs.field(validator=_time)


@attrs.frozen(kw_only=True)
class PositionRequest:
    """Say which events a consumer does not need any more.

    A consumer can have several instances at the same time, e.g. two readers of one Spark query. The
    spool keeps what each of them needs.

    Attributes:
        spool_id: The spool that the offset belongs to.
        consumer: The name of the consumer.
        instance: A name that no other instance has.
        offset: The first offset that this instance still needs.
        lease: The seconds that this instance may be away while another instance of its consumer is
            connected. ``None``: as long as the collector says.
        epoch: The epoch that the spool has up to ``offset``. If it has not, it was restored from
            an older copy, and the request is refused. ``None``: any.
    """

    spool_id: str
    consumer: str
    instance: str
    offset: int
    lease: float | None = attrs.field(default=None, validator=optional(_lease))
    epoch: str | None = None


@attrs.frozen(kw_only=True)
class ForgetRequest:
    """Forget a consumer that does not come back: the spool keeps no more events for it.

    Attributes:
        spool_id: The spool.
        consumer: The name of the consumer.
        instance: Only this instance of it. ``None``: all.
        force: Also if an instance of it is connected. Its position is forgotten until it commits
            again.
    """

    spool_id: str
    consumer: str
    instance: str | None = None
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
            of the collector, or of a connection that ended before their turn; events that are
            larger than the spool; and those that waited for their turn when the spool failed. Those
            that a killed collector loses are in no number.
        pending_size: Bytes of fire_and_forget that wait to be stored.
        subscriptions: The subscriptions.
    """

    connections: int
    stored: int
    lumberjack_events: int
    dropped: int
    pending_size: int
    subscriptions: tuple[SubscriptionStatistics, ...]
