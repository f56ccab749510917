"""What carries frames: byte streams, WebSocket, memory. Nothing here looks inside a frame.

`open_transport` dials an address, `serve_listener` listens at one. The classes are for streams
and connections that you bring.

The modules, in reading order. What a transport is, and where it comes from:

- ``base``: what every transport does, and what is known about it
- ``wrapper``: what a transport around another is made of
- ``dial``: from an address to a transport, for clients
- ``listen``: from an address to transports, for servers
- ``over_stream``: from a connected socket to a transport

Sockets:

- ``tcp``: dial, listen, and say who is there
- ``tls``: TLS over any byte stream
- ``unix``: Unix sockets, and their files
- ``file_lock``: a lock between processes, for the file of a socket
- ``patient_listener``: a listener that waits while the system has no room
- ``connection_limit``: how many connections may be open at once

Frames on byte streams:

- ``byte_stream``: frames over any byte stream
- ``direct``: a socket with few system calls
- ``progress``: large batches in parts, so that progress can be seen

WebSocket:

- ``websocket_handshake``: the opening handshake, client and server side
- ``origins``: which web pages may connect
- ``websocket_frames``: messages written, and the mask
- ``websocket_reader``: messages read
- ``wsproto_stream``: frames as messages over any byte stream
- ``websocket``: frames over a connection of trio-websocket that you bring

Inside one process:

- ``memory``: two ends, for tests
"""

from .base import Capabilities, FrameTransport, TransportInfo
from .byte_stream import ByteStreamTransport, FrameDecoder
from .connection_limit import ConnectionLimit
from .dial import open_transport
from .listen import serve_listener
from .memory import MemoryTransport, memory_transport_pair
from .websocket import WebSocketTransport
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
    "WebSocketTransport",
    "WsprotoTransport",
    "memory_transport_pair",
    "open_transport",
    "serve_listener",
]
