"""The defaults of dataclasses that msgspec leaves out: `completed`.

If a key is missing, and the class has its default as an attribute, msgspec does not set it: the
instance seems to have it. But it is not in ``vars(instance)``, where ``__init__`` puts it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import abc
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final, TypeAlias

from .annotations import (
    NONE,
    class_fields,
    has_fields,
    is_named_tuple,
    is_typed_dict,
    members_of,
    named_tuple_fields,
    typed_dict_fields,
)
from .compiling import Compiler

__all__ = ["class_attribute", "completed"]

Complete: TypeAlias = Callable[[Any], object]
"""Completes the instances in a value."""

_ABSENT: Final = object()


def completed(read: Callable[[Any], Any], annotation: Any) -> Callable[[Any], Any]:
    """Return a function that reads values by msgspec, and adds what it leaves out.

    Args:
        read: Reads values of the type, by msgspec.
        annotation: The type, which means the same to msgspec.
    """
    complete = _Compiler().whole(annotation)
    if complete is _nothing:
        return read

    def read_and_complete(data: Any) -> Any:
        value = read(data)
        complete(value)
        return value

    return read_and_complete


def class_attribute(cls: type, name: str) -> tuple[Any] | None:
    """Return what the class has under the name of a field, in a tuple; ``None`` if it has nothing.

    A slot is nothing.
    """
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), _ABSENT)
    is_slot = isinstance(found, types.MemberDescriptorType)
    return None if found is _ABSENT or is_slot else (found,)


def _nothing(_: Any) -> None:
    """Complete what has no instances with defaults."""


class _Compiler(Compiler[Complete]):
    def _reference(self, annotation: Any, whole: list[Complete]) -> Complete:
        return lambda value: whole[0](value)

    def _compile(self, annotation: Any) -> Complete:
        members = members_of(annotation)
        others = [member for member in members if member not in (None, NONE)]
        if len(others) != 1:
            return _nothing  # scalars
        complete = self._of(others[0])
        if complete is _nothing or len(members) == 1:
            return complete
        return lambda value: None if value is None else complete(value)

    def _of(self, plain: Any) -> Complete:
        cls: Any = typing.get_origin(plain) or plain
        arguments = typing.get_args(plain)
        if has_fields(cls):
            fields = [
                (attrgetter(each.name), each.annotation)
                for each in class_fields(plain)
                if each.stored
            ]
            return _with_defaults(self._parts(fields), _inherited_defaults(cls))
        if is_typed_dict(cls):
            return self._parts(
                [(_getter(each.key), each.annotation) for each in typed_dict_fields(plain)]
            )
        if is_named_tuple(cls):
            fields = [(attrgetter(each.key), each.annotation) for each in named_tuple_fields(plain)]
            return self._parts(fields)
        if not isinstance(cls, type) or not arguments:
            return _nothing
        if issubclass(cls, abc.Mapping):
            return self._items(lambda value: value.values(), arguments[1])
        if issubclass(cls, tuple) and arguments[1:] != (...,):
            places = enumerate(arguments)
            return self._parts([(itemgetter(place), each) for place, each in places])
        return self._items(iter, arguments[0])

    def _parts(self, parts: Sequence[tuple[Callable[[Any], Any], Any]]) -> Complete:
        done = [(get, self.compiled(annotation)) for get, annotation in parts]
        kept = [(get, complete) for get, complete in done if complete is not _nothing]

        def complete(value: Any) -> None:
            for get, complete_part in kept:
                part = get(value)
                if part is not None:  # a default, whatever the type; or the key is missing
                    complete_part(part)

        return complete if kept else _nothing

    def _items(self, items_of: Callable[[Any], Iterable[Any]], annotation: Any) -> Complete:
        complete_item = self.compiled(annotation)

        def complete(value: Any) -> None:
            for item in items_of(value):
                complete_item(item)

        return _nothing if complete_item is _nothing else complete


def _with_defaults(complete_parts: Complete, defaults: dict[str, Any]) -> Complete:
    if not defaults:
        return complete_parts
    has_parts = complete_parts is not _nothing

    def complete(value: Any) -> None:
        state = vars(value)
        for name, default in defaults.items():
            if name not in state:
                state[name] = default
        if has_parts:
            complete_parts(value)

    return complete


def _getter(key: str) -> Callable[[Any], Any]:
    return lambda value: value.get(key)


def _inherited_defaults(cls: type) -> dict[str, Any]:
    """Return the defaults of fields that the class has as attributes."""
    return {
        field.name: field.default
        for field in (dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ())
        if field.default is not dataclasses.MISSING and class_attribute(cls, field.name) is not None
    }
