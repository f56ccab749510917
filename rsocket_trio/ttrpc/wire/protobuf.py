"""As much of protobuf as the envelopes need: `FieldReader`, and functions that write fields.

The sections named here are of "Encoding", https://protobuf.dev/programming-guides/encoding/.

A message is a sequence of fields. Before each one stands its tag: a number, and a wire type, which
says how long the field is. So a reader can skip fields that it does not know.
"""

from __future__ import annotations

from typing import Final

from rsocket_trio.errors import MalformedFrame

__all__ = ["MAX_DEPTH", "FieldReader", "field", "only_field", "read_varint", "varint"]

MAX_DEPTH: Final = 100
"""How deep groups may be nested that are skipped. Other implementations have this limit too."""

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

_LAST_NUMBER: Final = 2**29 - 1
_FIXED: Final = {FIXED64: 8, FIXED32: 4}
_ONE_BYTE: Final = tuple(bytes([value]) for value in range(128))


def varint(value: int) -> bytes:
    """Return a number as a varint: seven bits in each byte, the lowest ones first.

    Args:
        value: From -2**63 to 2**64 - 1. Negative numbers have ten bytes ("More Integer Types").
    """
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if 0 <= value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    value &= 2**64 - 1
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


def field(number: int, data: bytes) -> bytes:
    """Return a field of bytes, a string or a message.

    Args:
        number: From 1 to 15, so that the tag has one byte.
        data: Its bytes.
    """
    return b"%c%b%b" % (number << 3 | BYTES, varint(len(data)), data)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a varint; return its value and the position behind it.

    Raises:
        IndexError: The data ends before the varint does.
        ValueError: It has more than 64 bits. So it has at most ten bytes ("Base 128 Varints"), and
            the tenth one is 1 at most.
    """
    value = shift = 0
    for byte in data[position : position + 10]:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            if value >> 64:
                break
            return value, position + shift // 7
    if shift < 70:
        raise IndexError("a varint is cut off")
    raise ValueError("a varint is longer than 64 bits")


def only_field(data: bytes, start: int, tag: int) -> bytes | None:
    """Return the contents of the one field behind ``start``, if it is the whole rest of ``data``.

    It compares the length that such a field must have, so it reads no varint.

    Args:
        data: Any bytes.
        start: Where the field begins. If nothing is there, the contents are empty: proto3 sends no
            empty field.
        tag: The tag: a field of bytes, with a number up to 15.

    Returns:
        The contents; ``None`` if there is something else, or more than 16383 bytes.
    """
    size = len(data) - start
    if size < 130:
        if size > 1 and data[start] == tag and data[start + 1] == size - 2:
            return data[start + 2 :]
        return None if size else b""
    size -= 3
    if (
        size < 1 << 14
        and data[start] == tag
        and data[start + 1] == size & 127 | 128
        and data[start + 2] == size >> 7
    ):
        return data[start + 3 :]
    return None


class FieldReader:
    """Reads the fields of a message, and of the messages in it.

    `next` goes to the next field. Then exactly one of `varint`, `int32`, `int64`, `blob`, `text`,
    `enter` and `skip` reads it. All of them raise `MalformedFrame`.

    Args:
        data: The bytes of the message.
        name: What error texts call it.
        max_fields: How many fields there may be, in all: the smallest has two bytes, and each takes
            the time of a call.

    Attributes:
        size: The number of bytes in the field that `enter` entered last.
    """

    __slots__ = ("_data", "_end", "_left", "_name", "_number", "_position", "_type", "size")

    def __init__(self, data: bytes, name: str, max_fields: int) -> None:
        self._data: Final = data
        self._name: Final = name
        self._end = len(data)
        self._left = max_fields
        self._position = 0
        self._number = 0
        self._type = 0
        self.size = 0

    def next(self) -> int:
        """Go to the next field, and return its number; 0 at the end of the message."""
        position = self._position
        if position == self._end:
            return 0
        if not self._left:
            raise self._error("too many fields")
        self._left -= 1
        tag = self._data[position]
        if tag < 128:
            self._position = position + 1
        else:
            tag = self._varint()
        self._number = tag >> 3
        self._type = tag & 7
        if not 0 < self._number <= _LAST_NUMBER:
            raise self._error(f"{self._number} is no field number")
        if self._type > FIXED32:
            raise self._error(f"{self._type} is no wire type")
        return self._number

    def varint(self, name: str) -> int:
        """Return a field that is a number: from 0 to 2**64 - 1."""
        self._expect(VARINT, name)
        return self._varint()

    def int32(self, name: str) -> int:
        """Return a number of the type int32: of longer ones the upper bits are cut off."""
        value = self.varint(name) & (2**32 - 1)
        return value - 2**32 if value >= 2**31 else value

    def int64(self, name: str) -> int:
        """Return a number of the type int64."""
        value = self.varint(name)
        return value - 2**64 if value >= 2**63 else value

    def blob(self, name: str) -> bytes:
        """Return a field of bytes."""
        self._expect(BYTES, name)
        stop = self._stop()
        data = self._data[self._position : stop]
        self._position = stop
        return data

    def text(self, name: str) -> str:
        """Return a field that is a string: UTF-8."""
        data = self.blob(name)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise self._error(f"{name} is a string that is not UTF-8") from None

    def enter(self, name: str) -> int:
        """Enter a message: `next` returns its fields, and 0 at its end.

        Returns:
            What to give to `leave` at its end.
        """
        self._expect(BYTES, name)
        stop = self._stop()
        outer = self._end
        self._end = stop
        self.size = stop - self._position
        return outer

    def leave(self, outer: int) -> None:
        """Go on in the message around this one, whose `next` has returned 0."""
        self._end = outer

    def skip(self) -> None:
        """Skip a field that is not known."""
        if self._type == START_GROUP:
            self._skip_group()
        else:
            self._skip_value()

    def _skip_value(self) -> None:
        if self._type == VARINT:
            self._varint()
        elif self._type == BYTES:
            self._position = self._stop()
        elif self._type == END_GROUP:
            raise self._error("a group ends that did not begin")
        else:
            size = _FIXED[self._type]
            if size > self._end - self._position:
                raise self._error(f"field {self._number} is cut off")
            self._position += size

    def _skip_group(self) -> None:
        groups = [self._number]
        while groups:
            if not self.next():
                raise self._error(f"the group {groups[-1]} has no end")
            if self._type == START_GROUP:
                if len(groups) == MAX_DEPTH:
                    raise self._error(f"groups are nested deeper than {MAX_DEPTH}")
                groups.append(self._number)
            elif self._type == END_GROUP and self._number == groups[-1]:
                groups.pop()
            else:
                self._skip_value()

    def _expect(self, wire_type: int, name: str) -> None:
        if self._type != wire_type:
            raise self._error(f"{name} has the wire type {self._type} instead of {wire_type}")

    def _stop(self) -> int:
        """Read a length; return the position behind that many bytes."""
        position = self._position
        if position < self._end and (size := self._data[position]) < 128:
            self._position = position + 1
        else:
            size = self._varint()
        left = self._end - self._position
        if size > left:
            raise self._error(f"field {self._number} has {size} bytes, but {left} are left")
        return self._position + size

    def _varint(self) -> int:
        try:
            value, position = read_varint(self._data, self._position)
        except (IndexError, ValueError) as error:
            raise self._error(str(error)) from None
        if position > self._end:
            raise self._error("a varint is cut off")
        self._position = position
        return value

    def _error(self, text: str) -> MalformedFrame:
        return MalformedFrame(f"{self._name}, byte {self._position}: {text}")
