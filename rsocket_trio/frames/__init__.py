"""Frames of RSocket 1.0, sans-IO: bytes to objects and back.

`decode` returns an object for any frame, and the object's ``encode()`` returns the bytes. The
package has no state, and does not check when a frame is allowed. For code that runs once per
message there are faster functions: ``encode_payload``, ``encode_request`` and the like, `HEADER`
and `split_metadata`.

The modules, in reading order:

- ``header``: the parts of every frame: header, flags, metadata length
- ``length``: the length in front of a frame on byte streams
- ``setup``: SETUP, the first frame of a connection
- ``request``: the four requests
- ``payload``: PAYLOAD, an item, its completion, or both
- ``request_n``: REQUEST_N, more credit for a stream
- ``cancel``: CANCEL, the end of a stream from the side that receives
- ``error``: ERROR, of a stream or of the connection
- ``keepalive``: KEEPALIVE, a sign of life and a position
- ``lease``: LEASE, how many requests the peer may send
- ``metadata_push``: METADATA_PUSH, metadata about the connection
- ``resume``: RESUME and RESUME_OK, which resume a session
- ``extension``: EXT, for further frame types
- ``union``: any frame, from bytes of unknown type
- ``dump``: frames as readable text
"""

from __future__ import annotations

from rsocket_trio.frames.cancel import CancelFrame, encode_cancel
from rsocket_trio.frames.dump import as_fields, describe
from rsocket_trio.frames.error import ErrorFrame, encode_error
from rsocket_trio.frames.extension import ExtFrame
from rsocket_trio.frames.header import HEADER, FrameType, split_metadata
from rsocket_trio.frames.keepalive import KeepaliveFrame, encode_keepalive
from rsocket_trio.frames.lease import LeaseFrame
from rsocket_trio.frames.length import LengthPrefixDecoder, encode_length
from rsocket_trio.frames.metadata_push import MetadataPushFrame, encode_metadata_push
from rsocket_trio.frames.payload import PayloadFrame, encode_payload
from rsocket_trio.frames.request import (
    RequestChannelFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    encode_request,
)
from rsocket_trio.frames.request_n import RequestNFrame, encode_request_n
from rsocket_trio.frames.resume import ResumeFrame, ResumeOkFrame
from rsocket_trio.frames.setup import SetupFrame
from rsocket_trio.frames.union import Frame, decode

__all__ = [
    "HEADER",
    "CancelFrame",
    "ErrorFrame",
    "ExtFrame",
    "Frame",
    "FrameType",
    "KeepaliveFrame",
    "LeaseFrame",
    "LengthPrefixDecoder",
    "MetadataPushFrame",
    "PayloadFrame",
    "RequestChannelFrame",
    "RequestFnfFrame",
    "RequestNFrame",
    "RequestResponseFrame",
    "RequestStreamFrame",
    "ResumeFrame",
    "ResumeOkFrame",
    "SetupFrame",
    "as_fields",
    "decode",
    "describe",
    "encode_cancel",
    "encode_error",
    "encode_keepalive",
    "encode_length",
    "encode_metadata_push",
    "encode_payload",
    "encode_request",
    "encode_request_n",
    "split_metadata",
]
