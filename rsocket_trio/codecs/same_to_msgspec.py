"""Whether an annotation means the same to msgspec as to `Readers`: `same_to_msgspec`.

msgspec reads several times as fast. But it calls no ``__init__``, sets what no constructor takes,
runs no converters, and is open to keys with equal hashes. So it gets only annotations for which it
accepts no value that the readers refuse, and makes of each value what they make of it. No code of
the application runs in it, default factories excepted, as the readers read again what it refuses.

Every rule here says yes to one thing that is known. What is not known is read by the readers alone.
"""

from __future__ import annotations

import dataclasses
import typing
from collections import abc
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, EnumMeta
from typing import Any, Final
from uuid import UUID

import attrs
import msgspec
from msgspec import inspect

from .annotations import (
    ANY,
    NONE,
    PLAIN_TYPES,
    Field,
    bounded_members,
    class_hints,
    has_fields,
    is_named_tuple,
    is_typed_dict,
)
from .compiling import Bounded
from .conventions import Conventions
from .left_out import class_attribute

__all__ = ["same_to_msgspec"]

_SCALARS: Final[dict[Any, inspect.Type]] = {
    NONE: inspect.NoneType(),
    bool: inspect.BoolType(),
    int: inspect.IntType(),
    float: inspect.FloatType(),
    str: inspect.StrType(),
    bytes: inspect.BytesType(),
    date: inspect.DateType(),
    datetime: inspect.DateTimeType(),
    time: inspect.TimeType(),
    timedelta: inspect.TimeDeltaType(),
    UUID: inspect.UUIDType(),
    Decimal: inspect.DecimalType(),
}
_LISTS: Final = (list, abc.Sequence, abc.MutableSequence, abc.Collection)
_MAPPINGS: Final = (dict, abc.Mapping, abc.MutableMapping)
_BOUNDS: Final = (
    "gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz",
)  # fmt: skip
_EXACT: Final = 2**53
"""Up to here each int is the same number as a float."""
_HOOKS: Final = ("__post_init__", "__attrs_pre_init__", "__attrs_post_init__", "__attrs_init__")


def same_to_msgspec(annotation: Any, conventions: Conventions, *, decimals: bool) -> bool:
    """Return whether msgspec may read values of an annotated type.

    Args:
        annotation: A type that `Readers` has a reader for.
        conventions: Those of the readers.
        decimals: Whether the format's decimals are read alike.
    """
    try:
        if _has_bounded_choice(annotation, set()):
            return False
        # This is what msgspec has understood, with all annotations resolved in its own way.
        understood = inspect.type_info(annotation)
    except Exception:  # any annotation may come here, and msgspec calls code of its classes
        return False
    return _Comparison(conventions, decimals).is_same(annotation, understood)


def _has_bounded_choice(annotation: Any, seen: set[Any]) -> bool:
    """Whether a part is a union of several types with bounds, also a part that no data are read as.

    msgspec 0.22 writes beyond its memory if it is only asked about some of these.
    """
    members = bounded_members(annotation)
    others = [bounds for member, bounds in members if member is not NONE]
    if len(others) > 1 and any(others):
        return True
    for member, _ in members:
        cls = typing.get_origin(member) or member
        if cls is typing.Literal or member in seen:
            continue
        seen.add(member)
        parts = [part for part in typing.get_args(member) if part is not ...]
        if has_fields(cls) or is_typed_dict(cls) or is_named_tuple(cls):
            parts += class_hints(member).values()
        if any(_has_bounded_choice(part, seen) for part in parts):
            return True
    return False


