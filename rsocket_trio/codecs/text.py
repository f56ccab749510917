"""The codecs for plain text and for octets: `TextCodec`, `OctetStreamCodec`."""

from __future__ import annotations

from typing import Any, Literal

from .annotations import ANY, NONE, members_of
from .bounds import check_in
from .json import JsonCodec
from .mismatch import Mismatch, Unconvertible
from .models import Types

__all__ = ["OctetStreamCodec", "TextCodec"]


class TextCodec:
    """``text/plain``, in UTF-8, for people who type.

    A ``str``, or a value without a particular annotation, is the text as it is. All other types
    are read and written as JSON text, so that ``42`` or ``{"a": 1}`` can be typed.

    Args:
        rename: See `Codecs`.
        enums: See `Codecs`.
        types: See `Codecs`.
    """

    def __init__(
        self,
        *,
        rename: Literal["camel"] | None = None,
        enums: Literal["value", "name"] = "value",
        types: Types | None = None,
    ) -> None:
        self._json = JsonCodec(rename=rename, enums=enums, types=types)

    def check_decode(self, annotation: Any) -> None:
        """See `Codec.check_decode`."""
        self._json.check_decode(annotation)

    def check_encode(self, annotation: Any) -> None:
        """See `Codec.check_encode`."""
        self._json.check_encode(annotation)

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        if isinstance(value, str) and _takes_text(annotation):
            return _text_within(value, annotation).encode()
        if annotation not in ANY and _takes_text(annotation):
            return _no_text(value, annotation)
        return self._json.encode(value, annotation)

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        if _takes_text(annotation):
            return _text_within(data.decode(), annotation)
        return self._json.decode(data, annotation)


class OctetStreamCodec:
    """``application/octet-stream``: bytes as they are, str as UTF-8, and nothing else.

    A value without a particular annotation is read as bytes.
    """

    def check_decode(self, annotation: Any) -> None:
        """See `Codec.check_decode`."""
        if not _takes_text(annotation):
            raise Unconvertible("application/octet-stream is read and written as bytes or str only")
        check_in(annotation, str)

    check_encode = check_decode

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        if isinstance(value, str) and _takes_text(annotation):
            return _text_within(value, annotation).encode()
        if isinstance(value, bytes | bytearray | memoryview) and annotation in ANY:
            return bytes(value)
        if annotation not in ANY and _takes_text(annotation):
            return _no_text(value, annotation)
        raise TypeError(f"octets are written from bytes or str, not {type(value).__name__}")

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        if annotation in ANY:
            return data
        if _takes_text(annotation):
            return _text_within(data.decode(), annotation)
        raise Mismatch("octets are read as bytes or str only")


def _takes_text(annotation: Any) -> bool:
    """Whether the annotation is str, str | None, or allows anything."""
    members = set(members_of(annotation))
    return bool(members & {str, *ANY}) and members <= {str, None, NONE, *ANY}


def _text_within(text: str, annotation: Any) -> str:
    check_in(annotation, str)(text)
    return text


def _no_text(value: object, annotation: Any) -> bytes:
    # Empty data are read as None, so None is written as empty data.
    if value is None and annotation is not str:
        return b""
    raise TypeError(f"expected str, got {type(value).__name__}")
