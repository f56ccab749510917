"""Frames as readable text: one line for logs and test failures, and a flat table of fields.

`describe` never shows metadata, tokens or the setup payload, which may hold credentials. Of a
malformed frame it shows only the header.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final

import attrs

from rsocket_trio.errors import MalformedFrame, code_name
from rsocket_trio.frames.header import HEADER_SIZE, IGNORE, FrameType, read_header
from rsocket_trio.frames.union import decode

__all__ = ["Dump", "as_fields", "describe"]

SHOWN_DATA: Final = 32
"""How many bytes of data `describe` shows."""


@attrs.frozen(kw_only=True)
class Dump:
    """Both functions for the frames of one protocol: RSocket 1.0 or the ReactiveSocket draft.

    Attributes:
        layout: For each type, the letters of its flags, from the highest bit (I) down, with a dot
            for a bit without a meaning; then its fields, as name=attribute.
        decode: Decodes bytes into a frame; raises `MalformedFrame`.
        read_header: Reads type code, flags and stream id from bytes.
        header_size: The size of the header in bytes.
        ignore: The highest flag.
        digits: The number of hexadecimal digits of a type code, and of the flags.
    """

    layout: Mapping[Any, tuple[str, str]]
    decode: Callable[[bytes], Any]
    read_header: Callable[[bytes], tuple[int, int, int]]
    header_size: int
    ignore: int
    digits: tuple[int, int]

    def as_fields(self, frame: bytes) -> dict[str, object]:
        """See the function `as_fields`."""
        kind, flags, stream_id, letters, fields = self._read(frame)
        type_digits, flag_digits = self.digits
        table: dict[str, object] = {
            "type": kind.name,
            "type_code": f"0x{kind:0{type_digits}x}",
            "flags": letters,
            "flags_hex": f"0x{flags:0{flag_digits}x}",
            "stream_id": stream_id,
        }
        for name, value in fields:
            table[name] = value.hex() if isinstance(value, bytes) else value
        return table

    def describe(self, frame: bytes) -> str:
        """See the function `describe`."""
        try:
            kind, _, stream_id, letters, fields = self._read(frame)
        except MalformedFrame as problem:
            return (
                f"malformed ({problem}): {len(frame)} bytes, {frame[: self.header_size].hex(' ')}"
            )
        words = [kind.name, f"stream_id={stream_id}"]
        if letters:
            words.append(f"flags={''.join(letters)}")
        for name, value in fields:
            if isinstance(value, bytes):
                words.append(f"{name.removesuffix('_hex')}={len(value)} bytes")
                if name == "data_hex" and value and kind.name != "SETUP":
                    words.append(repr(value[:SHOWN_DATA]) + "..." * (len(value) > SHOWN_DATA))
            elif name == "code" and isinstance(value, int):
                words.append(f"code={code_name(value)}")
            elif value is not None and not isinstance(value, bool):  # The flags show those.
                words.append(f"{name}={value!r}")
        return " ".join(words)

    def _read(self, frame: bytes) -> tuple[IntEnum, int, int, list[str], list[tuple[str, object]]]:
        decoded = self.decode(frame)
        _, flags, stream_id = self.read_header(frame)
        kind: IntEnum = decoded.frame_type
        letters, layout = self.layout[kind]
        set_flags = [
            letter
            for position, letter in enumerate(letters)
            if letter != "." and flags & self.ignore >> position
        ]
        pairs = (field.partition("=") for field in layout.split())
        fields = [(name, getattr(decoded, attribute)) for name, _, attribute in pairs]
        return kind, flags, stream_id, set_flags, fields


# The flags and fields that Protocol.md defines; see `Dump.layout`.
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
    FrameType.REQUEST_FNF: (".MF", f"follows=follows {_BODY}"),
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


_DUMP: Final = Dump(
    layout=_LAYOUT,
    decode=decode,
    read_header=read_header,
    header_size=HEADER_SIZE,
    ignore=IGNORE,
    digits=(2, 3),
)


def as_fields(frame: bytes) -> dict[str, object]:
    """Return the frame as a flat table of plain values, suitable for JSON.

    Args:
        frame: One whole frame, without length prefix.

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

    Data is shortened and escaped. Of metadata, resume tokens and the data of SETUP the line shows
    only the length, as they may hold credentials.

    Args:
        frame: One frame without length prefix, or any other bytes.
    """
    return _DUMP.describe(frame)