class _Comparison:
    """Compares an annotation, as the readers take it apart, with what msgspec has understood."""

    def __init__(self, conventions: Conventions, decimals: bool) -> None:
        self._conventions = conventions
        self._decimals = decimals
        self._begun: set[Any] = set()

    def is_same(self, annotation: Any, info: inspect.Type) -> bool:
        members = bounded_members(annotation)
        if any(member in ANY for member, _ in members):
            return type(info) is inspect.AnyType
        if len(members) > 1:
            return self._is_same_union(members, info)
        [(plain, bounds)] = members
        return _has_bounds(info, bounds) and self._is_same_alone(plain, info)

    def _is_same_alone(self, plain: Any, info: inspect.Type) -> bool:
        if self._conventions.models.has(typing.get_origin(plain) or plain):
            return False
        if plain is Decimal and not self._decimals:
            return False
        if plain in _SCALARS:
            return type(info) is type(_SCALARS[plain])
        cls, arguments = typing.get_origin(plain) or plain, typing.get_args(plain)
        fields = self._conventions.fields(plain)
        match info:
            case inspect.LiteralType(values=values):
                return _is_same_literal(cls, arguments, values)
            case inspect.EnumType(cls=understood):
                return cls is understood and self._is_plain_enum(understood)
            case inspect.ListType(item_type=item):
                return cls in _LISTS and self._is_same_item(arguments, item)
            case inspect.VarTupleType(item_type=item):
                is_open = not arguments or arguments[1:] == (...,)
                return cls is tuple and is_open and self._is_same_item(arguments, item)
            case inspect.TupleType(item_types=items):
                return cls is tuple and self._are_same(arguments, items)
            case inspect.SetType(item_type=item):
                return cls in (set, abc.MutableSet) and arguments == (str,) == _names(item)
            case inspect.FrozenSetType(item_type=item):
                return cls is frozenset and arguments == (str,) == _names(item)
            case inspect.DictType(key_type=key, value_type=value):
                # The hashes of text cannot be chosen by a peer.
                of_text = arguments[:1] == (str,) == _names(key)
                return cls in _MAPPINGS and of_text and self.is_same(arguments[1], value)
            case inspect.DataclassType(cls=understood, fields=parts):
                same = _is(cls, understood) and _is_made_by_fields(cls, fields)
                return same and self._have_same(plain, fields, parts)
            case inspect.StructType(cls=understood, fields=parts):
                same = _is(cls, understood) and _is_plain_struct(cls)
                stored = [each for each in fields if each.stored]
                return same and self._have_same(plain, stored, parts)
            case inspect.TypedDictType(cls=understood, fields=parts):
                same = _is(cls, understood) and is_typed_dict(cls)
                return same and self._have_same(plain, fields, parts)
            case inspect.NamedTupleType(cls=understood, fields=parts):
                same = _is(cls, understood) and is_named_tuple(cls) and _is_made_by_parts(cls)
                return same and self._have_same(plain, fields, parts)
        return False

    def _is_same_union(self, members: Bounded, info: inspect.Type) -> bool:
        if not isinstance(info, inspect.UnionType) or len(info.types) != len(members):
            return False
        if all(member in PLAIN_TYPES and not bounds for member, bounds in members):
            return all(_SCALARS[member] in info.types for member, _ in members)
        others = [each for each in members if each[0] is not NONE]
        infos = [each for each in info.types if each != _SCALARS[NONE]]
        if len(others) != 1 or len(infos) != 1:
            return False
        [(plain, bounds)], [other] = others, infos
        return _has_bounds(other, bounds) and self._is_same_alone(plain, other)

    def _is_same_item(self, arguments: tuple[Any, ...], item: inspect.Type) -> bool:
        return self.is_same(arguments[0] if arguments else Any, item)

    def _are_same(self, annotations: tuple[Any, ...], infos: tuple[inspect.Type, ...]) -> bool:
        return len(annotations) == len(infos) and all(map(self.is_same, annotations, infos))

    def _have_same(self, plain: Any, fields: list[Field], infos: tuple[inspect.Field, ...]) -> bool:
        if plain in self._begun:  # a part of itself
            return True
        self._begun.add(plain)
        known = {field.key: field for field in fields}
        return known.keys() == {info.encode_name for info in infos} and all(
            known[info.encode_name].name == info.name
            and known[info.encode_name].required == info.required
            and self.is_same(known[info.encode_name].annotation, info.type)
            for info in infos
        )

    def _is_plain_enum(self, cls: Any) -> bool:
        """Whether the values of its members, all text or all numbers, are all that it accepts."""
        values = [member.value for member in cls]
        return (
            {type(value) for value in values} in ({str}, {int})
            and set(cls._value2member_map_) == set(values)
            and values == [self._conventions.plain(member) for member in cls]
            and type(cls).__call__ is EnumMeta.__call__
            and cls._missing_.__func__ is vars(Enum)["_missing_"].__func__
        )


def _has_bounds(info: inspect.Type, bounds: list[msgspec.Meta]) -> bool:
    """Whether msgspec has just these bounds, and tests them as `check_of` does.

    Floats are compared with bounds that are floats, and it tests multiples as floats.
    """
    found = {key: getattr(info, key, None) for key in _BOUNDS}
    wanted: dict[str, Any] = dict.fromkeys(_BOUNDS)
    for meta in bounds:
        wanted |= {key: value for key in _BOUNDS if (value := getattr(meta, key)) is not None}
    numbers = [bound for bound in wanted.values() if isinstance(bound, int | float)]
    return (
        found == wanted
        and wanted["multiple_of"] is None
        and all(abs(number) <= _EXACT for number in numbers)
    )


