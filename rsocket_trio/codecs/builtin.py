"""The codecs that are built in: CBOR, JSON, plain text, octet streams."""

from __future__ import annotations

import json
import typing
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from io import BytesIO
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path, PurePath
from typing import Any, Final
from uuid import UUID

import cbor2

from .annotations import ANY, NONE, members_of
from .forms import Writer
from .mismatch import Mismatch, Unconvertible
from .reading import Readers
from .shapes import Shape, exactly, from_text
from .writing import Writers

__all__ = ["CborCodec", "JsonCodec", "OctetStreamCodec", "TextCodec"]


def _refuse(*_: object) -> typing.NoReturn:
    raise ValueError("this tag is not accepted from a peer")


def _bignum(content: bytes, _: bool) -> int:
    if not isinstance(content, bytes) or len(content) > _MAX_BIGNUM:
        raise ValueError("not a bignum, or too long a one")
    return int.from_bytes(content, "big")


def _negative_bignum(content: bytes, _: bool) -> int:
    return -1 - _bignum(content, _)


def _fraction(parts: object, _: bool) -> Fraction:
    # A Decimal as a numerator would be written out: 3E+1000000000 is 10 bytes of CBOR.
    match parts:
        case [int(numerator), int(denominator)]:
            return Fraction(numerator, denominator)
    raise ValueError("a rational number has two integers")


_MAX_BIGNUM: Final = 1024
"""Bytes of an integer. Python makes a Fraction or a Decimal of integers in quadratic time."""
_DECODERS: Final[dict[int, Callable[[Any, bool], Any]]] = {
    2: _bignum,
    3: _negative_bignum,
    30: _fraction,
    # References to earlier texts: the value could be a million times as large as the data.
    25: _refuse,
    # Shared values: a few bytes could stand for a value that contains itself, or for a value with
    # exponentially many parts.
    28: _refuse,
    29: _refuse,
    # Regular expressions and MIME messages: a peer must not make us run their parsers.
    35: _refuse,
    36: _refuse,
}
_MAX_DEPTH: Final = 200
"""Levels of nested CBOR containers: more than data need, and far below Python's own limit."""


class CborCodec:
    """``application/cbor`` (RFC 8949), with cbor2. attrs classes and dataclasses are maps.

    Data are exactly one item. Tags for shared values, references to earlier text, regular
    expressions and MIME messages are refused. Integers have at most 1024 bytes.

    Args:
        any_keys_size: Keys of maps (and members of sets) that are neither text nor bytes are
            accepted in data of this many bytes at most. A peer can choose numbers whose hashes are
            all equal, and the time to read the map then grows with the square of its size: 64 KiB
            take a tenth of a second, 2 MiB minutes. Text and bytes are safe.
    """

    def __init__(self, *, any_keys_size: int = 64 * 2**10) -> None:
        self._readers = Readers({kind: exactly(kind) for kind in _CBOR_KINDS} | _PATHS)
        self._writers = Writers(_CBOR_WRITERS, (*_CBOR_KINDS, bytearray), sets=True)
        self._any_keys_size = any_keys_size

    def check_decode(self, annotation: Any) -> None:
        """See `Codec.check_decode`."""
        self._readers.reader(annotation)

    def check_encode(self, annotation: Any) -> None:
        """See `Codec.check_encode`."""
        self._writers.writer(annotation)

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        return cbor2.dumps(_writer(self._writers, annotation)(value))

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        file = BytesIO(data)
        value = cbor2.CBORDecoder(
            file,
            semantic_decoders=_DECODERS,
            max_depth=_MAX_DEPTH,
            strict_hashable_types=len(data) > self._any_keys_size,
        ).decode()
        if file.tell() != len(data):
            raise ValueError(f"{len(data) - file.tell()} bytes follow the CBOR item")
        return value if annotation in ANY else self._readers.reader(annotation)(value)


class JsonCodec:
    """``application/json`` (RFC 8259), in UTF-8. attrs classes and dataclasses are objects.

    NaN and Infinity are refused, reading and writing, and so are numbers too large for a float.
    Bytes are base64 text; datetimes, dates, Decimal and UUID are text.
    """

    def __init__(self) -> None:
        self._readers = Readers(_JSON_LEAVES, key=_INT_KEY)
        self._writers = Writers(_JSON_WRITERS)

    def check_decode(self, annotation: Any) -> None:
        """See `Codec.check_decode`."""
        self._readers.reader(annotation)

    def check_encode(self, annotation: Any) -> None:
        """See `Codec.check_encode`."""
        self._writers.writer(annotation)

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        return _to_json(_writer(self._writers, annotation)(value)).encode()

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        value = _from_json(data.decode())
        return value if annotation in ANY else self._readers.reader(annotation)(value)


