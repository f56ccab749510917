"""The codec for ``application/cbor``: `CborCodec`."""

from __future__ import annotations

import re
import secrets
import typing
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from functools import partial
from io import BytesIO
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import chain
from typing import Any, Final, Literal
from uuid import UUID

import cbor2
import msgspec

from ..field_checks import COUNT, argument, whole
from ..json_texts import is_too_deep
from .annotations import ANY, OCTETS, PLAIN_TYPES
from .by_annotation import AnnotationCodec
from .conventions import Conventions
from .left_out import completion_of
from .mismatch import LIKE_TEXT, Mismatch, looks_like_text
from .models import Models, Types
from .packing import packer_of
from .readable import Shape, exactly, from_text, made_of
from .reading import Readers
from .same_to_msgspec import same_to_msgspec
from .scalars import (
    check_offset,
    datetime_of,
    duration_of,
    duration_text,
    exact_float,
    finite_decimal,
    moment_text,
    time_of,
    uuid_of,
)
from .writable import Writer, refuse
from .writing import Writers

__all__ = ["CborCodec"]


class CborCodec(AnnotationCodec):
    """``application/cbor`` (RFC 8949), with cbor2. attrs classes and dataclasses are maps.

    Data are exactly one item. Tags for shared values, references to earlier text, regular
    expressions and MIME messages are refused. Integers have at most 1024 bytes.

    A datetime, a date, a UUID and a Decimal have tags. They are also read from what other programs
    write without a tag: text, 16 bytes of a UUID, numbers. A datetime without an offset is written
    as such a text, and so are UUIDs that are keys.

    Args:
        any_keys_size: Keys of maps (and members of sets) that are neither text nor bytes are
            accepted in data of this many bytes at most. A peer can choose numbers whose hashes are
            all equal, and the time to read the map then grows with the square of its size: 8 KiB
            take up to 30 ms, 64 KiB more than a second. Text and bytes are safe.
        max_parts: The most lists, maps and tags in data of more than 64 KiB. They are counted
            before anything is built. An empty map is one byte of data and 70 bytes of memory.
        rename: See `Codecs`.
        enums: See `Codecs`.
        types: See `Codecs`.
    """

    def __init__(
        self,
        *,
        any_keys_size: int = 8 * 2**10,
        max_parts: int = 100_000,
        rename: Literal["camel"] | None = None,
        enums: Literal["value", "name"] = "value",
        types: Types | None = None,
    ) -> None:
        self._conventions = Conventions(rename, enums, Models(types))
        writers = Writers(
            _WRITERS,
            _KEPT,
            self._conventions,
            sets=True,
            unknown=_unknown,
            key=_key,
            kept_keys=_KEPT - {UUID},
            among_others={datetime: _with_offset},
        )
        super().__init__(Readers(_LEAVES, self._conventions), writers)
        argument("any_keys_size", any_keys_size, whole(0))
        argument("max_parts", max_parts, COUNT)
        self._any_keys_size = any_keys_size
        self._max_parts = max_parts

    def _encoder(self, annotation: Any) -> Callable[[Any], bytes]:
        write, is_deep = self._writers.any_writer(annotation)
        pack = None if is_deep else packer_of(annotation, self._writers)

        def encode(value: Any) -> bytes:
            if pack is not None:
                try:
                    return _checked(pack(value))
                except Exception:  # of a class of the application, or of cbor2
                    cbor2.dumps(write(value))  # which says what is wrong, and where
                    raise  # an iterator has been read
            plain = write(value)
            if is_deep and is_too_deep(plain, _MAX_DEPTH):
                raise _too_deep()
            data = cbor2.dumps(plain)
            if is_deep and len(data) > _MAX_DEPTH:
                _check_levels(plain, data)
            return _checked(data)

        return encode

    def _decoder(self, annotation: Any) -> Callable[[bytes], object]:
        read = self._readers.reader(annotation)
        takes = self._readers.takes(annotation)
        fast = complete = None
        if annotation not in ANY and same_to_msgspec(annotation, self._conventions, decimals=False):
            # It makes no others of octets: text is not taken for bytes.
            fast = partial(msgspec.convert, type=annotation, builtin_types=OCTETS)
            complete = completion_of(annotation)

        def decode(data: bytes) -> object:
            size = len(data)
            if size > _LARGE:
                _check_parts(data, self._max_parts)
                kind = _TYPES.get(data[0] >> 5)
                if takes and kind is not None and kind not in takes and not looks_like_text(data):
                    read(kind())  # which is refused as all values of this type are
            try:
                value = _item(data, any_keys=size <= self._any_keys_size)
            except Exception:  # cbor2 raises errors of many types
                if data and looks_like_text(data):
                    raise Mismatch(f"not CBOR{LIKE_TEXT}") from None
                raise
            if fast is not None:
                try:
                    made = fast(value)
                except msgspec.ValidationError:
                    pass  # no context of what the readers raise: its text may show the value
                else:
                    if complete is not None:
                        complete(made)
                    return made
            return read(value)

        return decode


