"""Frames as readable text: one line for logs and test failures, and a flat table of fields.

As in `rsocket_trio.frames.dump`, `describe` never shows metadata or the setup payload, which may
hold credentials. Of a malformed frame it shows only the header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rsocket_trio.frames.dump import Dump

from .header import HEADER_SIZE, IGNORE, FrameType, read_header
from .union import decode

__all__ = ["as_fields", "describe"]

# The flags and fields that the draft defines; see `Dump.layout`.
_BODY: Final = "metadata_hex=metadata data_hex=data"
_LAYOUT: Final[Mapping[FrameType, tuple[str, str]]] = {
    FrameType.SETUP: (
        ".MLS",
        (
            "version=version keepalive=keepalive_interval_ms lifetime=max_lifetime_ms lease=lease"
            f" strict=strict metadata_mime=metadata_mime_type data_mime=data_mime_type {_BODY}"
        ),
    ),
    FrameType.LEASE: (".M", "ttl=time_to_live_ms n=number_of_requests metadata_hex=metadata"),
    FrameType.KEEPALIVE: ("..R", "respond=respond data_hex=data"),
    FrameType.REQUEST_RESPONSE: (".M", _BODY),
    FrameType.REQUEST_FNF: (".M", _BODY),
    FrameType.REQUEST_STREAM: (".M..N", f"n=initial_request_n {_BODY}"),
    FrameType.REQUEST_SUB: (".M..N", f"n=initial_request_n {_BODY}"),
    FrameType.REQUEST_CHANNEL: (
        ".MFCN",
        f"n=initial_request_n follows=follows complete=complete {_BODY}",
    ),
    FrameType.REQUEST_N: ("", "n=n"),
    FrameType.CANCEL: (".M", "metadata_hex=metadata"),
    FrameType.RESPONSE: (".MFC", f"follows=follows complete=complete {_BODY}"),
    FrameType.ERROR: (".M", f"code=code {_BODY}"),
    FrameType.METADATA_PUSH: (".M", "metadata_hex=metadata"),
    FrameType.EXT: ("IM", "ext_type=extended_type data_hex=data"),
}


_DUMP: Final = Dump(
    layout=_LAYOUT,
    decode=decode,
    read_header=read_header,
    header_size=HEADER_SIZE,
    ignore=IGNORE,
    digits=(4, 4),
)


def as_fields(frame: bytes) -> dict[str, object]:
    """Return the frame as a flat table of plain values, suitable for JSON.

    Args:
        frame: One whole frame, without the length before it.

    Returns:
        ``type`` (its name), ``type_code`` and ``flags_hex`` (as sent, hexadecimal text), ``flags``
        (the letters of the set flags that this type defines), ``stream_id``, and the fields of the
        type. Bytes are hexadecimal text under a name that ends in ``_hex``; absent fields are
        ``None``. All fields are shown, also credentials.

    Raises:
        MalformedFrame: The bytes are not a frame.
    """
    return _DUMP.as_fields(frame)


def describe(frame: bytes) -> str:
    """Return one line about a frame, for logs and test failures. Never raises.

    Data is shortened and escaped. Of metadata and of the data of SETUP the line shows only the
    length, as they may hold credentials.

    Args:
        frame: One frame without the length before it, or any other bytes.
    """
    return _DUMP.describe(frame)
