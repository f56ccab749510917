"""What carries frames: byte streams, WebSocket, memory. Nothing here looks inside a frame.

`open_transport` dials an address, `serve_listener` listens at one. The classes are for streams
and connections that you bring.
"""

from .base import FrameTransport, TransportInfo
from .byte_stream import ByteStreamTransport
from .dial import open_transport
from .listen import serve_listener
from .memory import memory_transport_pair
from .websocket import WebSocketTransport
from .wsproto_stream import WsprotoTransport

__all__ = [
    "ByteStreamTransport",
    "FrameTransport",
    "TransportInfo",
    "WebSocketTransport",
    "WsprotoTransport",
    "memory_transport_pair",
    "open_transport",
    "serve_listener",
]
