"""Any frame: the union of the frame classes, and `decode` for bytes of unknown type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from rsocket_trio.frames.cancel import CancelFrame, decode_cancel
from rsocket_trio.frames.error import ErrorFrame, decode_error
from rsocket_trio.frames.extension import ExtFrame, decode_ext
from rsocket_trio.frames.header import FrameType, malformed, read_header
from rsocket_trio.frames.keepalive import KeepaliveFrame, decode_keepalive
from rsocket_trio.frames.lease import LeaseFrame, decode_lease
from rsocket_trio.frames.metadata_push import MetadataPushFrame, decode_metadata_push
from rsocket_trio.frames.payload import PayloadFrame, decode_payload
from rsocket_trio.frames.request import (
    RequestChannelFrame,
    RequestFnfFrame,
    RequestResponseFrame,
    RequestStreamFrame,
    decode_request_channel,
    decode_request_fnf,
    decode_request_response,
    decode_request_stream,
)
from rsocket_trio.frames.request_n import RequestNFrame, decode_request_n
from rsocket_trio.frames.resume import ResumeFrame, ResumeOkFrame, decode_resume, decode_resume_ok
from rsocket_trio.frames.setup import SetupFrame, decode_setup

__all__ = ["Frame", "decode"]

Frame: TypeAlias = (
    SetupFrame
    | LeaseFrame
    | KeepaliveFrame
    | RequestResponseFrame
    | RequestFnfFrame
    | RequestStreamFrame
    | RequestChannelFrame
    | RequestNFrame
    | CancelFrame
    | PayloadFrame
    | ErrorFrame
    | MetadataPushFrame
    | ResumeFrame
    | ResumeOkFrame
    | ExtFrame
)

_DECODERS: Final[Mapping[int, Callable[[bytes, int, int], Frame]]] = {
    FrameType.SETUP: decode_setup,
    FrameType.LEASE: decode_lease,
    FrameType.KEEPALIVE: decode_keepalive,
    FrameType.REQUEST_RESPONSE: decode_request_response,
    FrameType.REQUEST_FNF: decode_request_fnf,
    FrameType.REQUEST_STREAM: decode_request_stream,
    FrameType.REQUEST_CHANNEL: decode_request_channel,
    FrameType.REQUEST_N: decode_request_n,
    FrameType.CANCEL: decode_cancel,
    FrameType.PAYLOAD: decode_payload,
    FrameType.ERROR: decode_error,
    FrameType.METADATA_PUSH: decode_metadata_push,
    FrameType.RESUME: decode_resume,
    FrameType.RESUME_OK: decode_resume_ok,
    FrameType.EXT: decode_ext,
}


def decode(frame: bytes) -> Frame:
    """Decode one whole frame, without length prefix.

    Only the layout is checked. The caller checks whether the values are legal (a credit of 0, a
    stream id that does not fit the type), and whether the frame is allowed now. Flags that the
    type does not define are ignored.

    Raises:
        MalformedFrame: The bytes are not a frame: too short for header or fixed fields, too long,
            a length that runs past the end, a reserved bit set, a MIME type that is not US-ASCII,
            or an unknown type. Its ``ignorable`` says whether the I flag was set.
    """
    frame_type, flags, stream_id = read_header(frame)
    decoder = _DECODERS.get(frame_type)
    if decoder is None:
        raise malformed(f"frame type 0x{frame_type:02x} is not known", flags, stream_id)
    return decoder(frame, flags, stream_id)
