"""The messages of rsio, and to bytes: `encode`.

A message is its type, one octet, and its fields in order. A field is a varint, or octets behind
their number, or octets whose number is known: the elements of a stream of elements of one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, TypeAlias

import attrs

from .varint import encode_varint

__all__ = [
    "FIRST_EXTENSION_TYPE",
    "LAST_EXTENSION_TYPE",
    "VERSION",
    "Buffer",
    "Cancel",
    "ClientHello",
    "Extension",
    "Goodbye",
    "Message",
    "MessageType",
    "OnComplete",
    "OnError",
    "OnNext",
    "OnNextLastPart",
    "OnNextPacked",
    "OnNextPart",
    "Request",
    "ServerHello",
    "Subscribe",
    "Subscribed",
    "encode",
    "encode_elements",
    "encode_packed_header",
    "truncated",
]

VERSION: Final = 0
"""The version of the protocol that this package speaks."""

FIRST_EXTENSION_TYPE: Final = 0x40
LAST_EXTENSION_TYPE: Final = 0x7F

Buffer: TypeAlias = bytes | bytearray | memoryview


class MessageType(IntEnum):
    """The first octet of each message. The types of extensions are 0x40 to 0x7f."""

    CLIENT_HELLO = 0x01
    SERVER_HELLO = 0x02
    GOODBYE = 0x03
    SUBSCRIBE = 0x10
    REQUEST = 0x11
    CANCEL = 0x12
    SUBSCRIBED = 0x20
    ON_NEXT = 0x21
    ON_COMPLETE = 0x22
    ON_ERROR = 0x23
    ON_NEXT_PACKED = 0x24
    ON_NEXT_PART = 0x25
    ON_NEXT_LAST_PART = 0x26


@attrs.define
class ClientHello:
    """The first message of the side that opened the connection.

    The extensions of another version than 0 are not read, and are empty here.
    """

    version: int
    extensions: tuple[int, ...] = ()


@attrs.define
class ServerHello:
    """The first message of the other side."""

    version: int
    extensions: tuple[int, ...] = ()


@attrs.define
class Goodbye:
    """The last message of a side."""

    reason: str


@attrs.define
class Subscribe:
    """A subscriber asks for a stream, and chooses the id of the stream."""

    publisher: str
    subscriber: int
    initial_demand: int = 0


@attrs.define
class Request:
    """A subscriber asks for more elements."""

    subscriber: int
    demand: int


@attrs.define
class Cancel:
    """A subscriber wants no more."""

    subscriber: int


@attrs.define
class Subscribed:
    """The first message of a publisher to a subscriber.

    With a size that is not 0, all elements of the stream have this size, in bytes.
    """

    subscriber: int
    element_size: int = 0


@attrs.define
class OnNext:
    """One element."""

    subscriber: int
    element: Buffer


@attrs.define
class OnComplete:
    """The end of a stream."""

    subscriber: int


@attrs.define
class OnError:
    """The failure of a stream."""

    subscriber: int
    error: str


@attrs.define
class OnNextPacked:
    """Several elements of one size, one behind the other.

    A decoder gives those of one message in several of these, as they arrive.
    """

    subscriber: int
    count: int
    elements: Buffer
    element_size: int


@attrs.define
class OnNextPart:
    """A part of an element, not the last."""

    subscriber: int
    element_id: int
    data: Buffer


@attrs.define
class OnNextLastPart:
    """The last part of an element."""

    subscriber: int
    element_id: int
    data: Buffer


@attrs.define
class Extension:
    """A message of an extension."""

    type: int
    content: Buffer


Message: TypeAlias = (
    ClientHello
    | ServerHello
    | Goodbye
    | Subscribe
    | Request
    | Cancel
    | Subscribed
    | OnNext
    | OnComplete
    | OnError
    | OnNextPacked
    | OnNextPart
    | OnNextLastPart
    | Extension
)


def encode(message: Message, *, element_size: int = 0) -> bytes:
    """Return the octets of a message.

    Args:
        message: The message.
        element_size: For an `OnNext`: the size of the elements of its stream in bytes, or 0 if the
            elements have different sizes.

    Raises:
        ValueError: A number is not from 0 to 2^63-1, an element does not have the size of its
            stream, a packed message has no element or not as many octets as its elements need, a
            type is none of an extension, or a text cannot be encoded.
    """
    number = encode_varint
    match message:
        case ClientHello(version, extensions):
            return b"\x01" + _hello(version, extensions)
        case ServerHello(version, extensions):
            return b"\x02" + _hello(version, extensions)
        case Goodbye(reason):
            return b"\x03" + _sized(reason.encode())
        case Subscribe(publisher, subscriber, demand):
            return b"\x10" + _sized(publisher.encode()) + number(subscriber) + number(demand)
        case Request(subscriber, demand):
            return b"\x11" + number(subscriber) + number(demand)
        case Cancel(subscriber):
            return b"\x12" + number(subscriber)
        case Subscribed(subscriber, size):
            return b"\x20" + number(subscriber) + number(size)
        case OnNext(subscriber, element):
            return encode_elements(subscriber, [element], element_size)
        case OnComplete(subscriber):
            return b"\x22" + number(subscriber)
        case OnError(subscriber, error):
            return b"\x23" + number(subscriber) + _sized(error.encode())
        case OnNextPacked(subscriber, count, elements, size):
            if count < 1 or size < 1 or len(elements) != count * size:
                raise ValueError(
                    f"{count} elements of {size} bytes cannot be packed into {len(elements)} bytes"
                )
            return encode_packed_header(subscriber, count) + elements
        case OnNextPart(subscriber, element_id, data):
            return b"\x25" + number(subscriber) + number(element_id) + _sized(data)
        case OnNextLastPart(subscriber, element_id, data):
            return b"\x26" + number(subscriber) + number(element_id) + _sized(data)
        case Extension(type=code, content=content):
            if not FIRST_EXTENSION_TYPE <= code <= LAST_EXTENSION_TYPE:
                raise ValueError(f"0x{code:02x} is not the type of a message of an extension")
            return bytes([code]) + _sized(content)


def encode_packed_header(subscriber: int, count: int) -> bytes:
    """Return the octets of an onNextPacked before its elements."""
    return b"\x24" + encode_varint(subscriber) + encode_varint(count)


def encode_elements(subscriber: int, elements: Sequence[Buffer], element_size: int = 0) -> bytes:
    """Return the octets of one onNext for each element.

    Args:
        subscriber: The id of the stream.
        elements: The elements.
        element_size: The size of all of them in bytes, or 0.

    Raises:
        ValueError: An element does not have this size.
    """
    prefix = b"\x21" + encode_varint(subscriber)
    parts: list[Buffer] = []
    if element_size:
        for element in elements:
            if len(element) != element_size:
                raise ValueError(
                    f"an element has {len(element)} bytes, but those of its stream {element_size}"
                )
            parts += (prefix, element)
        return b"".join(parts)
    size = -1
    head = b""
    for element in elements:
        if len(element) != size:
            size = len(element)
            head = prefix + encode_varint(size)
        parts += (head, element)
    return b"".join(parts)


def truncated(text: str, size: int) -> str:
    """Return the text, or as much of its beginning as has at most ``size`` bytes in UTF-8."""
    octets = text.encode("utf-8", "replace")
    return octets[:size].decode("utf-8", "ignore")


def _hello(version: int, extensions: Sequence[int]) -> bytes:
    fields = (version, len(extensions), *extensions)
    return b"".join(map(encode_varint, fields))


def _sized(octets: Buffer) -> bytes:
    return encode_varint(len(octets)) + octets
