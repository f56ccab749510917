"""Columns with maps, which pyarrow does not read from JSON: `MapColumns`.

Python takes the maps apart, and pyarrow decodes their values. So a value is valid in a map if it is
valid outside of one. This makes Python objects for the whole event.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Final, TypeAlias

import pyarrow as pa

__all__ = ["MapColumns", "has_map"]

DecodeTexts: TypeAlias = Callable[[Sequence[Any], pa.Field], pa.Array]
"""Returns the column of JSON values, or raises ValueError."""

_MOST_DIGITS: Final = 400
"""Digits of an integer. A double has 309 at most."""


def has_map(kind: pa.DataType) -> bool:
    """Return whether a type contains a map."""
    if pa.types.is_struct(kind):
        return any(has_map(inner.type) for inner in kind)
    if pa.types.is_list(kind):
        return has_map(kind.value_type)
    return bool(pa.types.is_map(kind))


class _Doubled(dict[str, Any]):
    """An object that has members twice: ``names``."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.names = {
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        }


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Doubled(pairs)


def _integer(text: str) -> float:
    """Return an integer; an infinite number in place of one that fits no column.

    Python needs quadratic time for its digits, and refuses more than some thousands of them.
    """
    return int(text) if len(text) <= _MOST_DIGITS else float(text)


def _member(found: dict[str, Any] | None, name: str) -> Any:
    """Return a member of an object.

    Raises:
        ValueError: It is there twice.
    """
    if isinstance(found, _Doubled) and name in found.names:
        raise ValueError("a member is there twice")
    return None if found is None else found.get(name)


class MapColumns:
    """The columns with maps of some events.

    Args:
        lines: JSON objects, each followed by a line end.
        decode: Decodes values without maps.

    Raises:
        ValueError: An event is no JSON object for Python.
    """

    def __init__(self, lines: bytes, decode: DecodeTexts) -> None:
        try:
            self._events = [
                json.loads(line, object_pairs_hook=_object, parse_int=_integer)
                for line in lines.split(b"\n")[:-1]
            ]
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        self._decode = decode

    def column(self, field: pa.Field) -> pa.Array:
        """Return a column.

        Raises:
            ValueError: A value does not fit to the type of the column.
        """
        return self._build([_member(event, field.name) for event in self._events], field)

    def _build(self, values: Sequence[Any], field: pa.Field) -> pa.Array:
        kind = field.type
        if not has_map(kind):
            return self._decode(values, field)
        if pa.types.is_struct(kind):
            _check(values, dict)
            members = [
                self._build([_member(value, inner.name) for value in values], inner)
                for inner in kind
            ]
            mask = pa.array([value is None for value in values], pa.bool_())
            return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
        if pa.types.is_list(kind):
            _check(values, list)
            items = [item for value in values for item in value or ()]
            return pa.ListArray.from_arrays(
                _offsets(values), self._build(items, kind.value_field), type=kind
            )
        _check(values, dict)
        if any(isinstance(value, _Doubled) for value in values):
            raise ValueError("a key of a map is there twice")
        keys = [key for value in values for key in value or ()]
        items = [item for value in values for item in (value or {}).values()]
        return pa.MapArray.from_arrays(
            _offsets(values),
            self._decode(keys, kind.key_field),
            self._build(items, kind.item_field),
            type=kind,
        )


def _check(values: Sequence[Any], kind: type) -> None:
    if not all(value is None or isinstance(value, kind) for value in values):
        raise ValueError("a value does not fit to the type of its column")


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Return the offsets of collections; a null marks one that is null."""
    ends = list(accumulate((len(value or ()) for value in values), initial=0))
    marked = [None if value is None else end for value, end in zip(values, ends, strict=False)]
    return pa.array([*marked, ends[-1]], pa.int32())
