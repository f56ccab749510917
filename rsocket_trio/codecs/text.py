"""The codecs for plain text and for octets: `TextCodec`, `OctetStreamCodec`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .annotations import ANY, NONE, OCTETS, members_of
from .bounds import check_in
from .json import JsonCodec
from .mismatch import Mismatch, Unconvertible

__all__ = ["OctetStreamCodec", "TextCodec"]


class TextCodec(JsonCodec):
    """``text/plain``, in UTF-8, for people who type.

    A ``str``, or a value without a particular annotation, is the text as it is. All other types
    are read and written as JSON text, so that ``42`` or ``{"a": 1}`` can be typed. The arguments
    are those of `JsonCodec`.
    """

    def _encoder(self, annotation: Any) -> Callable[[Any], bytes]:
        write = super()._encoder(annotation)
        return _text_writer(annotation, write) if _takes_text(annotation) else write

    def _decoder(self, annotation: Any) -> Callable[[bytes], object]:
        read = super()._decoder(annotation)
        return _text_reader(annotation) if _takes_text(annotation) else read


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
        if _takes_text(annotation):
            return _text_writer(annotation, _octets)(value)
        raise _no_octets(value)

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        if annotation in ANY:
            return data
        if _takes_text(annotation):
            return _text_reader(annotation)(data)
        raise Mismatch("octets are read as bytes or str only")


def _octets(value: object) -> bytes:
    if isinstance(value, OCTETS):
        return bytes(value)
    raise _no_octets(value)


def _no_octets(value: object) -> Mismatch:
    return Mismatch.of("bytes or str, as which alone octets are written", value)


def _takes_text(annotation: Any) -> bool:
    """Whether the annotation is str, str | None, or allows anything."""
    members = set(members_of(annotation))
    return bool(members & {str, *ANY}) and members <= {str, NONE, *ANY}


def _text_reader(annotation: Any) -> Callable[[bytes], str]:
    check = check_in(annotation, str)

    def read(data: bytes) -> str:
        text = data.decode()
        check(text)
        return text

    return read


def _text_writer(annotation: Any, write_other: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Return a writer of text; ``write_other`` is for other values, if they are allowed."""
    check, members = check_in(annotation, str), members_of(annotation)

    def write(value: Any) -> bytes:
        if isinstance(value, str):
            check(value)
            return value.encode()
        if value is None and NONE in members:
            return b""  # which is read as None
        if set(ANY).isdisjoint(members):
            raise Mismatch.of("str", value)
        return write_other(value)

    return write
