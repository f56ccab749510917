"""Transports carry whole frames over byte streams, WebSocket or memory. They do not read frames.

`open_transport` dials an address, `accept_transports` listens at one. The classes are for your own
streams and connections.

The modules, in reading order. Transports and how they are opened:

- ``base``: the interface of transports, and the facts about one
- ``wrapper``: the base class of transports around another transport
- ``dial``: from an address to a transport, for clients
- ``listen``: from an address to transports, for servers
- ``over_stream``: from a connected stream to a transport

Frames on byte streams:

- ``byte_stream``: frames over any byte stream
- ``progress``: send large batches in parts, to see progress

WebSocket:

- ``http_head``: heads of HTTP/1.1, within limits
- ``websocket_handshake``: the opening handshake, client and server side
- ``origins``: which web pages may connect
- ``websocket_frames``: write messages; masking
- ``websocket_reader``: read messages
- ``wsproto_stream``: frames as messages over any byte stream
- ``websocket``: frames over your own trio-websocket connection

Pages of HTTP:

- ``pages``: a few small pages for probes and scrapers

Inside one process:

- ``memory``: a pair of connected transports, for tests
"""

from ..sockets.connection_limit import ConnectionLimit
from .base import Capabilities, FrameTransport, TransportInfo
from .byte_stream import ByteStreamTransport, FrameDecoder
from .dial import open_transport
from .listen import accept_transports
from .memory import MemoryTransport, memory_transport_pair
from .websocket import TrioWebSocketTransport
from .wrapper import TransportWrapper
from .wsproto_stream import WsprotoTransport

__all__ = [
    "ByteStreamTransport",
    "Capabilities",
    "ConnectionLimit",
    "FrameDecoder",
    "FrameTransport",
    "MemoryTransport",
    "TransportInfo",
    "TransportWrapper",
    "TrioWebSocketTransport",
    "WsprotoTransport",
    "accept_transports",
    "memory_transport_pair",
    "open_transport",
]
