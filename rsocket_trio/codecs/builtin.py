"""The codecs that are built in: CBOR, JSON, plain text, octet streams."""

from __future__ import annotations

import json
import types
import typing
from io import BytesIO
from typing import Any, Final

import cbor2

from .structure import json_converter, strict_converter

__all__ = ["CborCodec", "JsonCodec", "OctetStreamCodec", "TextCodec"]

_ANY: Final = (Any, object)


def _refuse(*_: object) -> typing.NoReturn:
    raise ValueError("this tag is not accepted from a peer")


_REFUSED_TAGS: Final = {
    # Shared values: a few bytes would stand for a value that refers to itself, or whose parts
    # are exponentially many.
    28: _refuse,
    29: _refuse,
    # Regular expressions and MIME messages: nobody asked us to run their compilers.
    35: _refuse,
    36: _refuse,
}
_MAX_DEPTH: Final = 200
"""Of nested CBOR containers: deeper than data are, and far from the interpreter's own limit."""


class CborCodec:
    """``application/cbor`` (RFC 8949), with cbor2. attrs classes and dataclasses are maps.

    Data are exactly one item. Tags for shared values, regular expressions and MIME messages are
    refused.
    """

    def __init__(self) -> None:
        self._converter = strict_converter()

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        plain = self._converter.unstructure(value, None if annotation in _ANY else annotation)
        return cbor2.dumps(plain)

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        file = BytesIO(data)
        value = cbor2.CBORDecoder(
            file, semantic_decoders=_REFUSED_TAGS, max_depth=_MAX_DEPTH
        ).decode()
        if file.tell() != len(data):
            raise ValueError(f"{len(data) - file.tell()} bytes follow the CBOR item")
        if annotation in _ANY:
            return value
        return self._converter.structure(value, annotation)


class JsonCodec:
    """``application/json`` (RFC 8259), in UTF-8. attrs classes and dataclasses are objects.

    The constants NaN and Infinity are no JSON: they are refused both ways. Bytes are base64 text,
    datetimes, dates, Decimal and UUID are text.
    """

    def __init__(self) -> None:
        self._converter = json_converter()

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        plain = self._converter.unstructure(value, None if annotation in _ANY else annotation)
        return _to_json(plain).encode()

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        value = json.loads(data.decode(), parse_constant=_refuse_constant)
        if annotation in _ANY:
            return value
        return self._converter.structure(value, annotation)


_to_json: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


def _refuse_constant(name: str) -> typing.NoReturn:
    raise ValueError(f"{name} is no JSON")


class TextCodec:
    """``text/plain``, in UTF-8: for people who type.

    ``str`` (and a value of no particular annotation) is the text as it is. Anything else is read
    and written as JSON text, so that ``42`` or ``{"a": 1}`` can be typed.
    """

    def __init__(self) -> None:
        self._json = JsonCodec()

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        if isinstance(value, str) and _takes_text(annotation):
            return value.encode()
        if annotation not in _ANY and _takes_text(annotation):
            return _no_text(value, annotation)
        return self._json.encode(value, annotation)

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        return data.decode() if _takes_text(annotation) else self._json.decode(data, annotation)


class OctetStreamCodec:
    """``application/octet-stream``: bytes as they are, str as UTF-8, and nothing else.

    A value of no particular annotation is read as bytes.
    """

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        if isinstance(value, str) and _takes_text(annotation):
            return value.encode()
        if isinstance(value, bytes | bytearray | memoryview) and annotation in _ANY:
            return bytes(value)
        if annotation not in _ANY and _takes_text(annotation):
            return _no_text(value, annotation)
        raise TypeError(f"only bytes and str are octets, not {type(value).__name__}")

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        if annotation in _ANY:
            return data
        if _takes_text(annotation):
            return data.decode()
        raise TypeError("octets can be had as bytes or as str only")


def _takes_text(annotation: Any) -> bool:
    """Whether the annotation is str, str | None, or says nothing."""
    if annotation is str or annotation in _ANY:
        return True
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return set(typing.get_args(annotation)) == {str, type(None)}
    return False


def _no_text(value: object, annotation: Any) -> bytes:
    # Empty data is how None is read, so it is how None is written.
    if value is None and annotation is not str:
        return b""
    raise TypeError(f"str is due, not {type(value).__name__}")
