"""The form of a type: how its values are written, and which values it has: `Form`."""

from __future__ import annotations

import typing
from collections import abc, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from operator import countOf, not_
from typing import Any, Final, TypeAlias

import attrs
import msgspec

from .annotations import OCTETS, has_fields, is_named_tuple, is_typed_dict
from .mismatch import UNAWAITED, Mismatch, kind_of

__all__ = [
    "ACCEPTED",
    "LISTED",
    "STRICT",
    "Form",
    "Writer",
    "base_of",
    "classes_of",
    "instances",
    "refuse",
    "scan_by_msgspec",
]

Writer: TypeAlias = Callable[[Any], Any]
"""Converts a value of some type to a plain value, or raises `Mismatch`."""

ACCEPTED: Final[Mapping[type, tuple[type, ...]]] = {float: (float, int), bytes: OCTETS}
"""Classes whose instances are values of a type, for types with more than their own instances."""
LISTED: Final = (abc.Set, abc.Sequence, deque)
"""Classes of values that are written as a list."""
STRICT: Final[frozenset[type]] = frozenset((bool, str, *OCTETS))
"""Python treats values of these types as numbers or sequences, but peers do not."""


@attrs.frozen
class Form:
    """How values of one type are written.

    Attributes:
        write: Writes one value.
        plain: Values of exactly these types are written unchanged, without a call of `write`.
        finite: So are floats that are neither NaN nor infinite.
        write_all: Writes some values, one after the other, to the end of a list.
        are_plain: Whether all items of a list or tuple are written unchanged, as far as this is
            found in one pass in C.
    """

    write: Writer
    plain: frozenset[type] = frozenset()
    finite: bool = False
    write_all: Callable[[Iterable[Any], list[Any]], None] = attrs.field(
        default=attrs.Factory(lambda form: _one_by_one(form.write), takes_self=True), kw_only=True
    )
    are_plain: Callable[[Sequence[Any]], bool] = attrs.field(
        default=attrs.Factory(lambda form: _scan(form.plain, form.finite), takes_self=True),
        kw_only=True,
    )


def _one_by_one(write: Writer) -> Callable[[Iterable[Any], list[Any]], None]:
    return lambda values, done: done.extend(map(write, values))  # up to the one that is refused


_MANY: Final = 100
"""Items that msgspec scans faster: first it has to find out what it is asked for."""


def _scan(plain: frozenset[type], finite: bool) -> Callable[[Sequence[Any]], bool]:
    if not plain and not finite:
        return not_
    if len(plain) + finite > 1:
        return lambda items: plain.issuperset(map(type, items))
    [kind] = plain or (float,)

    def are_plain(items: Sequence[Any]) -> bool:
        if countOf(map(type, items), kind) != len(items):
            return False
        if finite:
            total = sum(items)  # which is no number if one of them is none
            return not total - total
        return True

    return are_plain


def scan_by_msgspec(kind: Any) -> Callable[[Sequence[Any]], bool]:
    """Return `Form.are_plain` for numbers or texts whose subclasses are written unchanged, too.

    Many of them take a third of the time. msgspec accepts instances of subclasses, but no booleans
    as numbers, and no members of enums that are not numbers or texts themselves.
    """
    convert = partial(msgspec.convert, type=list[kind])
    are_few_plain = _scan(frozenset((kind,)), finite=False)

    def are_plain(items: Sequence[Any]) -> bool:
        if len(items) < _MANY:
            return are_few_plain(items)
        try:
            convert(items)
        except Exception:  # its text shows the value, which may be no text that can be encoded
            return False
        return True

    return are_plain


def base_of(cls: type, leaves: Mapping[type, Writer]) -> type | None:
    """Return the class itself or the nearest of its bases that the format writes as a whole."""
    return next((base for base in cls.__mro__ if base in leaves), None)


def classes_of(member: Any, leaves: Mapping[type, Writer]) -> tuple[type, ...]:
    """Return the classes of the values of one member of a union; empty if they can be of any.

    Values of other `LISTED` classes are written as lists, tuples and sets, too, if no member has
    their class.
    """
    cls = typing.get_origin(member) or member
    if cls is typing.Literal:
        return tuple([type(value) for value in typing.get_args(member)])
    if not isinstance(cls, type) or getattr(cls, "_is_protocol", False) is True:
        return ()
    if issubclass(cls, Enum) or has_fields(cls):
        return (cls,)
    base = base_of(cls, leaves)
    if base is not None:
        return ACCEPTED.get(base, (base,))
    if issubclass(cls, abc.Mapping) or is_typed_dict(cls):
        return (abc.Mapping,)
    if issubclass(cls, tuple):
        return (cls if is_named_tuple(cls) else tuple,)
    if issubclass(cls, abc.Set):
        return (abc.Set,)
    return LISTED if cls in (abc.Iterable, abc.Collection) else (abc.Sequence, deque)


def instances(accepted: tuple[type, ...], name: str, convert: Writer) -> Writer:
    """Return a writer of the instances of some classes, and of no others."""
    strict = STRICT.difference(accepted)

    def write(value: Any) -> Any:
        if type(value) in strict or not isinstance(value, accepted):
            raise Mismatch.of(name, value)
        return convert(value)

    return write


def refuse(value: object) -> typing.NoReturn:
    """Refuse a value that no format can write.

    Raises:
        Mismatch: Always.
    """
    if isinstance(value, UNAWAITED):
        raise Mismatch.of("a value", value)
    kind = kind_of(value)
    raise Mismatch(f"this format has no {kind}: convert it, or register it in Codecs(types=...)")
