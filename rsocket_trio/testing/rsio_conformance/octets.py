"""Messages of rsio/0 as octets, written by hand: one function for each message.

This codec shares nothing with the one of the library, so that no fault is in both. It also writes
what no correct peer sends: any type, any length, varints that are longer than they need be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = [
    "HIGHEST",
    "blob",
    "cancel",
    "client_hello",
    "complete",
    "error",
    "extension",
    "goodbye",
    "last_part",
    "next_fixed",
    "next_sized",
    "packed",
    "part",
    "request",
    "server_hello",
    "subscribe",
    "subscribed",
    "varint",
]

HIGHEST: Final = 2**63 - 1
"""The highest number: of a subscriber, an element, and of demand."""


def varint(number: int) -> bytes:
    """Return the shortest unsigned LEB128 of a number."""
    octets = bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def blob(content: bytes | str) -> bytes:
    """Return octets, or text as UTF-8, behind their length."""
    octets = content.encode() if isinstance(content, str) else content
    return varint(len(octets)) + octets


def client_hello(version: int = 0, extensions: Iterable[int] = ()) -> bytes:
    """Return the first message of a client."""
    return b"\x01" + _hello(version, extensions)


def server_hello(version: int = 0, extensions: Iterable[int] = ()) -> bytes:
    """Return the first message of a server."""
    return b"\x02" + _hello(version, extensions)


def _hello(version: int, extensions: Iterable[int]) -> bytes:
    ids = [varint(each) for each in extensions]
    return varint(version) + varint(len(ids)) + b"".join(ids)


def goodbye(reason: bytes | str = "") -> bytes:
    """Return the last message of a party."""
    return b"\x03" + blob(reason)


def subscribe(publisher: bytes | str, subscriber: int, demand: int = 0) -> bytes:
    """Return the message that opens a stream."""
    return b"\x10" + blob(publisher) + varint(subscriber) + varint(demand)


def request(subscriber: int, demand: int) -> bytes:
    """Return the message that adds demand."""
    return b"\x11" + varint(subscriber) + varint(demand)


def cancel(subscriber: int) -> bytes:
    """Return the message that ends a stream from the side of its subscriber."""
    return b"\x12" + varint(subscriber)


def subscribed(subscriber: int, element_size: int = 0) -> bytes:
    """Return the first answer to a subscribe."""
    return b"\x20" + varint(subscriber) + varint(element_size)


def next_sized(subscriber: int, element: bytes) -> bytes:
    """Return an element of a stream whose elements have any size."""
    return b"\x21" + varint(subscriber) + blob(element)


def next_fixed(subscriber: int, element: bytes) -> bytes:
    """Return an element of a stream with fixed-size elements: no length precedes it."""
    return b"\x21" + varint(subscriber) + element


def complete(subscriber: int) -> bytes:
    """Return the orderly end of a stream."""
    return b"\x22" + varint(subscriber)


def error(subscriber: int, text: bytes | str = "") -> bytes:
    """Return the failure of a stream."""
    return b"\x23" + varint(subscriber) + blob(text)


def packed(subscriber: int, count: int, elements: bytes) -> bytes:
    """Return several fixed-size elements in one message."""
    return b"\x24" + varint(subscriber) + varint(count) + elements


def part(subscriber: int, element: int, data: bytes) -> bytes:
    """Return a part of a split element that is not its last."""
    return b"\x25" + varint(subscriber) + varint(element) + blob(data)


def last_part(subscriber: int, element: int, data: bytes) -> bytes:
    """Return the last part of a split element."""
    return b"\x26" + varint(subscriber) + varint(element) + blob(data)


def extension(kind: int, content: bytes) -> bytes:
    """Return a message of an extension: ``kind`` is 0x40 to 0x7f."""
    return bytes([kind]) + blob(content)
