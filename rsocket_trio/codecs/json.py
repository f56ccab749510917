"""The codec for ``application/json``, with msgspec: `JsonCodec`."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import GenericAlias
from typing import Any, Final, Literal
from uuid import UUID

import attrs
import msgspec

from ..json_texts import FLAT_SIZE, MAX_DEPTH, is_deep, is_too_deep
from .annotations import OCTETS, PLAIN_TYPES
from .by_annotation import AnnotationCodec
from .conventions import Conventions
from .left_out import completion_of
from .mismatch import LIKE_TEXT, Mismatch, looks_like_text
from .models import Models, Types
from .readable import Digits, Shape, from_text, made_of
from .reading import Readers
from .same_to_msgspec import same_to_msgspec
from .scalars import (
    date_text,
    datetime_of,
    duration_of,
    duration_text,
    finite_decimal,
    finite_float,
    moment_text,
    time_of,
    uuid_of,
)
from .writable import Writer, refuse
from .writing import Writers

__all__ = ["JsonCodec"]


class JsonCodec(AnnotationCodec):
    """``application/json`` (RFC 8259), in UTF-8. attrs classes and dataclasses are objects.

    NaN and Infinity are refused, reading and writing, and so are numbers too large for a float,
    halves of surrogate pairs, and more than 200 levels of lists and objects. Bytes are base64 text;
    dates, times and UUIDs are text, and so is a Decimal, which is also read from a number, exactly.

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
        self._conventions = Conventions(rename, enums, Models(types))
        readers = Readers(_LEAVES, self._conventions, _INT_KEY)
        self._exact_readers = Readers(_LEAVES, self._conventions, _INT_KEY, exact=True)
        writers = Writers(
            _WRITERS,
            PLAIN_TYPES - {float},
            self._conventions,
            key=_key,
            kept_keys=frozenset((str,)),
            check_key=lambda key: readers.reader(GenericAlias(dict, (key, Any))),
        )
        super().__init__(readers, writers)

    def schema(self, annotation: Any) -> dict[str, Any] | None:
        """See `Codecs.schema`."""
        try:
            self.check_decode(annotation)
            if same_to_msgspec(annotation, self._conventions, decimals=True):
                schema = msgspec.json.schema(annotation)
                plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
                return plain  # its defaults may have been of any type
        except Exception:  # a type without a reader, or a default that JSON does not have
            pass
        return None

    def _encoder(self, annotation: Any) -> Callable[[Any], bytes]:
        write, is_deep = self._writers.any_writer(annotation)
        if not is_deep:
            return lambda value: _to_json(write(value))

        def encode(value: Any) -> bytes:
            plain = write(value)
            if is_too_deep(plain, MAX_DEPTH):
                raise _too_deep()
            data = _to_json(plain)
            _check_depth(data)
            return data

        return encode

    def _decoder(self, annotation: Any) -> Callable[[bytes], object]:
        read = self._readers.reader(annotation)
        parse: Callable[[bytes], Any] = _from_json
        exact = self._readers.reads(Decimal, annotation)
        has_floats = any(self._readers.reads(kind, annotation) for kind in (float, object))
        if exact:
            read, parse = self._exact_readers.reader(annotation), _from_json_exactly
        takes = self._readers.takes(annotation)
        fast = complete = None
        if same_to_msgspec(annotation, self._conventions, decimals=True):
            fast, complete = msgspec.json.Decoder(annotation).decode, completion_of(annotation)

        def decode(data: bytes) -> object:
            size = len(data)
            if not data.isascii():
                data.decode()  # msgspec does not look at the text of keys that it skips
            if size > FLAT_SIZE:
                _check_depth(data)
            try:
                if (
                    fast is not None
                    and not (exact and size >= _LONG and _has_long_number(data))
                    and not (has_floats and size >= _MANY and _has_far_exponents(data))
                ):
                    try:
                        value = fast(data)
                    except msgspec.ValidationError as error:
                        if size > _LARGE:
                            _refuse_type(error)
                    else:
                        if complete is not None:
                            complete(value)
                        return value
                elif size > _LARGE:
                    kind = _type_of(data)
                    if kind is not None and takes and kind not in takes:
                        read(kind())  # which is refused as all values of this type are
                return read(parse(data))
            except msgspec.DecodeError as error:
                raise _malformed(error, data) from None

        return decode


_LARGE: Final = 64 * 2**10
"""Bytes of data of which no value is built if it is of a wrong type."""


def _check_depth(data: bytes) -> None:
    if is_deep(data):
        raise _too_deep()


def _too_deep() -> Mismatch:
    return Mismatch(f"more than {MAX_DEPTH} levels of lists and objects")


_FIRST: Final = re.compile(rb"\s*(.)", re.DOTALL)
_TYPES: Final = {b"{": dict, b"[": list, b'"': str}


def _type_of(data: bytes) -> type | None:
    """Return the type of the value in data; ``None`` if more than the first byte tells it."""
    first = _FIRST.match(data)
    return None if first is None else _TYPES.get(first[1])


