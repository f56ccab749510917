"""Frames of the ReactiveSocket draft, sans-IO: bytes to objects and back.

`decode` gives an object for any frame, and the object's ``encode()`` the bytes. No state, no
rules of use.
"""

from __future__ import annotations

from .cancel import CancelFrame
from .dump import as_fields, describe
from .error import ErrorFrame
from .extension import ExtFrame
from .header import FrameType
from .keepalive import KeepaliveFrame
from .lease import LeaseFrame
from .length import LengthDecoder, encode_length
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
]
