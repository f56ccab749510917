"""Rows of Arrow as dicts that CBOR or JSON can carry: `RowMaker`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite, isnan
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as kinds

__all__ = ["RowMaker"]

Convert = Callable[[Any], Any]

_PLAIN: Final = (kinds.is_null, kinds.is_boolean, kinds.is_integer, kinds.is_string)
_PLAIN_TOO: Final = (kinds.is_large_string,)


class RowMaker:
    """Makes dicts of the rows of record batches.

    Values keep their types where the format has them. JSON has no times, bytes and decimals: they
    are text (ISO 8601 in UTC, base64, digits). It has no NaN either: this and the infinities are
    the texts that Spark's ``to_json`` writes. A timestamp without a time zone is text in both.

    Args:
        schema: The columns.
        format: ``cbor`` or ``json``.

    Raises:
        ValueError: A column is of a type that the format cannot carry; or two columns have one
            name.
    """

    def __init__(self, schema: pa.Schema, format: str) -> None:  # noqa: A002 - as in Spark's API
        self._names: Final[list[str]] = schema.names
        twice = sorted({name for name in self._names if self._names.count(name) > 1})
        if twice:
            raise ValueError(
                f"there are two columns {twice[0]}, and a row in {format} is a map: give them "
                "different names, or use payloadFormat arrow"
            )
        self._converts: Final = [
            _convert(field.type, format, f"the column {field.name}") for field in schema
        ]

    def rows(self, batch: pa.RecordBatch) -> list[dict[str, Any]]:
        """Return the rows of a batch."""
        names = self._names
        if not names:
            return [{} for _ in range(batch.num_rows)]
        columns: list[list[Any]] = []
        for name, column, convert in zip(names, batch.columns, self._converts, strict=True):
            try:
                values = column.to_pylist()
                columns.append(values if convert is None else [convert(each) for each in values])
            # A text that is not UTF-8, or a time that Python does not have, such as the year 10000.
            except (ValueError, OverflowError, pa.ArrowInvalid) as error:
                raise ValueError(
                    f"the column {name} has a value that cannot be written: {error}. Cast it, or "
                    "use payloadFormat arrow"
                ) from error
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _convert(type_: pa.DataType, format_: str, where: str) -> Convert | None:
    """Return the function that converts a value, or ``None`` if it stays as it is."""
    if any(is_kind(type_) for is_kind in (*_PLAIN, *_PLAIN_TOO)):
        return None
    json = format_ == "json"
    if kinds.is_timestamp(type_):
        if type_.tz is None:
            return _or_none(datetime.isoformat)
        return _or_none(_utc_text if json else _utc)
    if kinds.is_floating(type_):
        return _finite_or_text if json else None
    if kinds.is_decimal(type_):
        return _or_none(_digits) if json else None
    if kinds.is_binary(type_) or kinds.is_large_binary(type_):
        return _or_none(_base64) if json else None
    if kinds.is_date(type_):
        return _or_none(str) if json else None
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        return _list_of(_convert(type_.value_type, format_, where))
    if kinds.is_map(type_):
        return _map_of(type_, format_, where)
    if kinds.is_struct(type_):
        return _struct_of(type_, format_, where)
    raise ValueError(
        f"{where} has the type {type_}, which payloadFormat {format_} cannot carry: cast it, or "
        "use payloadFormat arrow"
    )


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _utc_text(value: datetime) -> str:
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _digits(value: Decimal) -> str:
    return f"{value:f}"  # str would write an exponent for small values


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _finite_or_text(value: float | None) -> float | str | None:
    if value is None or isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _list_of(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return _or_none(lambda values: [convert(each) for each in values])


def _map_of(type_: pa.DataType, format_: str, where: str) -> Convert:
    """Return the function for maps, which Arrow gives as lists of pairs."""
    if kinds.is_nested(type_.key_type):
        raise ValueError(
            f"{where} is a map whose keys are structs, arrays or maps, which payloadFormat "
            f"{format_} cannot carry: cast it, or use payloadFormat arrow"
        )
    key = _convert(type_.key_type, format_, where)
    value = _convert(type_.item_type, format_, where)
    if format_ == "json" and not kinds.is_string(type_.key_type):
        inner = key
        key = lambda each: _key_text(each if inner is None else inner(each))  # noqa: E731 - short

    def convert(pairs: Any) -> dict[Any, Any]:
        made = {
            (each if key is None else key(each)): (held if value is None else value(held))
            for each, held in pairs
        }
        if len(made) != len(pairs):  # maps in files may have them
            raise ValueError("a map has a key twice")
        return made

    return _or_none(convert)


def _key_text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def _is_variant(type_: pa.DataType) -> bool:
    """Return whether a struct is how Spark gives a variant to Python."""
    return any((field.metadata or {}).get(b"variant") == b"true" for field in type_)


def _struct_of(type_: pa.DataType, format_: str, where: str) -> Convert | None:
    if _is_variant(type_):
        raise ValueError(
            f"{where} is a variant, which only Spark can read: write to_json of it, or cast it"
        )
    converts = {
        field.name: _convert(field.type, format_, f"{where}.{field.name}") for field in type_
    }
    needed = {name: convert for name, convert in converts.items() if convert is not None}
    if not needed:
        return None

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return value | {name: each(value[name]) for name, each in needed.items()}

    return _or_none(convert)
