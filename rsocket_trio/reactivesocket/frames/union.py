"""Any frame: the union of the frame classes, and `decode` for bytes of unknown type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from .cancel import CancelFrame, decode_cancel
from .error import ErrorFrame, decode_error
from .extension import ExtFrame, decode_ext
from .header import FrameType, malformed, read_header
from .keepalive import KeepaliveFrame, decode_keepalive
from .lease import LeaseFrame, decode_lease
from .metadata_push import MetadataPushFrame, decode_metadata_push
from .request import (
    RequestChannelFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    RequestSubFrame,
    decode_request_channel,
    decode_request_fnf,
    decode_request_response,
    decode_request_stream,
    decode_request_sub,
)
from .request_n import RequestNFrame, decode_request_n
from .response import ResponseFrame, decode_response
from .setup import SetupFrame, decode_setup

__all__ = ["Frame", "decode"]

Frame: TypeAlias = (
    SetupFrame
    | LeaseFrame
    | KeepaliveFrame
    | RequestResponseFrame
    | RequestFnfFrame
    | RequestStreamFrame
    | RequestSubFrame
    | RequestChannelFrame
    | RequestNFrame
    | CancelFrame
    | ResponseFrame
    | ErrorFrame
    | MetadataPushFrame
    | ExtFrame
)

_DECODERS: Final[Mapping[int, Callable[[bytes, int, int], Frame]]] = {
    FrameType.SETUP: decode_setup,
    FrameType.LEASE: decode_lease,
    FrameType.KEEPALIVE: decode_keepalive,
    FrameType.REQUEST_RESPONSE: decode_request_response,
    FrameType.REQUEST_FNF: decode_request_fnf,
    FrameType.REQUEST_STREAM: decode_request_stream,
    FrameType.REQUEST_SUB: decode_request_sub,
    FrameType.REQUEST_CHANNEL: decode_request_channel,
    FrameType.REQUEST_N: decode_request_n,
    FrameType.CANCEL: decode_cancel,
    FrameType.RESPONSE: decode_response,
    FrameType.ERROR: decode_error,
    FrameType.METADATA_PUSH: decode_metadata_push,
    FrameType.EXT: decode_ext,
}


def decode(frame: bytes) -> Frame:
    """Decode one whole frame of the draft, without the length before it.

    Only the layout is checked. The caller checks whether the values are legal, and whether the
    frame is allowed now. Flags that the type does not define are ignored.

    Raises:
        MetadataLengthError: Its metadata length is impossible: the draft says to ignore the frame.
        MalformedFrame: The bytes are not a frame: too short for header or fields, or of an unknown
            type. Its ``ignorable`` says whether the I flag was set.
    """
    frame_type, flags, stream_id = read_header(frame)
    decoder = _DECODERS.get(frame_type)
    if decoder is None:
        raise malformed(f"frame type 0x{frame_type:04x} is not known", flags, stream_id)
    return decoder(frame, flags, stream_id)
