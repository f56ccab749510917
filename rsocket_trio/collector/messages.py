"""What a collector and its readers say to each other over RSocket.

A collector answers three routes. Requests and replies are maps in CBOR:

- `INFO` (request_response): `InfoRequest`, answered by a `SpoolInfo`
- `READ` (request_stream): `ReadRequest`, answered by one item for each stored batch. The data of an
  item are the bytes of the whole batch, and its metadata are a `BatchHead`.
- `POSITION` (request_response): `PositionRequest`, answered by a `SpoolInfo`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

__all__ = [
    "INFO",
    "POSITION",
    "READ",
    "BatchHead",
    "InfoRequest",
    "PositionRequest",
    "ReadRequest",
    "SpoolInfo",
]

INFO: Final = "spool.info"
READ: Final = "spool.read"
POSITION: Final = "spool.position"


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

    spool_id: str
    oldest: int
    head: int
    size: int
    max_size: int
    full: bool
    trouble: str | None
    positions: Mapping[str, int]
    reach: int | None = None


@attrs.frozen(kw_only=True)
class ReadRequest:
    """Ask for the batches of a range of offsets.

    Attributes:
        spool_id: The spool that the offsets belong to.
        start: The offset of the first event.
        stop: The offset behind the last event, at most the head.
    """

    spool_id: str
    start: int
    stop: int


@attrs.frozen(kw_only=True)
class BatchHead:
    """Everything about a stored batch but its bytes: see `rsocket_trio.spool.StoredBatch`."""

    first: int
    count: int
    start: int
    stop: int
    encoding: str
    facts: Mapping[str, str]
    stored_at: float


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
