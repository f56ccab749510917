"""Messages as readable text, for the command line: one line, or a table of fields.

A message of a stream of elements of one size cannot be read without this size, which an earlier
message says. So there is a cutter for all of the input: `MessageCutter`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rsocket_trio.cutting import Incomplete
from rsocket_trio.errors import MalformedFrame

from ..limits import DEFAULT_LIMITS
from .decoder import MessageDecoder
from .messages import (
    Buffer,
    Cancel,
    ClientHello,
    Extension,
    Goodbye,
    Message,
    MessageType,
    OnComplete,
    OnError,
    OnNext,
    OnNextLastPart,
    OnNextPacked,
    OnNextPart,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)
from .varint import read_varint
from .violations import Handling, ProtocolViolation

__all__ = ["MessageCutter", "SizedMessage", "as_fields", "cut_frames", "describe", "frame_cutter"]

SHOWN_DATA: Final = 32
"""How many bytes of an element `describe` shows."""

SHOWN_TEXT: Final = 200
"""How many characters of a text `describe` shows."""

_NAMES: Final[dict[type[Message], str]] = {
    ClientHello: "clientHello",
    ServerHello: "serverHello",
    Goodbye: "goodbye",
    Subscribe: "subscribe",
    Request: "request",
    Cancel: "cancel",
    Subscribed: "subscribed",
    OnNext: "onNext",
    OnComplete: "onComplete",
    OnError: "onError",
    OnNextPacked: "onNextPacked",
    OnNextPart: "onNextPart",
    OnNextLastPart: "onNextLastPart",
    Extension: "extension",
}


class SizedMessage(bytes):
    """The bytes of a message, with what is needed to read them.

    Attributes:
        element_size: The size of the elements of its stream in bytes; 0 if they have different
            sizes, or if it has no stream.
    """

    element_size = 0


class MessageCutter:
    """Cuts bytes into messages, and remembers the sizes of elements that they declare.

    The ids of both directions are taken for one space: the input does not say who sent what.
    """

    def __init__(self) -> None:
        self._sizes: Final[dict[int, int]] = {}

    def __call__(self, data: bytes) -> Iterator[bytes | ValueError]:
        """Yield the messages; an error for the rest, if it is not a message.

        Bytes that begin with an element of a stream that no message has declared, and that cannot
        be read otherwise, are taken for one message of a stream of elements of one size.
        """
        found = list(self.cut(data))
        if isinstance(found[-1], ValueError):
            # An element with a length that is cut off is just that.
            cut_off = len(found) == 1 and data[:1] == b"\x21"
            size = 0 if cut_off else self._guessed_size(data)
            if size:
                found = [_sized(data, size)]
        return iter(found)

    def cut(self, data: bytes) -> Iterator[bytes | ValueError]:
        """Yield the messages; an error for the rest, if it is not a message."""
        decoder = MessageDecoder(DEFAULT_LIMITS, self._size_of)
        decoder.feed(data)
        begin = 0
        while True:
            try:
                message = decoder.next_message()
            except ProtocolViolation as violation:
                yield ValueError(_text(violation))
                return
            end = len(data) - decoder.unread
            if message is None or decoder.inside:
                rest = len(data) - begin
                yield Incomplete(f"incomplete message: {rest} bytes", rest=rest)
                return
            if isinstance(message, Subscribed):
                self._sizes[message.subscriber] = message.element_size
            size = 0
            if isinstance(message, OnNext | OnNextPacked):
                size = self._size_of(message.subscriber)
            yield _sized(data[begin:end], size)
            begin = end
            if begin == len(data):
                return

    def _size_of(self, subscriber: int) -> int:
        return self._sizes.get(subscriber, 0)

    def _guessed_size(self, data: bytes) -> int:
        """Return the size that makes the bytes one message, or 0."""
        if data[:1] not in (b"\x21", b"\x24"):
            return 0
        try:
            found = read_varint(data, 1)
            if found is None or found[0] in self._sizes:
                return 0
            count, at = 1, found[1]
            if data[0] == MessageType.ON_NEXT_PACKED:
                found = read_varint(data, at)
                if found is None or found[0] == 0:
                    return 0
                count, at = found
        except ProtocolViolation:
            return 0
        size, rest = divmod(len(data) - at, count)
        return 0 if rest else size


def frame_cutter() -> MessageCutter:
    """Return what cuts all arguments of one command, in their order."""
    return MessageCutter()


def cut_frames(data: bytes) -> Iterator[bytes | ValueError]:
    """Cut bytes into messages, and yield them; an error for the rest, if it is not a message.

    Args:
        data: One or more messages, one behind the other.
    """
    return MessageCutter()(data)


def as_fields(frame: bytes) -> dict[str, object]:
    """Return the message as a table of plain values, suitable for JSON.

    Args:
        frame: One whole message; a `SizedMessage` if its stream has elements of one size.

    Returns:
        ``message``, its name, and its fields by the names of the draft. Bytes are hexadecimal text.

    Raises:
        MalformedFrame: The bytes are not one message.
    """
    return _fields(_decoded(frame))


def describe(frame: bytes) -> str:
    """Return one line about a message. Never raises.

    Texts and elements are shortened and escaped.

    Args:
        frame: One message, or any other bytes.
    """
    try:
        message = _decoded(frame)
    except MalformedFrame as problem:
        return f"malformed ({problem}): {len(frame)} bytes, {frame[:8].hex(' ')}"
    words = [_NAMES[type(message)]]
    if isinstance(message, OnNextPacked):
        block = bytes(message.elements)
        words += (f"subscriber={message.subscriber}", f"count={message.count}")
        words += (f"elementSize={message.element_size}", _shown("elements", block))
        return " ".join(words)
    for name, value in _fields(message).items():
        if name in ("element", "data", "content") and isinstance(value, str):
            words.append(_shown(name, bytes.fromhex(value)))
        elif isinstance(value, str) and name != "message":
            words.append(f"{name}={value[:SHOWN_TEXT]!r}{'...' * (len(value) > SHOWN_TEXT)}")
        elif name != "message":
            words.append(f"{name}={value}")
    return " ".join(words)


def _fields(message: Message) -> dict[str, object]:
    table: dict[str, object] = {"message": _NAMES[type(message)]}
    match message:
        case ClientHello(version, extensions) | ServerHello(version, extensions):
            table |= {"version": version, "extensions": list(extensions)}
        case Goodbye(reason):
            table["reason"] = reason
        case Subscribe(publisher, subscriber, demand):
            table |= {"publisher": publisher, "subscriber": subscriber, "initialDemand": demand}
        case Request(subscriber, demand):
            table |= {"subscriber": subscriber, "demand": demand}
        case Cancel(subscriber) | OnComplete(subscriber):
            table["subscriber"] = subscriber
        case Subscribed(subscriber, size):
            table |= {"subscriber": subscriber, "elementSize": size}
        case OnNext(subscriber, element):
            table |= {"subscriber": subscriber, "element": element.hex()}
        case OnError(subscriber, error):
            table |= {"subscriber": subscriber, "error": error}
        case OnNextPacked(subscriber, _, elements, size):
            table |= {"subscriber": subscriber, "elements": _cut_block(elements, size)}
        case OnNextPart(subscriber, element_id, data) | OnNextLastPart(
            subscriber, element_id, data
        ):
            table |= {"subscriber": subscriber, "element": element_id, "data": data.hex()}
        case Extension(code, content):
            table |= {"type": code, "content": content.hex()}
    return table


def _decoded(frame: bytes) -> Message:
    size = frame.element_size if isinstance(frame, SizedMessage) else 0
    decoder = MessageDecoder(DEFAULT_LIMITS, lambda _: size)
    decoder.feed(bytes(frame))
    try:
        message = decoder.next_message()
    except ProtocolViolation as violation:
        raise MalformedFrame(_text(violation)) from None
    if message is None or decoder.inside:
        raise MalformedFrame(f"incomplete message: {len(frame)} bytes")
    if decoder.unread:
        raise MalformedFrame(f"{decoder.unread} bytes follow the message")
    return message


def _sized(data: bytes, size: int) -> SizedMessage:
    message = SizedMessage(data)
    message.element_size = size
    return message


def _text(violation: ProtocolViolation) -> str:
    mismatch = violation.handling is Handling.VERSION_MISMATCH
    return violation.reason if mismatch else str(violation)


def _cut_block(block: Buffer, size: int) -> list[str]:
    return [block[at : at + size].hex() for at in range(0, len(block), size)]


def _shown(name: str, data: bytes) -> str:
    return f"{name}={len(data)} bytes {data[:SHOWN_DATA]!r}{'...' * (len(data) > SHOWN_DATA)}"
