"""Lists, tuples, sets and mappings: read part by part, with the place of a mistake."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from itertools import islice
from typing import Any, Final

from .mismatch import Mismatch
from .shapes import Reader, Shape

__all__ = [
    "ARRAY",
    "DICT",
    "SETS",
    "as_it_is",
    "check_alike",
    "items",
    "mapping",
    "positions",
    "set_of",
    "steps_of",
]

ARRAY: Final = (list, tuple)
"""The types that lists and tuples are read from."""
SETS: Final = (*ARRAY, set, frozenset)
"""The types that sets are read from."""

DICT: Final = frozenset((dict,))

_MANY: Final = 1024
_MOST_ALIKE: Final = 64
"""Python compares values with equal hashes one by one. A peer can choose numbers with equal hashes,
so of more than 1024 parts of a set or a mapping no more than 64 may have the same hash."""


def as_it_is(value: Any) -> Any:
    """Return the value: the reader for any type."""
    return value


def items(
    read_item: Reader, name: str, make: Callable[[Any], Any], usual: tuple[type, ...] = ARRAY
) -> Shape:
    """Return the shape of any number of items of one type; ``make`` gets a list of them.

    They are read from lists, tuples and sets; in a union, from a set only if it is among ``usual``
    or no other member takes it.
    """

    def read(value: Any) -> Any:
        if not isinstance(value, SETS):
            raise Mismatch.of(name, value)
        if read_item is as_it_is:
            return make(value)
        done: list[Any] = []
        add = done.append
        parts: Any = value
        try:
            for item in parts:
                add(read_item(item))
        except Mismatch as error:
            place = len(done)
            error.within(f"[{place}]")
            rest = enumerate(islice(parts, place + 1, None), place + 1)
            error.gather((f"[{number}]", read_item, item) for number, item in rest)
            raise
        return done if make is list else make(done)

    return Shape(read, frozenset(SETS), spare=frozenset(SETS).difference(usual))


def steps_of(places: Collection[Any]) -> list[str]:
    """Return the names of places that have only a number."""
    return [f"[{number}]" for number in range(len(places))]


def positions(
    parts: list[tuple[str, Reader]], required: int, name: str, make: Callable[[list[Any]], Any]
) -> Shape:
    """Return the shape of a tuple; places after the first ``required`` may be missing."""
    most = len(parts)

    def read(value: Any) -> Any:
        if not isinstance(value, ARRAY):
            raise Mismatch.of(name, value)
        if not required <= len(value) <= most:
            raise Mismatch(f"expected {name}, got {len(value)} items")
        done: list[Any] = []
        try:
            for item, (_, read_item) in zip(value, parts, strict=False):
                done.append(read_item(item))
        except Mismatch as error:
            place = len(done)
            error.within(parts[place][0])
            rest = zip(parts[place + 1 :], value[place + 1 :], strict=False)
            error.gather((step, read_item, item) for (step, read_item), item in rest)
            raise
        return make(done)

    return Shape(read, frozenset(ARRAY))


def mapping(
    read_key: Reader,
    read_value: Reader,
    name: str,
    make: Callable[[Any], Any],
    check: Callable[[Collection[Hashable]], None] | None,
) -> Shape:
    """Return the shape of a mapping; ``check`` gets the keys, then ``make`` gets a dict.

    A key is a value of the peer, so a place is named by its number.
    """

    def read(value: Any) -> Any:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise Mismatch.of(name, value)
        if read_key is as_it_is and read_value is as_it_is:
            return make(value)
        keys: list[Any] = []
        values: list[Any] = []
        try:
            for key, item in value.items():
                keys.append(read_key(key))
                values.append(read_value(item))
        except Mismatch as error:
            part, place = "value" if len(keys) > len(values) else "key", len(values)
            error.within(f"[{part} {place}]")
            rest = enumerate(islice(value.values(), place + 1, None), place + 1)
            error.gather((f"[value {number}]", read_value, item) for number, item in rest)
            raise
        try:
            if check is not None:
                check(keys)
            done = dict(zip(keys, values, strict=True))
        except TypeError:
            raise Mismatch(f"expected {name}, got a key that is not hashable") from None
        return done if make is dict else make(done)

    return Shape(read, DICT)


def set_of(
    kind: type, name: str, check: Callable[[Collection[Hashable]], None] | None
) -> Callable[[Any], Any]:
    """Return a function that checks a list and makes a set of it."""

    def make(parts: Collection[Hashable]) -> Any:
        try:
            if check is not None:
                check(parts)
            return kind(parts)
        except TypeError:
            raise Mismatch(f"expected {name}, got an item that is not hashable") from None

    return make


def check_alike(parts: Collection[Hashable]) -> None:
    """Refuse too many parts with the same hash.

    Raises:
        Mismatch: There are too many.
        TypeError: A part has no hash.
    """
    if len(parts) <= _MANY:
        return
    alike: dict[int, list[Hashable]] = {}
    for part in parts:
        others = alike.setdefault(hash(part), [])
        if part not in others:
            others.append(part)
            if len(others) > _MOST_ALIKE:
                raise Mismatch(f"more than {_MOST_ALIKE} of {len(parts)} have the same hash")
