"""The codec for ``application/vnd.google.protobuf``: `ProtobufCodec`.

It needs no package: it calls the methods that classes of messages have.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from .mismatch import Unconvertible

__all__ = ["MessageType", "ProtobufCodec", "is_message_type"]


@runtime_checkable
class MessageType(Protocol):
    """A class of messages, such as those that protoc and betterproto generate."""

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name that protobuf has
        """Return the message as bytes."""

    @classmethod
    def FromString(cls, data: bytes) -> Any:  # noqa: N802 - the name that protobuf has
        """Read a message from bytes."""


def is_message_type(annotation: object) -> bool:
    """Whether an annotation is a class of messages."""
    return (
        isinstance(annotation, type)
        and annotation is not MessageType
        and issubclass(annotation, MessageType)
    )


class ProtobufCodec:
    """``application/vnd.google.protobuf``: messages of protobuf, betterproto and the like."""

    def check_decode(self, annotation: Any) -> None:
        """See `Codec.check_decode`."""
        if not is_message_type(annotation):
            raise Unconvertible(f"{annotation!r} is no class of protobuf messages")

    check_encode = check_decode

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        if not is_message_type(type(value)):
            raise TypeError(f"{type(value).__name__} is no protobuf message")
        data: bytes = value.SerializeToString()
        return data

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        self.check_decode(annotation)
        return annotation.FromString(data)
