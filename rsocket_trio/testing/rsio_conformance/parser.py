"""Octets of a connection into messages, as strictly as the binding reads them: `Parser`.

It looks again at a whole message when more octets arrive: slow for large ones, and simple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

__all__ = ["NAMES", "Malformed", "Message", "Parser"]

NAMES: Final = {
    0x01: "clientHello",
    0x02: "serverHello",
    0x03: "goodbye",
    0x10: "subscribe",
    0x11: "request",
    0x12: "cancel",
    0x20: "subscribed",
    0x21: "onNext",
    0x22: "onComplete",
    0x23: "onError",
    0x24: "onNextPacked",
    0x25: "onNextPart",
    0x26: "onNextLastPart",
}
_EXTENSIONS: Final = range(0x40, 0x80)
_LIMIT: Final = 64 << 20


class Malformed(Exception):
    """The octets are no message of rsio/0."""


class _Incomplete(Exception):
    """The rest of the message has not arrived."""


@attrs.frozen(kw_only=True)
class Message:
    """One message.

    Attributes:
        name: Its name in the draft, or "extension".
        id: The subscriber; of an extension its type; else 0.
        number: The version, demand, element size, count of elements or element id.
        numbers: The extensions that a hello lists.
        text: The publisher, reason or error.
        data: The element, elements or part.
        raw: All octets of the message.
    """

    name: str
    id: int = 0
    number: int = 0
    numbers: tuple[int, ...] = ()
    text: str = ""
    data: bytes = b""
    raw: bytes = b""


class Parser:
    """Makes messages of octets.

    Args:
        element_size: Returns the element size of a subscriber: 0 for elements of any size. It may
            raise `Malformed` for one that it does not know.
        limit: The highest length, in octets or items. A higher one is refused before its content
            has arrived.
    """

    def __init__(self, element_size: Callable[[int], int], *, limit: int = _LIMIT) -> None:
        self._element_size = element_size
        self._limit = limit
        self._buffer = bytearray()
        self._start = 0

    @property
    def rest(self) -> bytes:
        """The octets that are no whole message yet."""
        return bytes(self._buffer[self._start :])

    def feed(self, octets: bytes) -> None:
        """Add octets."""
        del self._buffer[: self._start]
        self._start = 0
        self._buffer += octets

    def next(self) -> Message | None:
        """Return the next message, or ``None`` if it has not arrived as a whole.

        Raises:
            Malformed: It breaks a rule of the serialization.
        """
        if self._start == len(self._buffer):
            return None
        cursor = _Cursor(self._buffer, self._start, self._limit)
        try:
            message = self._read(cursor)
        except _Incomplete:
            return None
        raw = bytes(self._buffer[self._start : cursor.at])
        self._start = cursor.at
        return attrs.evolve(message, raw=raw)

    def _read(self, cursor: _Cursor) -> Message:
        kind = cursor.octet()
        if kind in _EXTENSIONS:
            return Message(name="extension", id=kind, data=cursor.blob())
        if kind not in NAMES:
            raise Malformed(f"there is no message of type 0x{kind:02x}")
        name = NAMES[kind]
        if name in {"clientHello", "serverHello"}:
            version = cursor.varint()
            numbers = tuple(cursor.varint() for _ in range(cursor.length()))
            return Message(name=name, number=version, numbers=numbers)
        if name == "goodbye":
            return Message(name=name, text=cursor.blob().decode(errors="replace"))
        if name == "subscribe":
            text = _strict(cursor.blob())
            return Message(name=name, text=text, id=cursor.varint(), number=cursor.varint())
        return self._read_stream(cursor, name, cursor.varint())

    def _read_stream(self, cursor: _Cursor, name: str, subscriber: int) -> Message:
        if name in {"cancel", "onComplete"}:
            return Message(name=name, id=subscriber)
        if name == "request":
            return Message(name=name, id=subscriber, number=cursor.varint())
        if name == "subscribed":
            return Message(name=name, id=subscriber, number=cursor.length())
        if name == "onError":
            return Message(name=name, id=subscriber, text=cursor.blob().decode(errors="replace"))
        if name in {"onNextPart", "onNextLastPart"}:
            return Message(name=name, id=subscriber, number=cursor.varint(), data=cursor.blob())
        size = self._element_size(subscriber)
        if name == "onNext":
            data = cursor.take(size) if size else cursor.blob()
            return Message(name=name, id=subscriber, data=data)
        count = cursor.varint()
        if not count:
            raise Malformed("onNextPacked has no elements")
        if not size:
            raise Malformed(f"onNextPacked for {subscriber}, whose elements have no fixed size")
        return Message(name=name, id=subscriber, number=count, data=cursor.take(count * size))


def _strict(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise Malformed(f"a publisher name is not UTF-8: {octets.hex()}") from None


class _Cursor:
    """Reads fields from a place in a buffer."""

    def __init__(self, buffer: bytearray, at: int, limit: int) -> None:
        self._buffer = buffer
        self._limit = limit
        self.at = at

    def octet(self) -> int:
        if self.at >= len(self._buffer):
            raise _Incomplete
        self.at += 1
        return self._buffer[self.at - 1]

    def varint(self) -> int:
        value = 0
        for index in range(9):
            octet = self.octet()
            value |= (octet & 0x7F) << (7 * index)
            if octet < 0x80:
                if not octet and index:
                    raise Malformed("a varint is longer than it need be")
                return value
        raise Malformed("a varint has more than 9 octets")

    def length(self) -> int:
        return self._within(self.varint())

    def _within(self, length: int) -> int:
        if length > self._limit:
            raise Malformed(f"a length of {length} is above the limit {self._limit}")
        return length

    def take(self, size: int) -> bytes:
        if self._within(size) > len(self._buffer) - self.at:
            raise _Incomplete
        self.at += size
        return bytes(self._buffer[self.at - size : self.at])

    def blob(self) -> bytes:
        return self.take(self.length())
