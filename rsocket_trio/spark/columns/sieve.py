"""Events that surely do not fit to a schema, found in Python: `surely_malformed`.

pyarrow does not tell which event is malformed, and each attempt costs it a tenth of a millisecond.
So a sender whose events are all malformed would slow down a query a hundred times. Python decides
here where both always agree, and leaves all other events to pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NoReturn

import pyarrow as pa

__all__ = ["surely_malformed"]

MAX_SIZE: Final = 2**16
"""Bytes of an event. Objects in Python take some ten times the memory of a larger one."""

_Check = Callable[[Any], bool]


def surely_malformed(schema: pa.Schema) -> Callable[[bytes], bool]:
    """Return a function that says whether an event surely does not fit.

    Args:
        schema: The columns.
    """
    may_fit = _struct(list(schema))

    def check(event: bytes) -> bool:
        if len(event) > MAX_SIZE:
            return False
        try:
            return not may_fit(json.loads(event, parse_constant=_refuse))
        except json.JSONDecodeError:
            return True
        except (ValueError, RecursionError):  # no UTF-8, a long number, deep nesting
            return False

    return check


def _refuse(name: str) -> NoReturn:
    raise json.JSONDecodeError("not JSON", name, 0)


def _check_of(kind: pa.DataType) -> _Check:
    """Return a function that says whether a decoded value, or None, may fit to a type."""
    types = pa.types
    if types.is_struct(kind):
        return _struct(list(kind))
    if types.is_list(kind):
        item = _check_of(kind.value_type)
        return lambda value: value is None or (type(value) is list and all(map(item, value)))
    if types.is_map(kind):
        item = _check_of(kind.item_type)
        return lambda value: (
            value is None or (type(value) is dict and all(map(item, value.values())))
        )
    if types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return lambda value: value is None or (type(value) is int and -most <= value < most)
    if types.is_floating(kind):
        above = 2**128 if kind.bit_width == 32 else 2**1024
        return lambda value: (
            value is None or (type(value) in {int, float} and -above < value < above)
        )
    fitting: set[type] = {type(None)}
    if types.is_boolean(kind):
        fitting |= {bool}
    elif types.is_decimal(kind):
        fitting |= {int, float, str}
    else:
        fitting |= {str}
    return lambda value: type(value) in fitting


def _struct(fields: list[pa.Field]) -> _Check:
    members = [(field.name, _check_of(field.type)) for field in fields]

    def check(value: Any) -> bool:
        if value is None:
            return True
        if type(value) is not dict:
            return False
        get = value.get
        return all(may_fit(get(name)) for name, may_fit in members)

    return check
