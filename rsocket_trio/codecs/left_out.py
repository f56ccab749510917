"""The defaults of dataclasses that msgspec leaves out: `completed`.

If a key is missing, and the class has its default as an attribute, msgspec does not set it: the
instance seems to have it. But it is not in ``vars(instance)``, where ``__init__`` puts it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping
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
            parts = {field.key: field.annotation for field in class_fields(plain)}
            return self._instance(_inherited_defaults(cls), self._parts(parts))
        if is_typed_dict(cls):
            return self._keys({key.key: key.annotation for key in typed_dict_fields(plain)})
        if is_named_tuple(cls):
            return self._places([field.annotation for field in named_tuple_fields(plain)])
        if not isinstance(cls, type) or not arguments:
            return _nothing
        if issubclass(cls, abc.Mapping):
            return self._values(arguments[1])
        if issubclass(cls, tuple) and arguments[1:] != (...,):
            return self._places(arguments)
        return self._items(arguments[0])

    def _parts(self, annotations: Mapping[Any, Any]) -> list[tuple[Any, Complete]]:
        parts = [(key, self.compiled(annotation)) for key, annotation in annotations.items()]
        return [(key, complete) for key, complete in parts if complete is not _nothing]

    def _instance(self, defaults: dict[str, Any], parts: list[tuple[str, Complete]]) -> Complete:
        if not defaults and not parts:
            return _nothing

        def complete(value: Any) -> None:
            if defaults:
                state = vars(value)
                for name, default in defaults.items():
                    if name not in state:
                        state[name] = default
            for name, complete_part in parts:
                complete_part(getattr(value, name))

        return complete

    def _keys(self, annotations: Mapping[str, Any]) -> Complete:
        parts = self._parts(annotations)

        def complete(value: Mapping[str, Any]) -> None:
            for key, complete_part in parts:
                if key in value:
                    complete_part(value[key])

        return complete if parts else _nothing

    def _places(self, annotations: abc.Sequence[Any]) -> Complete:
        parts = self._parts(dict(enumerate(annotations)))

        def complete(value: tuple[Any, ...]) -> None:
            for place, complete_part in parts:
                complete_part(value[place])

        return complete if parts else _nothing

    def _items(self, annotation: Any) -> Complete:
        complete_item = self.compiled(annotation)

        def complete(value: abc.Iterable[Any]) -> None:
            for item in value:
                complete_item(item)

        return _nothing if complete_item is _nothing else complete

    def _values(self, annotation: Any) -> Complete:
        complete_all = self._items(annotation)
        if complete_all is _nothing:
            return _nothing
        return lambda value: complete_all(value.values())


def _inherited_defaults(cls: type) -> dict[str, Any]:
    """Return the defaults of fields that the class has as attributes."""
    return {
        field.name: field.default
        for field in (dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ())
        if field.default is not dataclasses.MISSING and class_attribute(cls, field.name) is not None
    }
