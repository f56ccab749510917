"""Recognise the protocol of a client by its first bytes. No state, no I/O.

On byte streams, bytes 3 to 6 of RSocket 1.0 are the stream id of the first frame, which must be 0;
in the draft, bytes 4 and 5 are the type of the first frame, which must be SETUP, 0x0001. So byte 5
is enough for legal peers. The other checks are for illegal first frames, which are refused in the
form of their own protocol. On WebSocket the same bytes of the first message are checked, with and
without a length before the frame, which some clients of the draft send against the draft's text.

The smallest legal SETUP is 23 bytes long in 1.0 and 26 in the draft. The checks need at most 16
bytes, so a legal peer never waits for us.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from rsocket_trio.foreign import ENOUGH, recognise_foreign

__all__ = ["NEEDED", "Wire", "has_length", "recognise_bytes", "recognise_message"]

NEEDED: Final = 16
"""`recognise_bytes` never needs more bytes than this."""

_ENOUGH: Final = 6
_SETUP: Final = b"\x00\x01"
_ZERO: Final = b"\x00\x00\x00\x00"
# Version 0, and the 0.1 that some implementations sent for the same protocol.
_VERSIONS: Final = frozenset((_ZERO, b"\x00\x00\x00\x01"))


class Wire(Enum):
    """The protocol of a peer, and its form."""

    RSOCKET = "rsocket"
    REACTIVESOCKET = "reactivesocket"
    REACTIVESOCKET_WITH_LENGTH = "reactivesocket with length"
    """Messages with a length before each frame, which only byte streams should have."""


def recognise_bytes(data: bytes | bytearray) -> Wire | None:
    """Recognise the protocol by the first bytes of a byte stream.

    Args:
        data: All the bytes received so far.

    Returns:
        The protocol; ``None`` if more bytes are needed (`NEEDED` at most). If the stream ends
        before, treat it as RSocket 1.0.
    """
    if len(data) < _ENOUGH:
        return None
    if data[4:6] != _SETUP or data[0] & 0x80:
        return Wire.RSOCKET
    if recognise_foreign(bytes(data[:ENOUGH])) is not None:
        # A ClientHello of TLS looks like a SETUP; whoever reads 1.0 says what the peer speaks.
        return Wire.RSOCKET
    if data[3]:
        return Wire.REACTIVESOCKET
    # A SETUP of the draft whose length is a multiple of 256, or an illegal first frame of 1.0 on
    # stream 256 to 511. In the draft flags and stream id come next; legal ones have zeros in the
    # bits where 1.0 has its frame type.
    if any(data[index] & mask for index, mask in _ZERO_BITS if index < len(data)):
        return Wire.RSOCKET
    if len(data) < NEEDED:
        return None
    # Behind them the draft has the version.
    return Wire.REACTIVESOCKET if bytes(data[12:16]) in _VERSIONS else Wire.RSOCKET


_ZERO_BITS: Final = ((6, 0x8F), (7, 0xFF), (8, 0xFF), (9, 0xFF), (10, 0xFF), (11, 0xFF))
"""Byte positions, and the bits that are 0 there in a SETUP of the draft."""


def recognise_message(message: bytes) -> Wire:
    """Recognise the protocol by the first message of a transport of messages."""
    if message[:2] == _SETUP and message[4:8] == _ZERO:
        return Wire.REACTIVESOCKET
    if has_length(message) and message[4:6] == _SETUP and message[8:12] == _ZERO:
        return Wire.REACTIVESOCKET_WITH_LENGTH
    return Wire.RSOCKET


def has_length(message: bytes) -> bool:
    """Return whether a message begins with its own length, as only on byte streams it should."""
    return len(message) >= _ENOUGH and int.from_bytes(message[:4], "big") == len(message)
