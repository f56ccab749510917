"""Python values, as decoded from CBOR, into columns of Arrow.

A column of plain values is converted at once. If a value does not fit, the column is converted
value by value, so that each malformed element has its reason and no other element is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from math import inf, isfinite, isinf, isnan
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from .decoded import Decoded, nullable

__all__ = ["to_columns"]

_NONE: Final = type(None)
_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS: Final = (pa.float32(), pa.float64())
_AT_ONCE: Final[dict[pa.DataType, set[type]]] = {
    pa.bool_(): {bool, _NONE},
    **{type_: {int, _NONE} for type_ in _INTEGERS},
    **{type_: {float, int, _NONE} for type_ in _FLOATS},
    pa.string(): {str, _NONE},
    pa.binary(): {bytes, _NONE},
}
"""The Python types that Arrow converts as we want it. It would cut 1.5 to the integer 1."""
_REFUSED: Final = (
    pa.ArrowException,
    ValueError,
    TypeError,
    OverflowError,
    ArithmeticError,
    RecursionError,
)
_FRACTION: Final = re.compile(r"(\.\d{6})\d+")


class _Misfit(ValueError):
    """A value does not fit. Its text is ours, so it may be shown."""


def to_columns(
    elements: Sequence[dict[Any, Any] | None], schema: pa.Schema, malformed: dict[int, str]
) -> Decoded:
    """Convert decoded elements.

    Args:
        elements: A map for each element, or None for one that is known to be malformed.
        schema: The columns. Other keys of the maps are ignored, and missing ones are null.
        malformed: The reasons for elements that are known to be malformed; more are added.
    """
    arrays = []
    for field in schema:
        name = field.name
        values = [None if element is None else element.get(name) for element in elements]
        arrays.append(_column(values, field, malformed))
        if not field.nullable:
            for index, value in enumerate(values):
                if value is None:
                    malformed.setdefault(index, f"{name} is missing, but may not be null")
    rows = pa.RecordBatch.from_arrays(arrays, schema=nullable(schema))
    if malformed:
        kept = [None if index in malformed else index for index in range(len(elements))]
        rows = rows.take(pa.array(kept, pa.int64()))
    return Decoded(rows, malformed)


def _column(values: list[Any], field: pa.Field, malformed: dict[int, str]) -> pa.Array:
    type_ = field.type
    if set(map(type, values)) <= _AT_ONCE.get(type_, set()):
        try:
            array = pa.array(values, type_)
        except _REFUSED:
            pass  # A value is out of range, or is no valid text. The loop below finds it.
        else:
            if type_ not in _FLOATS or not pc.any(pc.is_inf(array)).as_py():
                return array
    fitting: list[Any] = []
    for index, value in enumerate(values):
        try:
            fits = _fitted(value, type_)
            pa.scalar(fits, type_)
        except _REFUSED as error:
            fits = None
            # Elements come from strangers, so the reason has the kind of the value only.
            why = f" ({error})" if isinstance(error, _Misfit) else ""
            reason = f"{field.name} is {type_}, which does not fit a {type(value).__name__}{why}"
            malformed.setdefault(index, reason)
        fitting.append(fits)
    return pa.array(fitting, type_)


def _fitted(value: Any, type_: pa.DataType) -> Any:
    """Return the value as Arrow takes it for this type.

    Raises:
        ValueError: It does not fit; or another error of `_REFUSED`.
    """
    if value is None:
        return None
    if pa.types.is_struct(type_):
        _check(isinstance(value, dict), "a map is needed")
        return {inner.name: _inner(value.get(inner.name), inner) for inner in type_}
    if pa.types.is_list(type_):
        _check(isinstance(value, list | tuple), "an array is needed")
        return [_inner(each, type_.value_field) for each in value]
    if pa.types.is_map(type_):
        _check(isinstance(value, dict), "a map is needed")
        pairs = [
            (_inner(key, type_.key_field), _inner(each, type_.item_field))
            for key, each in value.items()
        ]
        if type_.key_type == pa.string():  # 1 and "1" are two keys in CBOR
            _check(len(dict(pairs)) == len(pairs), "a key is there twice")
        return pairs
    return _plain(value, type_)


def _check(fits: bool, needed: str) -> None:
    if not fits:
        raise _Misfit(needed)


def _inner(value: Any, field: pa.Field) -> Any:
    _check(value is not None or field.nullable, f"{field.name} may not be null")
    return _fitted(value, field.type)


def _plain(value: Any, type_: pa.DataType) -> Any:
    kind = type(value)
    if type_ == pa.string():
        return _text(value)
    if type_ in _INTEGERS:
        fits = kind is int
    elif type_ in _FLOATS:
        fits = kind in {int, float, Decimal}
        if fits:
            # `math.isinf` would make a float of it, which is infinite if it is too large.
            is_infinite = value.is_infinite() if kind is Decimal else value in (inf, -inf)
            value = float(value)
            _check(is_infinite or not isinf(pa.scalar(value, type_).as_py()), "it is too large")
    elif type_ == pa.bool_():
        fits = kind is bool
    elif type_ == pa.binary():
        fits = kind in {bytes, bytearray}
    elif pa.types.is_decimal(type_):
        fits = kind in {int, str, float, Decimal}
        value = _decimal(value, type_) if fits else value
    elif kind is str:  # a date or a timestamp, as text of ISO 8601
        return pa.scalar(_FRACTION.sub(r"\1", value)).cast(type_).as_py()
    else:
        fits = isinstance(value, date if pa.types.is_date(type_) else datetime)
    _check(fits, "it is of another kind")
    return value


def _decimal(value: Any, type_: pa.Decimal128Type) -> Decimal:
    """Return a decimal with exactly the digits of the type.

    pyarrow takes an exponent as an index of a table, without a check, and crashes.

    Raises:
        ArithmeticError: It does not fit without rounding.
    """
    exact = Context(prec=type_.precision, traps=[Inexact, InvalidOperation])
    return Decimal(str(value)).quantize(Decimal((0, (1,), -type_.scale)), context=exact)


def _text(value: Any) -> str:
    """Return text as it is, and other values as JSON, as Spark's from_json does."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Decimal):
        return str(value)
    try:
        return _json(value)
    except ValueError:  # NaN, an infinite number; or an integer of too many digits, which fails too
        named = _without_constants(value)
        return named if isinstance(named, str) else _json(named)


_json: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str
).encode


def _without_constants(value: Any) -> Any:
    """Return the value with the names of NaN and infinite numbers as texts, as Spark's to_json."""
    if isinstance(value, dict):
        return {key: _without_constants(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_constants(each) for each in value]
    if not isinstance(value, float) or isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
