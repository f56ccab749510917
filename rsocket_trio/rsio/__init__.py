"""rsio, Reactive Streams over a network: publishers and subscribers at both ends of a connection.

It is a binding of the draft reactive-streams-io. The page ``docs/rsio.md`` defines it.

The modules, in reading order:

- ``limits``: the memory that one peer may take from us: `RsioLimits`
- ``wire``: the protocol without I/O: messages from bytes and to bytes
- ``rules``: the state of one connection, without I/O
- ``addresses``: the addresses, such as ``rsio://127.0.0.1:7980``
- ``errors``: what a peer or a publisher can fail with
- ``config``: the settings of clients and servers
- ``fixed_size``: publishers whose elements have one size
- ``packed``: many elements of one size in one object
- ``receiving``: these, as they arrive
- ``connection``: one connection: what each end sends and receives, and its tasks
- ``publisher``: publishers of the peer
- ``extensions``: extensions of the protocol, and two of them
- ``targets``: what can be served
- ``queries``: names of publishers as requests of handlers
- ``routed``: serves a `rsocket_trio.Router`
- ``hosting``: what all connections of a client or a server share
- ``carrier``: octets over any connection
- ``client``: `connect`, which gives a `Connection`
- ``server``: `serve`, and `serve_stream` for one connection
"""

from __future__ import annotations

from .addresses import rsio_uri
from .carrier import OpenTransport
from .client import connect
from .config import RsioConfig
from .connection.connection import Connection, ConnectionStatistics
from .errors import (
    DifferentSizes,
    GoodbyeReceived,
    HelloRefused,
    PublisherError,
    RsioError,
    VersionMismatch,
)
from .extensions import Behaviour, Compression, Extension, Peer, Ping
from .fixed_size import ElementSource, FixedSizePublisher, fixed_size
from .limits import RsioLimits
from .packed import PackedElements
from .publisher import RemotePublisher
from .receiving import PackedStream
from .server import OnConnection, RsioServer, RsioStatistics, serve, serve_stream
from .targets import Resolver, Served

__all__ = [
    "Behaviour",
    "Compression",
    "Connection",
    "ConnectionStatistics",
    "DifferentSizes",
    "ElementSource",
    "Extension",
    "FixedSizePublisher",
    "GoodbyeReceived",
    "HelloRefused",
    "OnConnection",
    "OpenTransport",
    "PackedElements",
    "PackedStream",
    "Peer",
    "Ping",
    "PublisherError",
    "RemotePublisher",
    "Resolver",
    "RsioConfig",
    "RsioError",
    "RsioLimits",
    "RsioServer",
    "RsioStatistics",
    "Served",
    "VersionMismatch",
    "connect",
    "fixed_size",
    "rsio_uri",
    "serve",
    "serve_stream",
]
