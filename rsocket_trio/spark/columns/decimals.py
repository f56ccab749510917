"""Decimals that pyarrow must not see: `has_unreadable_decimal`.

pyarrow takes the exponent of a decimal as an index of a table, without a check. So ``1e-100000001``
crashes the process, and ``1e-41`` becomes 0 by chance.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

__all__ = ["has_unreadable_decimal"]

_SUSPICIOUS: Final = re.compile(rb"[eE]-[0-9]|\\u00[2-6]")
"""A negative exponent, or an escape that can hide one."""

_MOST_DIGITS: Final = 38
"""Digits behind the point: that many powers of ten are in the table."""


MAX_SIZE: Final = 2**24
"""Bytes of an event that Python looks at, as its objects take some ten times as much. A larger one
does not fit."""


class _Number(str):
    """The text of a number."""


def has_unreadable_decimal(lines: bytes, fields: Iterable[pa.Field]) -> bool:
    """Return whether a line has a decimal with too many digits behind the point.

    Args:
        lines: JSON objects, each followed by a line end.
        fields: The columns, without maps.
    """
    end = 0
    while match := _SUSPICIOUS.search(lines, end):
        start = lines.rfind(b"\n", 0, match.start()) + 1
        end = lines.find(b"\n", match.end())
        if end - start > MAX_SIZE:
            return True
        try:
            event = json.loads(
                lines[start:end], object_pairs_hook=_Members, parse_float=_Number, parse_int=_Number
            )
        except (ValueError, RecursionError):
            return True
        if any(
            _is_unreadable(value, field.type) for field in fields for value in event[field.name]
        ):
            return True
    return False


class _Members:
    """The members of an object, also those that are there twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self._pairs = pairs

    def __getitem__(self, name: str) -> list[Any]:
        return [value for key, value in self._pairs if key == name]


def _is_unreadable(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return isinstance(value, str) and not _is_readable(value)
    if pa.types.is_struct(kind) and isinstance(value, _Members):
        return any(_is_unreadable(each, inner.type) for inner in kind for each in value[inner.name])
    if pa.types.is_list(kind) and isinstance(value, list):
        return any(_is_unreadable(each, kind.value_type) for each in value)
    return False


def _is_readable(text: str) -> bool:
    try:
        exponent = Decimal(text).as_tuple().exponent
    except InvalidOperation:
        return False
    return isinstance(exponent, int) and exponent >= -_MOST_DIGITS