def _item(data: bytes, *, any_keys: bool) -> Any:
    """Return the one item that data are.

    Raises:
        Exception: There is none, or there is more. cbor2 raises errors of many types.
    """
    if len(data) <= _SMALL:
        # Without a file, which would tell the place, it is faster. So the item is put into a list,
        # before a number that nothing in the data can be taken for.
        try:
            value, end = cbor2.loads(
                b"\x82" + data + _END,
                semantic_decoders=_DECODERS,
                max_depth=_MAX_DEPTH + 1,
                strict_hashable_types=not any_keys,
            )
            if end == _END_NUMBER:
                return value
        except Exception:  # cbor2 raises errors of many types
            pass  # the error of the data alone is raised below
    file = BytesIO(data)
    value = cbor2.CBORDecoder(
        file,
        semantic_decoders=_DECODERS,
        max_depth=_MAX_DEPTH,
        strict_hashable_types=not any_keys,
    ).decode()
    if file.tell() != len(data):
        raise ValueError(f"{len(data) - file.tell()} bytes follow the CBOR item")
    return value


_END_NUMBER: Final = int.from_bytes(secrets.token_bytes(8), "big") | 1 << 63 | 1
"""A number of 64 bits, which no float is; no peer knows it."""
_END: Final = b"\x1b" + _END_NUMBER.to_bytes(8, "big")
_MAX_DEPTH: Final = 200
"""Levels of nested CBOR containers: more than data need, and far below Python's own limit."""
_SMALL: Final = 4 * 2**10
"""Bytes of data that are read in the faster way: what is refused is read twice."""
_LARGE: Final = 64 * 2**10
"""Bytes of data whose parts are not counted, and that are not refused by their first byte: their
values have less than 5 MiB."""
_TYPES: Final = {0: int, 1: int, 2: bytes, 3: str, 4: list, 5: dict}
"""The types of values by the three highest bits of their head; others are told by more bits."""
_SCALARS: Final = re.compile(
    rb"[\x00-\x17\x20-\x37\x40\x60\xe0-\xf7\xff]+|(?:[\x18\x38\xf8].)+|(?:[\x19\x39\xf9].{2})+"
    rb"|(?:[\x1a\x3a\xfa].{4})+|(?:[\x1b\x3b\xfb].{8})+",
    re.DOTALL,
)
"""Items without parts and without bytes of their own, and the break of indefinite lengths."""


def _check_parts(data: bytes, most: int) -> None:
    """Refuse data with more than ``most`` lists, maps and tags, from their heads alone.

    It goes from head to head, as a decoder does. So what is before the place where it stops is
    counted, and a decoder does not come further if it stops at damage.
    """
    place, parts, size = 0, 0, len(data)
    while place < size:
        head = data[place]
        if head < 0x40 or head >= 0xE0:
            scalars = _SCALARS.match(data, place)
            place = place + 1 if scalars is None else scalars.end()
            continue
        place += 1
        length = head & 0x1F
        if 24 <= length <= 27:  # the length follows, in 1, 2, 4 or 8 bytes
            width = 1 << (length - 24)
            length = int.from_bytes(data[place : place + width], "big")
            place += width
        elif length > 27:  # reserved, or the items (or chunks) end with a break
            length = 0
        if head < 0x80:
            place += length
            continue
        parts += 1
        if parts > most:
            raise Mismatch(f"more than {most} lists, maps and tags")


_NESTED: Final = (list, tuple, dict, set, frozenset)
_HEADS: Final = bytes(range(0x80, 0xC0))
"""The heads of lists and maps; such bytes are in other items, too."""
_LONG: Final = {
    b"\xc2": re.compile(rb"\xc2[\x59\x5a]"),
    b"\xc3": re.compile(rb"\xc3[\x59\x5a]"),
}
"""How integers of more than 255 bytes are written; such bytes are in other items, too. One byte is
found 20 times as fast as a pattern."""


