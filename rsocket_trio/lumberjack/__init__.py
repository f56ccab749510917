"""Lumberjack v1 and v2, the protocol by which Beats and others ship log events.

`serve` receives these events, and `connect` ships them. The protocol without I/O is here too.

The receiving end feeds bytes to a `BatchReader` and gets batches. `IncomingBatch.acks_for` says
which ACK frames to send for them. The sending end writes what `encode_batch` returns, reads ACK
frames with `AckReader`, and counts them with `AckProgress`.

lumberjack-v1.md leaves many questions open. The answers are in the modules: in ``batches`` those
about windows, in ``acks`` and `IncomingBatch.acks_for` those about acknowledgements.

The modules, in reading order:

- ``frames``: the frames, from bytes and to bytes
- ``limits``: the memory that a peer may take, with a reason for each limit
- ``sequences``: sequence numbers of 32 bits, which roll over
- ``batches``: where a batch begins and ends, and which ACKs it needs
- ``decoder``: cuts bytes into frames and checks every length
- ``inflate``: inflates compressed frames in steps, up to a limit
- ``reader``: the receiving end: bytes in, batches out
- ``events``: decodes events
- ``json_texts``: reads many JSON texts, with orjson if it is installed
- ``encoder``: the sending end: events in, bytes out
- ``acks``: ACK frames at the sending end, and what they acknowledge
- ``dump``: frames as readable text

The server:

- ``addresses``: the schemes ``lumberjack`` and ``lumberjacks``
- ``config``: its times and limits
- ``server``: listen, and stop
- ``receiver``: one connection, and its tasks
- ``bytes_in``: read from a sender within the deadlines
- ``incoming_memory``: the memory of what all connections have read and not delivered
- ``room``: the batches that all connections hold together
- ``waiting``: the batches of one connection that wait
- ``routed``: call the handler and the guards of a router
- ``handling``: call the application for one batch
- ``batch``: what the application gets
- ``acknowledgements``: the task that writes ACKs and keep-alives
- ``farewell``: close so that the last ACKs arrive

With a spool:

- ``stored``: batches in a spool, and their events out of it
- ``spooling``: receive into a spool
- ``forwarding``: ship out of a spool

The client:

- ``ship_config``: its times and sizes
- ``shipper``: the block of `connect`, and `send`
- ``intake``: checks the events of a call, and queues them
- ``event_encoder``: the caller's events to bytes, and which ones no server accepts
- ``deliveries``: the events of one call, and ranges of them on the way
- ``backlog``: the events of all calls that wait, in order
- ``hosts``: which host comes next, and when
- ``window_size``: how many events the next window has
- ``connector``: dials, ships, waits, and dials again
- ``outgoing``: one connection, and its two tasks
- ``forming``: forms and encodes one window
- ``flight``: the windows on the way, and what the server may do
- ``bell``: wakes the tasks when there may be something to do

Bridges to streams:

- ``relay``: republish received events as a stream with demand
- ``stream_source``: ship the items of a stream

For programs that do not use trio:

- ``log_handler``: a handler of `logging` that ships records (has a map of its own)
"""

from __future__ import annotations

from .acks import AckProgress, AckReader
from .batch import Batch, Poison
from .batches import IncomingBatch
from .config import LumberjackConfig
from .deliveries import ShipError
from .dump import as_fields, cut_frames, describe
from .encoder import encode_batch
from .events import InvalidEvent, decode_event, decode_events, decode_json, decode_pairs
from .forwarding import ship_from
from .frames import (
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
from .limits import LumberjackLimits
from .log_handler import LogStatistics, LumberjackHandler, ToEvent
from .reader import BatchReader, ReaderState
from .relay import EventRelay, RelayedEvents, RelayStatistics
from .server import LumberjackServer, LumberjackStatistics, serve
from .ship_config import ShipperConfig
from .shipper import Shipper, ShipperStatistics, connect
from .spooling import store_in
from .stored import StoredEvents, UnknownEncoding, stored_events, to_store
from .stream_source import EventSender, ship_stream

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
