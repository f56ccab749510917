"""Lumberjack v1 and v2, the protocol by which Beats and others ship log events.

`serve` receives these events, and `connect` ships them. The protocol without I/O is here too.

The receiving end feeds bytes to a `BatchReader` and gets batches. `IncomingBatch.acks_for` says
which ACK frames to send for them. The sending end writes what `encode_batch` returns, reads ACK
frames with `AckReader`, and counts them with `AckProgress`.

The modules, in reading order:

- ``wire``: the protocol without I/O: frames, batches, acknowledgements
- ``addresses``: the schemes ``lumberjack`` and ``lumberjacks``
- ``server``: `serve`, and its connections
- ``client``: `connect`, and its connections
- ``stored``: batches in a spool, and their events out of it
- ``spooling``: receive into a spool
- ``forwarding``: ship out of a spool
- ``relay``: republish received events as a stream with demand
- ``stream_source``: ship the items of a stream
- ``log_handler``: a handler of `logging` that ships records, for programs without trio
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import homes_of, lazily

if TYPE_CHECKING:
    from .client.config import ShipperConfig
    from .client.deliveries import ShipError
    from .client.shipper import Shipper, ShipperStatistics, connect
    from .forwarding import ship_from
    from .log_handler import LogStatistics, LumberjackHandler, ToEvent
    from .relay import EventRelay, RelayedEvents, RelayStatistics
    from .server.batch import Batch, Poison
    from .server.config import LumberjackConfig
    from .server.server import LumberjackServer, LumberjackStatistics, serve
    from .spooling import store_in
    from .stored import StoredEvents, UnknownEncoding, stored_events, to_store
    from .stream_source import EventSender, ship_stream
    from .wire.acks import AckProgress, AckReader
    from .wire.batches import IncomingBatch
    from .wire.dump import as_fields, cut_frames, describe
    from .wire.encoder import encode_batch
    from .wire.events import InvalidEvent, decode_event, decode_events, decode_json, decode_pairs
    from .wire.frames import (
        AckFrame,
        CompressedFrame,
        DataFrame,
        JsonFrame,
        LumberjackFrame,
        WindowFrame,
        decode,
        decode_first,
        encode_pairs,
        split_pairs,
    )
    from .wire.limits import LumberjackLimits
    from .wire.reader import BatchReader, ReaderState

__all__ = [
    "AckFrame",
    "AckProgress",
    "AckReader",
    "Batch",
    "BatchReader",
    "CompressedFrame",
    "DataFrame",
    "EventRelay",
    "EventSender",
    "IncomingBatch",
    "InvalidEvent",
    "JsonFrame",
    "LogStatistics",
    "LumberjackConfig",
    "LumberjackFrame",
    "LumberjackHandler",
    "LumberjackLimits",
    "LumberjackServer",
    "LumberjackStatistics",
    "Poison",
    "ReaderState",
    "RelayStatistics",
    "RelayedEvents",
    "ShipError",
    "Shipper",
    "ShipperConfig",
    "ShipperStatistics",
    "StoredEvents",
    "ToEvent",
    "UnknownEncoding",
    "WindowFrame",
    "as_fields",
    "connect",
    "cut_frames",
    "decode",
    "decode_event",
    "decode_events",
    "decode_first",
    "decode_json",
    "decode_pairs",
    "describe",
    "encode_batch",
    "encode_pairs",
    "serve",
    "ship_from",
    "ship_stream",
    "split_pairs",
    "store_in",
    "stored_events",
    "to_store",
]

_HOMES = homes_of(
    {
        "client.config": "ShipperConfig",
        "client.deliveries": "ShipError",
        "client.shipper": "Shipper ShipperStatistics connect",
        "forwarding": "ship_from",
        "log_handler": "LogStatistics LumberjackHandler ToEvent",
        "relay": "EventRelay RelayedEvents RelayStatistics",
        "server.batch": "Batch Poison",
        "server.config": "LumberjackConfig",
        "server.server": "LumberjackServer LumberjackStatistics serve",
        "spooling": "store_in",
        "stored": "StoredEvents UnknownEncoding stored_events to_store",
        "stream_source": "EventSender ship_stream",
        "wire.acks": "AckProgress AckReader",
        "wire.batches": "IncomingBatch",
        "wire.dump": "as_fields cut_frames describe",
        "wire.encoder": "encode_batch",
        "wire.events": "InvalidEvent decode_event decode_events decode_json decode_pairs",
        "wire.frames": (
            "AckFrame CompressedFrame DataFrame JsonFrame LumberjackFrame WindowFrame decode "
            "decode_first encode_pairs split_pairs"
        ),
        "wire.limits": "LumberjackLimits",
        "wire.reader": "BatchReader ReaderState",
    }
)
"""The module of each public name, imported when it is used first: whoever reads
stored batches needs no sockets."""

if not TYPE_CHECKING:  # A type checker would think that the package has every name.
    __getattr__, __dir__ = lazily(globals(), _HOMES)