_to_json: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


def _refuse_constant(name: str) -> typing.NoReturn:
    raise ValueError(f"{name} is not allowed in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number - number:  # NaN, for an infinite number; isinf() takes longer
        raise ValueError("a number is too large for a float")
    return number


_from_json: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode


def _int_from_text(text: str) -> int:
    number = int(text)
    if str(number) != text:  # int() also takes blanks, underscores and other digits
        raise ValueError
    return number


_PATHS: Final[dict[type, Shape]] = {
    Path: from_text(Path, Path),
    PurePath: from_text(PurePath, PurePath),
}
_CBOR_KINDS: Final = (
    bytes,
    datetime,
    date,
    Decimal,
    Fraction,
    UUID,
    IPv4Address,
    IPv6Address,
    IPv4Network,
    IPv6Network,
)
"""Types that CBOR has values for, besides those that all formats have."""

_CBOR_WRITERS: Final[dict[type, Writer]] = {
    memoryview: bytes,
    bytes: lambda value: bytes(value) if isinstance(value, memoryview) else value,
    # A datetime is an instance of date, and would be written as a datetime.
    date: lambda value: date(value.year, value.month, value.day),
}
_JSON_LEAVES: Final[dict[type, Shape]] = {
    bytes: from_text(bytes, lambda text: b64decode(text, validate=True)),
    datetime: from_text(datetime, datetime.fromisoformat),
    date: from_text(date, date.fromisoformat),
    Decimal: from_text(Decimal, Decimal),
    UUID: from_text(UUID, UUID),
    **_PATHS,
}
_JSON_WRITERS: Final[dict[type, Writer]] = {
    **dict.fromkeys((bytes, bytearray, memoryview), lambda value: b64encode(value).decode("ascii")),
    datetime: datetime.isoformat,
    date: date.isoformat,
    Decimal: str,
    UUID: str,
}
_INT_KEY: Final = from_text(int, _int_from_text)


def _writer(writers: Writers, annotation: Any) -> Writer:
    """Return the writer of an annotated type; for an unknown type, a writer by the value."""
    try:
        return writers.writer(annotation)
    except Unconvertible:
        return writers.anything


class TextCodec:
    """``text/plain``, in UTF-8, for people who type.

    A ``str``, or a value without a particular annotation, is the text as it is. All other types
    are read and written as JSON text, so that ``42`` or ``{"a": 1}`` can be typed.
    """

    def __init__(self) -> None:
        self._json = JsonCodec()

    def check_decode(self, annotation: Any) -> None:
        """See `Codec.check_decode`."""
        self._json.check_decode(annotation)

    def check_encode(self, annotation: Any) -> None:
        """See `Codec.check_encode`."""
        self._json.check_encode(annotation)

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        if isinstance(value, str) and _takes_text(annotation):
            return value.encode()
        if annotation not in ANY and _takes_text(annotation):
            return _no_text(value, annotation)
        return self._json.encode(value, annotation)

    def decode(self, data: bytes, annotation: Any) -> object:
        """See `Codec.decode`."""
        return data.decode() if _takes_text(annotation) else self._json.decode(data, annotation)


class OctetStreamCodec:
    """``application/octet-stream``: bytes as they are, str as UTF-8, and nothing else.

    A value without a particular annotation is read as bytes.
    """

    def check_decode(self, annotation: Any) -> None:
        """See `Codec.check_decode`."""
        if not _takes_text(annotation):
            raise Unconvertible("application/octet-stream is read and written as bytes or str only")

    check_encode = check_decode

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        if isinstance(value, str) and _takes_text(annotation):
            return value.encode()
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
            return data.decode()
        raise Mismatch("octets are read as bytes or str only")


def _takes_text(annotation: Any) -> bool:
    """Whether the annotation is str, str | None, or allows anything."""
    members = set(members_of(annotation))
    return bool(members & {str, *ANY}) and members <= {str, None, NONE, *ANY}


def _no_text(value: object, annotation: Any) -> bytes:
    # Empty data are read as None, so None is written as empty data.
    if value is None and annotation is not str:
        return b""
    raise TypeError(f"expected str, got {type(value).__name__}")