def _is(cls: Any, understood: Any) -> bool:
    return (typing.get_origin(understood) or understood) is cls


def _names(info: inspect.Type) -> tuple[Any, ...]:
    return (str,) if info == _SCALARS[str] else ()


def _is_same_literal(cls: Any, arguments: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
    kinds = {type(value) for value in arguments}
    return cls is typing.Literal and kinds in ({str}, {int}) and set(arguments) == set(values)


def _is_made_by_parts(cls: Any) -> bool:
    """Whether the constructor of a named tuple is the generated one."""
    return (
        getattr(cls.__new__, "__globals__", {}).get("_tuple_new") is tuple.__new__
        and cls.__init__ is object.__init__
        and type(cls).__call__ is type.__call__
    )


def _is_plain_struct(cls: Any) -> bool:
    """Whether a struct is made by msgspec alone."""
    return (
        type(cls) is type(msgspec.Struct)
        and cls.__init__ is msgspec.Struct.__init__
        and cls.__new__ is msgspec.Struct.__new__
        and cls.__setattr__ is msgspec.Struct.__setattr__
        and not hasattr(cls, "__post_init__")
    )


def _is_made_by_fields(cls: Any, fields: list[Field]) -> bool:
    """Whether an instance is made by setting its fields, and by nothing else."""
    return (
        _is_generated(cls.__init__)
        and _is_for(cls, {field.argument for field in fields})
        and cls.__new__ is object.__new__
        and type(cls).__call__ is type.__call__
        and not getattr(cls, "__abstractmethods__", None)
        and not any(hasattr(cls, hook) for hook in _HOOKS)
        and _sets_plainly(cls)
        and all(_is_set_alone(cls, field) for field in fields)
        and _are_all_passed(cls)
    )


def _is_generated(function: Any) -> bool:
    """Whether attrs or dataclasses have made the code: other programs make some from text, too."""
    code = getattr(function, "__code__", None)
    if code is None or not code.co_filename.startswith("<attrs generated"):
        return code is not None and code.co_qualname == "__create_fn__.<locals>.__init__"
    # With a hash in a cache, ``__init__`` sets a field more.
    return "_attrs_cached_hash" not in (*code.co_names, *code.co_consts)


def _is_for(cls: Any, arguments: set[str]) -> bool:
    """Whether the generated constructor is that of the fields, and takes all of them.

    With ``init=False`` a class has that of a base, with the fields and the defaults of the base.
    """
    code = cls.__init__.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    marks = ("__attrs_attrs__", "__dataclass_fields__")
    owners = [base for base in cls.__mro__ if any(mark in vars(base) for mark in marks)]
    return (
        set(code.co_varnames[1:count]) == arguments
        and vars(owners[0]).get("__init__") is cls.__init__
        and not all(hasattr(cls, mark) for mark in marks)
    )


def _sets_plainly(cls: Any) -> bool:
    """Whether fields are set without a ``__setattr__`` of the class; frozen classes bypass it."""
    parameters = getattr(cls, "__dataclass_params__", None)
    return (
        cls.__setattr__ is object.__setattr__
        or cls.__setattr__.__qualname__ == "_frozen_setattrs"  # of attrs
        or (parameters is not None and parameters.frozen)
    )


def _is_set_alone(cls: type, field: Field) -> bool:
    """Whether setting a field does nothing else, and data and constructor have the same name.

    An attribute of the class could be a descriptor. A default in its place would not be set, unless
    `completed` does it.
    """
    found = class_attribute(cls, field.key)
    known = getattr(cls, "__dataclass_fields__", {}).get(field.key)
    return (
        field.key == field.name == field.argument
        and not field.key.startswith("_")
        and field.given is None
        and field.stored
        and (found is None or (known is not None and known.default is not dataclasses.MISSING))
        and not hasattr(type(found[0] if found else None), "__set__")
    )


def _are_all_passed(cls: Any) -> bool:
    """Whether the constructor takes every field, and neither converts nor checks them."""
    if attrs.has(cls):
        return all(
            each.init
            and each.converter is None
            and each.validator is None
            and not getattr(each.default, "takes_self", False)
            for each in attrs.fields(cls)
        )
    return all(each.init for each in cls.__dataclass_fields__.values())
