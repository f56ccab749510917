"""How values are read: numbers, text, dates, enums, literals; lists, sets, mappings of values.

What has parts is read part by part, with the place of a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from decimal import Decimal
from enum import Enum, Flag
from itertools import islice
from pathlib import Path, PurePath
from traceback import walk_tb
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from ..errors import StreamError
from .annotations import NONE, PLAIN_TYPES
from .conventions import Conventions
from .mismatch import Mismatch, Unconvertible, kind_of

__all__ = [
    "ARRAY",
    "DICT",
    "PLAIN",
    "SETS",
    "Digits",
    "Reader",
    "Shape",
    "as_it_is",
    "check_alike",
    "enum",
    "exactly",
    "floats_of",
    "from_text",
    "items",
    "literal",
    "made",
    "made_from",
    "made_of",
    "mapping",
    "positions",
    "set_of",
    "steps_of",
    "with_digits",
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

Reader: TypeAlias = Callable[[Any], Any]
"""Makes a value of some type of a plain value, or raises `Mismatch`."""


@attrs.frozen
class Shape:
    """How values of one type are read.

    Attributes:
        read: Reads one.
        takes: The types of the plain values that it may be read from.
        leaf: Its values have no parts, so an attempt costs little.
        values: The plain values that it is read from, with their types, and the value that each is
            read as; ``None`` if there is no list of them.
        spare: Some of ``takes``: in a union, only if no other member takes them.
        plain: Values of exactly these types are read as they are, without a call of `read`.
    """

    read: Reader
    takes: frozenset[type]
    leaf: bool = False
    values: Mapping[tuple[type, Any], Any] | None = attrs.field(default=None, eq=False)
    spare: frozenset[type] = frozenset()
    plain: frozenset[type] = frozenset()


def exactly(kind: type) -> Shape:
    """Return the shape of values that have exactly this type already: True is no int."""
    name = kind.__name__

    def read(value: Any) -> Any:
        if type(value) is kind:
            return value
        raise Mismatch.of(name, value)

    kinds = frozenset((kind,))
    return Shape(read, kinds, leaf=True, plain=kinds)


def from_text(kind: type, convert: Callable[[str], object]) -> Shape:
    """Return the shape of values that are text; ``convert`` raises for a text that is not one."""
    return Shape(made_of(kind, {str: convert}).read, frozenset((str,)), leaf=True)


def made_of(
    kind: type, ways: Mapping[type, Callable[[Any], object]], usual: Iterable[type] = ()
) -> Shape:
    """Return the shape of values that have this type already, or are made of another type.

    Args:
        kind: The type.
        ways: How it is made of values of other types; a function raises for a value that is none.
        usual: Those of the other types that are spare in no union.
    """
    name = kind.__name__

    def read(value: Any) -> Any:
        of_kind = type(value)
        if of_kind is kind:
            return value
        convert = ways.get(of_kind)
        if convert is None:
            raise Mismatch.of(name, value)
        try:
            return convert(value)
        except Exception:  # converters raise what they like
            # Without its cause, whose text may show the value.
            raise Mismatch.another(name, value) from None

    spare, kinds = frozenset(ways).difference(usual), frozenset((kind,))
    return Shape(read, kinds.union(ways), leaf=True, spare=spare, plain=kinds)


class Digits(msgspec.Struct, frozen=True, gc=False):
    """The text of a number of JSON that is no int: it becomes a Decimal or a float."""

    text: str


Digits.__name__ = "float"  # in messages: what a peer has written is one


def with_digits(shape: Shape) -> Shape:
    """Return a shape that takes `Digits` in place of floats and Decimals, if it takes these."""
    kinds = shape.takes.intersection((float, Decimal))
    if not kinds:
        return shape
    read, number_of = shape.read, _decimal if Decimal in kinds else _finite
    are_kept = kinds <= shape.plain

    def read_digits(value: Any) -> Any:
        if type(value) is not Digits:
            return read(value)
        number = number_of(value.text)
        return number if are_kept else read(number)

    return attrs.evolve(
        shape,
        read=read_digits,
        takes=shape.takes | {Digits},
        spare=shape.spare | {Digits} if kinds <= shape.spare else shape.spare,
    )


def floats_of(value: Any) -> Any:
    """Return a value of any type with floats in place of `Digits`."""
    kind = type(value)
    if kind is Digits:
        return _finite(value.text)
    if kind is list:
        return [floats_of(each) for each in value]
    return {key: floats_of(each) for key, each in value.items()} if kind is dict else value


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise Mismatch("expected Decimal, got a number too large for one") from None


def _finite(text: str) -> float:
    number = float(text)
    if number - number:
        raise Mismatch("expected float, got a number too large for one")
    return number


def _read_float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int:
        # JSON writers do not tell 1 from 1.0.
        try:
            return float(value)
        except OverflowError:
            raise Mismatch("expected float, got an int too large for one") from None
    raise Mismatch.of("float", value)


def _read_none(value: Any) -> None:
    if value is not None:
        raise Mismatch.of("None", value)


PLAIN: Final[Mapping[type, Shape]] = {
    bool: exactly(bool),
    int: exactly(int),
    str: exactly(str),
    float: Shape(_read_float, frozenset((float, int)), leaf=True, plain=frozenset((float,))),
    NONE: Shape(_read_none, frozenset((NONE,)), leaf=True, plain=frozenset((NONE,))),
    Path: from_text(Path, Path),
    PurePath: from_text(PurePath, PurePath),
}
"""Types that every format has values for."""


def made(
    cls: Any,
    arguments: Iterable[Any],
    keywords: Mapping[str, Any],
    keys: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """Call the constructor of a class of the application, which may refuse.

    Args:
        cls: The class.
        arguments: What it gets by position.
        keywords: What it gets by name.
        keys: The names of its fields in data, by their names in Python.

    Raises:
        StreamError: The constructor raised it for the peer.
        Mismatch: The constructor raised another exception. If a validator of attrs did, the place
            is that of its field.
    """
    try:
        return cls(*arguments, **keywords)
    except StreamError:
        raise
    except Exception as error:  # of a validator or a converter of the application
        name, field = cls.__name__, _validated(cls, error)
        if field is None:
            raise Mismatch.refused(name, error) from error
        mismatch = Mismatch(f"{name} refuses the value ({kind_of(error)})")
        mismatch.within(f".{keys.get(field, field)}")
        raise mismatch from error


def _validated(cls: type, error: Exception) -> str | None:
    """Return the field whose validator of attrs raised an error: no exception says it.

    attrs gives the field to each validator, so it is among the variables of a frame.
    """
    fields = getattr(cls, "__attrs_attrs__", ())
    for frame, _ in walk_tb(error.__traceback__):
        for value in frame.f_locals.values():
            if isinstance(value, attrs.Attribute) and any(value is each for each in fields):
                return str(value.name)
    return None


def made_from(cls: type, base: Shape) -> Shape:
    """Return the shape of a subclass of str, bytes or a number."""
    return Shape(lambda value: made(cls, (base.read(value),), {}), base.takes, leaf=True)


_MISSING: Final = [kind.__dict__["_missing_"].__func__ for kind in (Enum, Flag)]
_VALUES: Final[frozenset[type]] = PLAIN_TYPES | {bytes, tuple}
"""Types of the values of enums and literals that data can have."""


def enum(cls: type[Enum], conventions: Conventions) -> Shape:
    """Return the shape of the members of an enum, read by their values or names.

    Raises:
        Unconvertible: Data cannot have its values.
    """
    name = cls.__name__
    if conventions.are_named(cls):
        return _listed(name, {(str, key): member for key, member in cls.__members__.items()})
    kinds = {type(member.value) for member in cls}
    # With a `_missing_` of its own it may accept more than the values of its members.
    lenient = getattr(cls._missing_, "__func__", None) not in _MISSING
    if not kinds <= _VALUES and not lenient:
        raise Unconvertible(f"{name} has values that are neither text nor numbers")
    takes = kinds | {list} if tuple in kinds else kinds

    def read(value: Any) -> Any:
        if type(value) is list and tuple in kinds:
            value = tuple(value)
        if type(value) not in kinds and not lenient:
            raise Mismatch.of(name, value)
        try:
            return cls(value)
        except Exception:  # `_missing_` of the application may raise anything
            raise Mismatch.another(name, value) from None

    if lenient:
        return Shape(read, frozenset(takes) | _VALUES, leaf=True, spare=_VALUES - takes)
    # The members of a Flag can be combined, so there are more values.
    table = None if issubclass(cls, Flag) else {(type(m.value), m.value): m for m in cls}
    return Shape(read, frozenset(takes), leaf=True, values=table)


def literal(name: str, values: tuple[Any, ...], conventions: Conventions) -> Shape:
    """Return the shape of literals: values and types must match; enum members go as in enums.

    Raises:
        Unconvertible: Data cannot have these values.
    """
    table = {}
    for value in values:
        plain = conventions.plain(value)
        if type(plain) not in _VALUES:
            raise Unconvertible(f"{name} has values that are neither text nor numbers")
        table[type(plain), plain] = value
    return _listed(name, table)


def _listed(name: str, table: Mapping[tuple[type, Any], Any]) -> Shape:
    """Return the shape of what is read from some plain values, with their types."""

    def read(value: Any) -> Any:
        try:
            return table[type(value), value]
        except (KeyError, TypeError):  # TypeError: a list or a dict cannot be looked up
            raise Mismatch.another(name, value) from None

    return Shape(read, frozenset([kind for kind, _ in table]), leaf=True, values=table)


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
