"""Frames for people: one line for logs and test failures, and a flat table of fields.

The same promises as `rsocket_trio.frames.dump`: `describe` never shows metadata or the setup
payload, which may hold credentials; of a malformed frame it shows no more than the header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rsocket_trio.errors import MalformedFrame, code_name

from .header import HEADER_SIZE, IGNORE, FrameType, read_header
from .union import Frame, decode

__all__ = ["as_fields", "describe"]

SHOWN_DATA: Final = 32
"""How many bytes of data `describe` shows."""

# Per type: the letters of the flags the draft defines for it, from the highest bit (I) down and
# with a dot for a bit that has no meaning there; then its fields, as name=attribute.
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


def as_fields(frame: bytes) -> dict[str, object]:
    """The frame as a flat table of plain values, fit for JSON.

    Args:
        frame: One whole frame, without the length before it.

    Returns:
        ``type`` (its name), ``type_code`` and ``flags_hex`` (as sent, hexadecimal text), ``flags``
        (letters of those that are set and mean something), ``stream_id``, and the fields of the
        type. Bytes are hexadecimal text under a name that ends in ``_hex``; ``None`` is what is
        absent. Nothing is left out: this may show credentials.

    Raises:
        MalformedFrame: The bytes are no frame.
    """
    decoded, flags, letters = _read(frame)
    table: dict[str, object] = {
        "type": decoded.frame_type.name,
        "type_code": f"0x{decoded.frame_type:04x}",
        "flags": letters,
        "flags_hex": f"0x{flags:04x}",
        "stream_id": decoded.stream_id,
    }
    for name, value in _fields(decoded):
        table[name] = value.hex() if isinstance(value, bytes) else value
    return table


def describe(frame: bytes) -> str:
    """One line about a frame, for logs and test failures. Never raises.

    Data is shown shortened and escaped. Of metadata and of the data of SETUP only the length is
    shown, for they may hold credentials.

    Args:
        frame: Any bytes, meant to be one frame without the length before it.
    """
    try:
        decoded, _, letters = _read(frame)
    except MalformedFrame as problem:
        return f"malformed ({problem}): {len(frame)} bytes, {frame[:HEADER_SIZE].hex(' ')}"
    words = [decoded.frame_type.name, f"stream_id={decoded.stream_id}"]
    if letters:
        words.append(f"flags={''.join(letters)}")
    for name, value in _fields(decoded):
        if isinstance(value, bytes):
            words.append(f"{name.removesuffix('_hex')}={len(value)} bytes")
            if name == "data_hex" and value and decoded.frame_type != FrameType.SETUP:
                words.append(repr(value[:SHOWN_DATA]) + "..." * (len(value) > SHOWN_DATA))
        elif name == "code" and isinstance(value, int):
            words.append(f"code={code_name(value)}")
        elif value is not None and not isinstance(value, bool):  # The flags tell of those.
            words.append(f"{name}={value!r}")
    return " ".join(words)


def _read(frame: bytes) -> tuple[Frame, int, list[str]]:
    decoded = decode(frame)
    _, flags, _ = read_header(frame)
    letters, _ = _LAYOUT[decoded.frame_type]
    set_flags = [
        letter
        for position, letter in enumerate(letters)
        if letter != "." and flags & IGNORE >> position
    ]
    return decoded, flags, set_flags


def _fields(decoded: Frame) -> list[tuple[str, object]]:
    _, layout = _LAYOUT[decoded.frame_type]
    pairs = (field.partition("=") for field in layout.split())
    return [(name, getattr(decoded, attribute)) for name, _, attribute in pairs]
