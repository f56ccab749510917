"""The codec for ``application/json``: `JsonCodec`."""

from __future__ import annotations

import json
import typing
from base64 import b64decode, b64encode
from datetime import date, datetime
from decimal import Decimal
from types import GenericAlias
from typing import Any, Final
from uuid import UUID

from .annotations import ANY
from .forms import PLAIN_TYPES, Writer
from .mismatch import Mismatch
from .reading import Readers
from .scalars import date_text, datetime_text, finite_decimal, finite_float
from .shapes import Shape, from_text
from .writing import Writers

__all__ = ["JsonCodec"]


class JsonCodec:
    """``application/json`` (RFC 8259), in UTF-8. attrs classes and dataclasses are objects.

    NaN and Infinity are refused, reading and writing, and so are numbers too large for a float.
    Bytes are base64 text; datetimes, dates, Decimal and UUID are text.
    """

    def __init__(self) -> None:
        self._readers = Readers(_LEAVES, key=_INT_KEY)
        self._writers = Writers(
            _WRITERS,
            PLAIN_TYPES - {float},
            key=_key,
            kept_keys=frozenset((str,)),
            check_key=lambda key: self._readers.reader(GenericAlias(dict, (key, Any))),
        )

    def check_decode(self, annotation: Any) -> None:
        """See `Codec.check_decode`."""
        self._readers.reader(annotation)

    def check_encode(self, annotation: Any) -> None:
        """See `Codec.check_encode`."""
        self._writers.writer(annotation)

    def encode(self, value: Any, annotation: Any) -> bytes:
        """See `Codec.encode`."""
        return _to_json(self._writers.any_writer(annotation)(value)).encode()

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


_LEAVES: Final[dict[type, Shape]] = {
    bytes: from_text(bytes, lambda text: b64decode(text, validate=True)),
    datetime: from_text(datetime, datetime.fromisoformat),
    date: from_text(date, date.fromisoformat),
    Decimal: from_text(Decimal, Decimal),
    UUID: from_text(UUID, UUID),
}
_INT_KEY: Final = from_text(int, _int_from_text)
_WRITERS: Final[dict[type, Writer]] = {
    **dict.fromkeys((bytes, bytearray, memoryview), lambda value: b64encode(value).decode("ascii")),
    float: finite_float,
    datetime: datetime_text,
    date: date_text,
    Decimal: lambda value: str(finite_decimal(value)),
    UUID: str,
}


def _key(key: Any) -> str:
    """Return the text of a key that is no text: numbers, and the words of JSON."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, int | float):
        return _to_json(key)
    raise Mismatch.of("a key of text", key)