_LONG: Final = 4300
"""Digits of which msgspec makes a Decimal and no int: such data are left to the readers."""
_HALF: Final = re.compile(rb"[0-9]{%d}" % (_LONG // 2))


def _has_long_number(data: bytes) -> bool:
    """Whether a number may be a long one: of so many digits, two of these places are in it."""
    return any(_HALF.match(data, place) for place in range(0, len(data), _LONG // 2))


_FEW: Final = 48
_MANY: Final = 6 * _FEW
"""Bytes without more than a few such numbers: each has five, and a comma."""
_NUMBERS: Final = bytes.maketrans(b"123456789E]}\t\n\r ", b"000000000e,,,,,,")
_FAR: Final = re.compile(rb"0e0{3,},")


def _has_far_exponents(data: bytes) -> bool:
    """Whether more than a few numbers have exponents of three digits, as in ``1e308``.

    msgspec may take 8 microseconds for such a float, which is 90 ms for 64 KiB; `float` does not.
    A few take 0.4 ms.
    """
    most = _FEW + len(data) // 256
    numbers = data.translate(_NUMBERS, b"+-")
    return numbers.count(b"0e000") > most and sum(1 for _ in _FAR.finditer(numbers)) > most


_WRONG_TYPE: Final = re.compile(r"Expected `([^`]*)`, got `([^`]*)`(?: - at `\$([^`]*)`)?")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`(?: - at `\$([^`]*)`)?")
# The value, which is a peer's, may look like a place, but it is not the end of the text.
_NO_MEMBER: Final = re.compile(r"Invalid enum value .* - at `\$([^`]*)`", re.DOTALL)
_STEP: Final = re.compile(r"\.[^.\[]+|\[[^\]]*\]")
_NAMES: Final = {"object": "dict", "array": "list", "null": "None"}


def _refuse_type(error: msgspec.ValidationError) -> None:
    """Refuse a value of a wrong type or enum, or none, with the place that msgspec gives.

    The readers would refuse it too, but they would build the whole of the data first. Places have
    names of fields only, and ``[...]`` for keys.

    Raises:
        Mismatch: The error is of this kind.
    """
    text = str(error)
    if found := _NO_MEMBER.fullmatch(text):
        place = found[1]
        mismatch = Mismatch("expected a value of the enum or literal, got another")
    elif found := _WRONG_TYPE.fullmatch(text):
        expected, got, place = found.groups("")
        names = " | ".join([_NAMES.get(name, name) for name in expected.split(" | ")])
        mismatch = Mismatch(f"expected {names}, got {_NAMES.get(got, got)}")
    elif found := _MISSING.fullmatch(text):
        name, place = found.groups("")
        mismatch = Mismatch("expected a value, got nothing")
        mismatch.within(f".{name}")
    else:
        return
    for step in reversed(_STEP.findall(place)):
        mismatch.within(step)
    raise mismatch from None


def _malformed(error: msgspec.DecodeError, data: bytes) -> Mismatch:
    if isinstance(error, msgspec.ValidationError):
        return Mismatch("a number is out of range")
    if not data:
        return Mismatch("no data")
    found = re.search(r"\(byte (\d+)\)", str(error))
    if found is not None and found[1] == "0" and looks_like_text(data):
        return Mismatch(f"not JSON{LIKE_TEXT}")
    return Mismatch(f"not JSON, at byte {len(data) if found is None else found[1]}")


def _whole(value: Any) -> Any:
    """Return a value of a subclass of a plain type as one of that type."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    return refuse(value)


_to_json: Final = msgspec.json.Encoder(enc_hook=_whole).encode


def _finite(text: str) -> float:
    number = float(text)
    if number - number:
        raise ValueError
    return number


_parsed: Final = msgspec.json.Decoder().decode
_parsed_by_float: Final = msgspec.json.Decoder(float_hook=_finite).decode


def _from_json(data: bytes) -> Any:
    are_far = len(data) >= _MANY and _has_far_exponents(data)
    return _parsed_by_float(data) if are_far else _parsed(data)


_from_json_exactly: Final = msgspec.json.Decoder(float_hook=Digits).decode


def _int_from_text(text: str) -> int:
    number = int(text)
    if str(number) != text:  # int() also takes blanks, underscores and other digits
        raise ValueError
    return number


_LEAVES: Final[dict[type, Shape]] = {
    bytes: from_text(bytes, lambda text: b64decode(text, validate=True)),
    datetime: from_text(datetime, datetime_of),
    date: from_text(date, date.fromisoformat),
    time: from_text(time, time_of),
    timedelta: from_text(timedelta, duration_of),
    # A number is one only if no other member of a union takes numbers.
    Decimal: attrs.evolve(
        made_of(Decimal, {str: Decimal, int: Decimal}), spare=frozenset((int, Decimal))
    ),
    UUID: from_text(UUID, uuid_of),
}
_INT_KEY: Final = from_text(int, _int_from_text)
_WRITERS: Final[dict[type, Writer]] = {
    **dict.fromkeys(OCTETS, lambda value: b64encode(bytes(value)).decode("ascii")),
    float: finite_float,
    datetime: moment_text,
    date: date_text,
    time: moment_text,
    timedelta: duration_text,
    Decimal: lambda value: str(finite_decimal(value)),
    UUID: str,
}


def _key(key: Any) -> str:
    """Return the text of a key that is no text: numbers, and the words of JSON."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, int | float):
        return _to_json(key).decode()
    raise Mismatch.of("a key of text", key)
