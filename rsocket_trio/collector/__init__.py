"""A collector: it receives events, keeps them in a spool, and gives ranges of them to readers.

The modules, in reading order:

- ``messages``: what a collector and its readers say to each other over RSocket
- ``refusals``: the errors of a spool on the wire
- ``limits``: what strangers may take from a collector
- ``client``: the reader's side: `connect_collector`, `CollectorClient`
- ``range_reader``: a range, read batch by batch and piece by piece
- ``service``: the routes for readers, over a spool
- ``reads``: the ranges that are being read
- ``range_stream``: one of them
- ``read_memory``: the memory for batches that are on the way to readers
- ``consumers``: positions of consumers with several instances
- ``collecting``: a collector, as applications run it: `collect`
- ``roles``: who may send to it, read from it, and forget consumers
- ``running``: what runs in it, and how it stops
- ``ingest``: events that peers send by RSocket
- ``ingest_config``: how these form batches, and how RSocket connections are treated
- ``subscriptions``: streams of publishers, as users name them
- ``subscriber``: follows one of them, and stores its events
- ``feeds``: where these come from: a responder of RSocket, a publisher of rsio
- ``gathering``: the events of a stream until they are worth a batch
- ``own_metadata``: the metadata of an event without those for the collector
- ``stored``: payloads in a spool, and out of it
- ``storage``: the spool, and what is counted about it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import homes_of, lazily

if TYPE_CHECKING:
    from .client import CollectorClient, connect_collector
    from .collecting import Collector, collect
    from .ingest_config import IngestConfig
    from .limits import CollectorLimits
    from .messages import (
        EVENTS,
        FORGET,
        INFO,
        POSITION,
        READ,
        STATUS,
        BatchHead,
        CollectorStatistics,
        ForgetRequest,
        InfoRequest,
        InstanceInfo,
        PositionRequest,
        ReadRequest,
        Receipt,
        SpoolInfo,
        SubscriptionStatistics,
    )
    from .range_reader import RangeReader
    from .refusals import CollectorBusy
    from .roles import Grant, Role, admit, check_roles
    from .service import reading_router
    from .stored import payloads_to_store, stored_payloads
    from .subscriptions import Subscription, parse_subscription

__all__ = [
    "EVENTS",
    "FORGET",
    "INFO",
    "POSITION",
    "READ",
    "STATUS",
    "BatchHead",
    "Collector",
    "CollectorBusy",
    "CollectorClient",
    "CollectorLimits",
    "CollectorStatistics",
    "ForgetRequest",
    "Grant",
    "InfoRequest",
    "IngestConfig",
    "InstanceInfo",
    "PositionRequest",
    "RangeReader",
    "ReadRequest",
    "Receipt",
    "Role",
    "SpoolInfo",
    "Subscription",
    "SubscriptionStatistics",
    "admit",
    "check_roles",
    "collect",
    "connect_collector",
    "parse_subscription",
    "payloads_to_store",
    "reading_router",
    "stored_payloads",
]

_HOMES = homes_of(
    {
        "client": "CollectorClient connect_collector",
        "collecting": "Collector collect",
        "ingest_config": "IngestConfig",
        "limits": "CollectorLimits",
        "messages": (
            "EVENTS FORGET INFO POSITION READ STATUS BatchHead CollectorStatistics "
            "ForgetRequest InfoRequest InstanceInfo PositionRequest ReadRequest Receipt "
            "SpoolInfo SubscriptionStatistics"
        ),
        "range_reader": "RangeReader",
        "refusals": "CollectorBusy",
        "roles": "Grant Role admit check_roles",
        "service": "reading_router",
        "stored": "payloads_to_store stored_payloads",
        "subscriptions": "Subscription parse_subscription",
    }
)
"""The module of each public name, imported when it is used first: a task of Spark that
reads a spool needs no server."""

if not TYPE_CHECKING:  # A type checker would think that the package has every name.
    __getattr__, __dir__ = lazily(globals(), _HOMES)
