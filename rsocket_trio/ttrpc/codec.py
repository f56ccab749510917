"""Messages to bytes and back: `MessageCodec`, `BYTES`, `codec_for`.

The protocol carries bytes. Which messages they are is the business of an application, so this
package needs no protobuf: any class with ``SerializeToString`` and ``FromString`` will do, such as
those of protobuf and betterproto, and methods can carry plain bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import attrs

from ..codecs.protobuf import is_message_type

__all__ = ["BYTES", "EMPTY", "MessageCodec", "codec_for", "plain_bytes"]

T = TypeVar("T")


@attrs.frozen(eq=False)
class MessageCodec(Generic[T]):
    """How the messages of one type become bytes.

    Attributes:
        encode: Makes the bytes of a message. An exception fails the call.
        decode: Reads a message from bytes. An exception fails the call with INTERNAL.
        name: The type, for the texts of errors.
        message_type: The class of the messages, if there is one.
    """

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]
    name: str
    message_type: type | None = None


def plain_bytes(data: object) -> bytes:
    """Return what a codec has made of a message as plain bytes.

    The length of a memoryview, or of a subclass of bytes, need not be its number of bytes. A wrong
    length in a header would break the framing, for all calls of the connection.

    Raises:
        TypeError: It is no kind of bytes.
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"a message must be bytes here, not {type(data).__name__}")
    return bytes(data)


def _same(data: bytes) -> bytes:
    return data if type(data) is bytes else plain_bytes(data)


def _nothing(message: object) -> bytes:
    if message is not None:
        raise TypeError(f"a message must be None here, not {type(message).__name__}")
    return b""


def _none(_data: bytes) -> None:
    return None


BYTES: Final[MessageCodec[bytes]] = MessageCodec(_same, _same, "bytes", bytes)
"""Messages that stay bytes."""

EMPTY: Final[MessageCodec[None]] = MessageCodec(_nothing, _none, "None")
"""Messages without content, such as google.protobuf.Empty, as ``None``."""


def codec_for(annotation: Any) -> MessageCodec[Any]:
    """Return the codec for the annotation of a message.

    Args:
        annotation: ``bytes``; ``None`` for messages without content; or a class with
            ``SerializeToString`` and ``FromString``.

    Raises:
        TypeError: It is nothing of this kind.
    """
    if annotation is bytes:
        return BYTES
    if annotation is None or annotation is type(None):
        return EMPTY
    if is_message_type(annotation):
        message_type: Any = annotation
        encode: Callable[[Any], bytes] = _encoder(message_type)
        return MessageCodec(encode, message_type.FromString, annotation.__name__, annotation)
    if is_message_type(type(annotation)):  # its repr may be empty, or long
        name = type(annotation).__name__
        raise TypeError(f"an object of type {name} is no type of messages: use the class {name}")
    shown = annotation.__name__ if isinstance(annotation, type) else repr(annotation)
    raise TypeError(
        f"{shown} is not a type of messages: use bytes, None, or a class with SerializeToString "
        "and FromString, as protobuf generates them"
    )


def _encoder(message_type: Any) -> Callable[[Any], bytes]:
    serialize: Callable[[Any], bytes] = message_type.SerializeToString

    def encode(message: Any) -> bytes:
        if not isinstance(message, message_type):
            raise TypeError(
                f"a message must be {message_type.__name__} here, not {type(message).__name__}"
            )
        return serialize(message)

    return encode
