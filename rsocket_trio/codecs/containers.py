"""Lists, tuples, sets and mappings: what is read part by part, with the place of what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Final

from .mismatch import Mismatch
from .shapes import Reader, Shape

__all__ = [
    "ARRAY",
    "DICT",
    "as_it_is",
    "check_alike",
    "items",
    "mapping",
    "positions",
    "set_of",
    "steps_of",
]

ARRAY: Final = (list, tuple)
"""What lists and tuples are read from."""

DICT: Final = frozenset((dict,))

_MANY: Final = 1024
_MOST_ALIKE: Final = 64
"""What has the same hash is compared with one another, each with each. The hashes of numbers can
be chosen, so of more than 1024 in a set or a mapping no more than 64 may have the same."""


def as_it_is(value: Any) -> Any:
    """Reads anything."""
    return value


def items(
    read_item: Reader, name: str, make: Callable[[Any], Any], accepted: tuple[type, ...] = ARRAY
) -> Shape:
    """Any number of items of one type; ``make`` gets a list of them."""

    def read(value: Any) -> Any:
        if not isinstance(value, accepted):
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
            error.within(f"[{len(done)}]")
            raise
        return done if make is list else make(done)

    return Shape(read, frozenset(accepted))


def steps_of(places: Collection[Any]) -> list[str]:
    """How places are named that have but a number."""
    return [f"[{number}]" for number in range(len(places))]


def positions(
    parts: list[tuple[str, Reader]], required: int, name: str, make: Callable[[list[Any]], Any]
) -> Shape:
    """A type for each place; those behind the first ``required`` may be missing."""
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
            error.within(parts[len(done)][0])
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
    """Keys of one type, values of another; ``make`` gets a dict, and ``check`` the keys before.

    A key is the peer's own text, so the place of what is wrong is told by its number.
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
            part = "value" if len(keys) > len(values) else "key"
            error.within(f"[{part} {len(values)}]")
            raise
        try:
            if check is not None:
                check(keys)
            done = dict(zip(keys, values, strict=True))
        except TypeError:
            raise Mismatch(f"expected {name}, got a key that cannot be one") from None
        return done if make is dict else make(done)

    return Shape(read, DICT)


def set_of(
    kind: type, name: str, check: Callable[[Collection[Hashable]], None] | None
) -> Callable[[Any], Any]:
    """What makes a set of a list, and checks that before."""

    def make(parts: Collection[Hashable]) -> Any:
        try:
            if check is not None:
                check(parts)
            return kind(parts)
        except TypeError:
            raise Mismatch(f"expected {name}, got an item that cannot be in one") from None

    return make


def check_alike(parts: Collection[Hashable]) -> None:
    """Refuse many parts that have one hash.

    Raises:
        Mismatch: There are too many.
        TypeError: One has no hash.
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
