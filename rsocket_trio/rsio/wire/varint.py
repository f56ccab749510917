"""Unsigned numbers with 7 bits in each octet, the lowest first (LEB128).

A number has the fewest octets that hold it, and at most nine, so it is from 0 to 2^63-1: the range
of demand in Reactive Streams.
"""

from __future__ import annotations

from typing import Final

from .violations import ProtocolViolation, ViolationCode

__all__ = ["MAX_VARINT", "MAX_VARINT_SIZE", "MalformedVarint", "encode_varint", "read_varint"]

MAX_VARINT: Final = 2**63 - 1
MAX_VARINT_SIZE: Final = 9
"""In octets."""


class MalformedVarint(ProtocolViolation):
    """Octets that are not a number: more than nine, or more than the number needs."""


_SMALL: Final = [bytes([number]) for number in range(128)]


def encode_varint(number: int) -> bytes:
    """Return the octets of a number.

    Raises:
        ValueError: It is negative, or more than 2^63-1.
    """
    if 0 <= number < 128:
        return _SMALL[number]
    if not 0 <= number <= MAX_VARINT:
        raise ValueError(f"{number} is not from 0 to 2**63-1")
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def read_varint(data: bytes | bytearray | memoryview, at: int = 0) -> tuple[int, int] | None:
    """Read a number.

    Args:
        data: Octets.
        at: Where the number begins.

    Returns:
        The number, and where the next field begins. ``None``: more octets are needed.

    Raises:
        MalformedVarint: The octets are not a number. It is raised at the earliest octet by which
            this is known: the ninth if it is not the last one, or a last octet of 0.
    """
    number = shift = 0
    for octet in data[at : at + MAX_VARINT_SIZE]:
        at += 1
        if octet < 128:
            if octet == 0 and shift:
                raise MalformedVarint(
                    ViolationCode.VARINT_NOT_MINIMAL, f"{number} has an octet too many"
                )
            return number | octet << shift, at
        number |= (octet & 127) << shift
        shift += 7
    if shift == 7 * MAX_VARINT_SIZE:
        raise MalformedVarint(
            ViolationCode.VARINT_TOO_LONG, f"a number has at most {MAX_VARINT_SIZE} octets"
        )
    return None
