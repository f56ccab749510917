"""Write WebSocket messages, sans-IO: `encode_messages`; and mask them: `masked`.

`rsocket_trio.transports.websocket_reader` reads them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from struct import Struct
from typing import Final

from wsproto.frame_protocol import XorMaskerSimple

__all__ = ["MASK", "WHOLE_BINARY", "encode_messages", "masked"]

WHOLE_BINARY: Final = 0x82
"""The first byte of a binary message in one frame: FIN and opcode (RFC 6455, section 5.2)."""

MASK: Final = 0x80
"""A bit of the second byte: a key follows the length, and masks the payload behind the key."""

# First byte, mask bit and length, then 0, 2 or 8 more bytes of length.
_SHORT: Final = Struct(">BB").pack
_MEDIUM: Final = Struct(">BBH").pack
_LONG: Final = Struct(">BBQ").pack


def encode_messages(messages: Sequence[bytes], *, mask: bool) -> list[bytes]:
    """Encode each message as one binary frame.

    Args:
        messages: The messages to send.
        mask: True on a client: clients mask, servers do not (section 5.1).

    Returns:
        The pieces to send, in order.
    """
    pieces: list[bytes] = []
    # Section 5.3: a fresh key from a strong source for every frame; one system call for all.
    keys = os.urandom(4 * len(messages)) if mask else b""
    bit = MASK if mask else 0
    position = 0
    for message in messages:
        size = len(message)
        if size < 126:
            pieces.append(_SHORT(WHOLE_BINARY, bit | size))
        elif size < 65536:
            pieces.append(_MEDIUM(WHOLE_BINARY, bit | 126, size))
        else:
            pieces.append(_LONG(WHOLE_BINARY, bit | 127, size))
        if mask:
            key = keys[position : position + 4]
            position += 4
            pieces.append(key)
            pieces.append(masked(message, key, size))
        else:
            pieces.append(message)
    return pieces


_SMALL: Final = 1024
_ONES: Final = tuple(
    int.from_bytes(b"\1\0\0\0" * words, "little") for words in range(_SMALL // 4 + 1)
)
"""A key as a number, times entry n of this table, is the key repeated n times."""


def masked(data: bytes, key: bytes, size: int) -> bytes:
    """Return ``data`` with its mask added or removed."""
    if size > _SMALL:
        return bytes(XorMaskerSimple(key).process(bytearray(data)))
    # For small messages, arithmetic with one long number takes half the time.
    if size & 3:
        stretched = int.from_bytes(key * (size >> 2) + key[: size & 3], "little")
    else:
        stretched = int.from_bytes(key, "little") * _ONES[size >> 2]
    return (int.from_bytes(data, "little") ^ stretched).to_bytes(size, "little")
