"""Frames for people: one line for logs and test failures, and a flat table of fields.

Neither is a wire format. `describe` never shows metadata, tokens or the setup payload, which may
hold credentials; of a malformed frame it shows no more than the header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rsocket_trio.errors import MalformedFrame, code_name
from rsocket_trio.frames.header import HEADER_SIZE, IGNORE, FrameType, read_header
from rsocket_trio.frames.union import decode

__all__ = ["as_fields", "describe"]

SHOWN_DATA: Final = 32
"""How many bytes of data `describe` shows."""


# Per type: the letters of the flags Protocol.md defines for it, from the highest bit (I) down and
# with a dot for a bit that has no meaning there; then its fields, as name=attribute.
_BODY: Final = "metadata_hex=metadata data_hex=data"
_LAYOUT: Final[Mapping[FrameType, tuple[str, str]]] = {
    FrameType.SETUP: (
        ".MRL",
        (
            "major=major minor=minor keepalive=keepalive_interval_ms lifetime=max_lifetime_ms"
            " token_hex=resume_token lease=lease metadata_mime=metadata_mime_type"
            f" data_mime=data_mime_type {_BODY}"
        ),
    ),
    FrameType.LEASE: (".M", "ttl=time_to_live_ms n=number_of_requests metadata_hex=metadata"),
    FrameType.KEEPALIVE: ("..R", "respond=respond position=position data_hex=data"),
    FrameType.REQUEST_RESPONSE: (".MF", f"follows=follows {_BODY}"),
    FrameType.REQUEST_FNF: (".MF", _BODY),
    FrameType.REQUEST_STREAM: (".MF", f"n=initial_request_n follows=follows {_BODY}"),
    FrameType.REQUEST_CHANNEL: (
        ".MFC",
        f"n=initial_request_n follows=follows complete=complete {_BODY}",
    ),
    FrameType.REQUEST_N: ("", "n=n"),
    FrameType.CANCEL: ("", ""),
    FrameType.PAYLOAD: (".MFCN", f"follows=follows complete=complete next=next {_BODY}"),
    FrameType.ERROR: ("", "code=code data_hex=data"),
    FrameType.METADATA_PUSH: (".M", "metadata_hex=metadata"),
    FrameType.RESUME: (
        "",
        (
            "major=major minor=minor token_hex=token last_server=last_received_server_position"
            " first_client=first_available_client_position"
        ),
    ),
    FrameType.RESUME_OK: ("", "last_client=last_received_client_position"),
    FrameType.EXT: ("IM", f"ext_type=extended_type ignore=ignore {_BODY}"),
}


def as_fields(frame: bytes) -> dict[str, object]:
    """The frame as a flat table of plain values, fit for JSON.

    Args:
        frame: One whole frame, without length prefix.

    Returns:
        ``type`` (its name), ``type_code`` and ``flags_hex`` (as sent, hexadecimal text), ``flags``
        (letters of those that are set and defined for the type), ``stream_id``, and the fields of
        the type. Bytes are hexadecimal text under a name that ends in ``_hex``; ``None`` is what
        is absent. Nothing is left out: this may show credentials.

    Raises:
        MalformedFrame: The bytes are no frame.
    """
    decoded = decode(frame)
    _, flags, stream_id = read_header(frame)
    letters, fields = _LAYOUT[decoded.frame_type]
    table: dict[str, object] = {
        "type": decoded.frame_type.name,
        "type_code": f"0x{decoded.frame_type:02x}",
        "flags": _defined(flags, letters),
        "flags_hex": f"0x{flags:03x}",
        "stream_id": stream_id,
    }
    for field in fields.split():
        name, _, attribute = field.partition("=")
        value = getattr(decoded, attribute)
        table[name] = value.hex() if isinstance(value, bytes) else value
    return table


def describe(frame: bytes) -> str:
    """One line about a frame, for logs and test failures. Never raises.

    Data is shown shortened and escaped. Of metadata, of resume tokens and of the data of SETUP
    only the length is shown, for they may hold credentials.

    Args:
        frame: Any bytes, meant to be one frame without length prefix.
    """
    try:
        decoded = decode(frame)
    except MalformedFrame as problem:
        return f"malformed ({problem}): {len(frame)} bytes, {frame[:HEADER_SIZE].hex(' ')}"
    _, flags, stream_id = read_header(frame)
    letters, fields = _LAYOUT[decoded.frame_type]
    words = [decoded.frame_type.name, f"stream_id={stream_id}"]
    if set_flags := _defined(flags, letters):
        words.append(f"flags={''.join(set_flags)}")
    for field in fields.split():
        name, _, attribute = field.partition("=")
        value = getattr(decoded, attribute)
        if isinstance(value, bytes):
            words.append(f"{name.removesuffix('_hex')}={len(value)} bytes")
            if attribute == "data" and value and decoded.frame_type != FrameType.SETUP:
                words.append(repr(value[:SHOWN_DATA]) + "..." * (len(value) > SHOWN_DATA))
        elif name == "code":
            words.append(f"code={code_name(value)}")
        elif value is not None and not isinstance(value, bool):  # The flags tell of those.
            words.append(f"{name}={value!r}")
    return " ".join(words)


def _defined(flags: int, letters: str) -> list[str]:
    return [
        letter
        for position, letter in enumerate(letters)
        if letter != "." and flags & IGNORE >> position
    ]