def _check_levels(value: Any, data: bytes) -> None:
    """Refuse to write a value of too many levels.

    It goes from level to level, until there are too few lists and maps left for so many.

    Args:
        value: The plain value.
        data: What is written for it.
    """
    rest = len(data) - len(data.translate(None, _HEADS))
    parts: Iterable[Any] = (value,)
    levels = 0
    while levels + rest > _MAX_DEPTH:
        nested = [part for part in parts if isinstance(part, _NESTED)]
        if not nested:
            return
        levels += 1
        if levels > _MAX_DEPTH:
            raise _too_deep()
        rest -= len(nested)
        parts = chain(
            chain.from_iterable(nested),  # and the keys of maps
            *[part.values() for part in nested if isinstance(part, dict)],
        )


def _too_deep() -> Mismatch:
    return Mismatch(f"more than {_MAX_DEPTH} levels of lists and maps")


def _checked(data: bytes) -> bytes:
    """Return data that are written, without integers that are not read."""
    if len(data) > _MAX_BIGNUM and any(
        tag in data and head.search(data) for tag, head in _LONG.items()
    ):
        try:
            _item(data, any_keys=True)
        except cbor2.CBORDecodeError:
            raise Mismatch(f"an integer of more than {_MAX_BIGNUM} bytes") from None
    return data


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


def _bigfloat(parts: object, _: bool) -> Decimal:
    match parts:
        case [int(exponent), int(mantissa)]:
            return _EXACT.multiply(Decimal(mantissa), _EXACT.power(2, exponent))
    raise ValueError("a bigfloat has two integers")


_EXACT: Final = Context(prec=100, traps=[Inexact])
"""The context of bigfloats, which raises for more digits: that of the application may round."""
_MAX_BIGNUM: Final = 1024
"""Bytes of an integer. Python makes a Fraction or a Decimal of integers in quadratic time."""
_MAX_DIGITS: Final = 2466
"""Digits of a Decimal that is written; more do not fit into an integer that is read."""
_DECODERS: Final[dict[int, Callable[[Any, bool], Any]]] = {
    2: _bignum,
    3: _negative_bignum,
    5: _bigfloat,
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
_TAGGED: Final = (Fraction, IPv4Address, IPv6Address, IPv4Network, IPv6Network)
_LEAVES: Final[dict[type, Shape]] = {
    **{kind: exactly(kind) for kind in (bytes, *_TAGGED)},
    # Jackson writes these without tags, and a BigDecimal for a double with one.
    datetime: made_of(datetime, {str: datetime_of}),
    date: made_of(date, {str: date.fromisoformat}),
    UUID: made_of(UUID, {str: uuid_of, bytes: lambda octets: UUID(bytes=octets)}),
    Decimal: made_of(
        Decimal,
        {
            int: Decimal,
            float: lambda number: finite_decimal(Decimal(repr(number))),
            str: lambda text: finite_decimal(Decimal(text)),
        },
    ),
    float: made_of(float, {int: float, Decimal: float}, usual=(int,)),
    time: from_text(time, time_of),
    timedelta: from_text(timedelta, duration_of),
}
_KEPT: Final = frozenset((*PLAIN_TYPES, bytes, bytearray, date, UUID, *_TAGGED))


def _unknown(value: object) -> object:
    try:
        cbor2.dumps(value)  # which knows patterns, for example
    except Exception:  # cbor2 does not know it, in one of its ways to say so
        return refuse(value)
    return value


def _moment(value: datetime) -> Any:
    # The tag is for RFC 3339, which has no times without an offset.
    return moment_text(value) if value.utcoffset() is None else check_offset(value)


def _with_offset(value: datetime) -> datetime:
    if value.utcoffset() is None:
        reason = "expected a datetime with an offset: without one it is written as text, which"
        raise Mismatch(f"{reason} other types of the union are read from, too")
    return check_offset(value)


def _key(key: Any) -> Any:
    # Many decoders take keys of text and numbers only.
    return str(key) if type(key) is UUID else key


def _decimal(value: Decimal) -> Decimal:
    if len(finite_decimal(value).as_tuple().digits) > _MAX_DIGITS:
        raise Mismatch(f"expected Decimal, got one of more than {_MAX_DIGITS} digits")
    return value


_WRITERS: Final[dict[type, Writer]] = {
    memoryview: bytes,
    bytes: lambda value: bytes(value) if isinstance(value, memoryview) else value,
    float: exact_float,
    Decimal: _decimal,
    datetime: _moment,
    time: moment_text,
    timedelta: duration_text,
    # A datetime is an instance of date, and would be written as a datetime.
    date: lambda value: date(value.year, value.month, value.day),
}
