"""Frames of the ReactiveSocket draft, sans-IO: bytes to objects and back.

`decode` returns an object for any frame, and the object's ``encode()`` returns the bytes. The
package has no state, and does not check when a frame is allowed.

The modules, in reading order:

- ``header``: the parts of every frame: header, flags, metadata length
- ``length``: the length in front of a frame on byte streams
- ``setup``: SETUP, the first frame of a connection
- ``request``: the five requests, and the requester's later items
- ``response``: RESPONSE, an item, its completion, or both
- ``request_n``: REQUEST_N, more credit for a stream
- ``cancel``: CANCEL, the requester wants no more
- ``error``: ERROR, of a stream or of the connection
- ``keepalive``: KEEPALIVE, a sign of life
- ``lease``: LEASE, how many requests the peer may send
- ``metadata_push``: METADATA_PUSH, metadata about the connection
- ``extension``: EXT, for further frame types
- ``union``: any frame, from bytes of unknown type
- ``dump``: frames as readable text
"""

from __future__ import annotations

from .cancel import CancelFrame
from .dump import as_fields, describe
from .error import ErrorFrame
from .extension import ExtFrame
from .header import FrameType
from .keepalive import KeepaliveFrame
from .lease import LeaseFrame
from .length import LengthDecoder, encode_length, join_frames
from .metadata_push import MetadataPushFrame
from .request import (
    RequestChannelFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    RequestSubFrame,
)
from .request_n import RequestNFrame
from .response import ResponseFrame
from .setup import SetupFrame
from .union import Frame, decode

__all__ = [
    "CancelFrame",
    "ErrorFrame",
    "ExtFrame",
    "Frame",
    "FrameType",
    "KeepaliveFrame",
    "LeaseFrame",
    "LengthDecoder",
    "MetadataPushFrame",
    "RequestChannelFrame",
    "RequestFnfFrame",
    "RequestNFrame",
    "RequestResponseFrame",
    "RequestStreamFrame",
    "RequestSubFrame",
    "ResponseFrame",
    "SetupFrame",
    "as_fields",
    "decode",
    "describe",
    "encode_length",
    "join_frames",
]
