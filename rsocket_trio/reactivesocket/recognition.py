"""Which protocol a client speaks, by the first bytes it sends. Pure: no state, no I/O.

On byte streams, bytes 3 to 6 of RSocket 1.0 are the stream id of the first frame, which must be 0;
in the draft, bytes 4 and 5 are the type of the first frame, which must be SETUP, 0x0001. So byte 5
alone tells legal peers apart; the rest is about illegal first frames, which are to be refused in
their own protocol's form. On WebSocket the same holds for the bytes of the first message, with and
without the length that clients of the draft put before it against its letter.

A smallest legal SETUP is 23 bytes long in 1.0 and 26 in the draft, so waiting for the 16 bytes
that may be needed here never keeps a legal peer waiting.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["NEEDED", "Wire", "has_length", "recognise_bytes", "recognise_message"]

NEEDED: Final = 16
"""With this many bytes `recognise_bytes` always knows."""

_ENOUGH: Final = 6
_SETUP: Final = b"\x00\x01"
_ZERO: Final = b"\x00\x00\x00\x00"
# Version 0, and the 0.1 that some peers wrote.
_VERSIONS: Final = frozenset((_ZERO, b"\x00\x00\x00\x01"))


class Wire(Enum):
    """What a peer speaks, and in which form."""

    RSOCKET = "rsocket"
    REACTIVESOCKET = "reactivesocket"
    REACTIVESOCKET_WITH_LENGTH = "reactivesocket with length"
    """Messages, each with the length before the frame that only byte streams should have."""


def recognise_bytes(data: bytes | bytearray) -> Wire | None:
    """Judge the first bytes of a byte stream.

    Args:
        data: All that has come so far.

    Returns:
        The protocol, or ``None``: more bytes are needed, `NEEDED` at most. Where no more come,
        take it for RSocket 1.0.
    """
    if len(data) < _ENOUGH:
        return None
    if data[4:6] != _SETUP or data[0] & 0x80:
        return Wire.RSOCKET
    if data[3]:
        return Wire.REACTIVESOCKET
    # A SETUP of the draft whose length is a multiple of 256, or an illegal first frame of 1.0 on
    # stream 256 to 511. In the draft the flags and the stream id come next, and legal ones have
    # zeros where 1.0 has its type...
    if any(data[index] & mask for index, mask in _NEXT if index < len(data)):
        return Wire.RSOCKET
    if len(data) < NEEDED:
        return None
    # ...and then the version.
    return Wire.REACTIVESOCKET if bytes(data[12:16]) in _VERSIONS else Wire.RSOCKET


_NEXT: Final = ((6, 0x8F), (7, 0xFF), (8, 0xFF), (9, 0xFF), (10, 0xFF), (11, 0xFF))
"""Bytes and the bits of them that are 0 in a SETUP of the draft."""


def recognise_message(message: bytes) -> Wire:
    """Judge the first message of a transport that keeps messages apart."""
    if message[:2] == _SETUP and message[4:8] == _ZERO:
        return Wire.REACTIVESOCKET
    if has_length(message) and message[4:6] == _SETUP and message[8:12] == _ZERO:
        return Wire.REACTIVESOCKET_WITH_LENGTH
    return Wire.RSOCKET


def has_length(message: bytes) -> bool:
    """Whether a message begins with its own length, as only a byte stream's frame should."""
    return len(message) >= _ENOUGH and int.from_bytes(message[:4], "big") == len(message)
