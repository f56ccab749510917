"""The defaults of dataclasses that msgspec leaves out: `completion_of`.

If a key is missing, and the class has its default as an attribute, msgspec does not set it: the
instance seems to have it. But it is not in ``vars(instance)``, where ``__init__`` puts it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from .annotations import fields_of, has_fields, is_named_tuple, is_typed_dict, members_of

__all__ = ["class_attribute", "completion_of"]

_ABSENT: Final = object()

Parts: TypeAlias = dict[Any, dict[str, set[Any]]]
"""For each class, the names of its fields, and the classes in the annotation of each."""


def completion_of(annotation: Any) -> Callable[[Any], None] | None:
    """Return a function that adds to a value of msgspec what it leaves out.

    Args:
        annotation: The type of the value, which means the same to msgspec.

    Returns:
        ``None`` if msgspec leaves nothing out of it.
    """
    parts: Parts = {}
    _classes_in(annotation, parts, set())
    found = {cls for cls in parts if _inherited_defaults(cls)}
    known: set[Any] = set()
    while found != known:  # until there is no other class with one of them in a field
        known = set(found)
        found |= {cls for cls in parts if any(map(known.intersection, parts[cls].values()))}
    if not found:
        return None
    # Other fields are not looked at: they may have any number of items.
    table = {
        cls: (
            len(parts[cls]),
            _inherited_defaults(cls).items(),
            [name for name, classes in parts[cls].items() if classes & found],
        )
        for cls in found
    }
    kinds = {list, tuple, dict, *table}

    def complete(value: Any) -> None:
        kind = type(value)
        if kind in table:
            count, defaults, names = table[kind]
            if defaults and len(state := value.__dict__) < count:
                for name, default in defaults:
                    if name not in state:
                        state[name] = default
            for name in names:
                part = getattr(value, name)
                if part is not None:
                    complete(part)
        elif kind in kinds:
            items = value.values() if kind is dict else value
            if not kinds.isdisjoint(map(type, items)):
                for item in items:
                    complete(item)

    return complete


def _classes_in(annotation: Any, parts: Parts, seen: set[Any]) -> set[Any]:
    """Return the classes in an annotation; those in their fields are added to ``parts``."""
    found: set[Any] = set()
    for plain in members_of(annotation):
        cls = typing.get_origin(plain) or plain
        if not (has_fields(cls) or is_typed_dict(cls) or is_named_tuple(cls)):
            arguments = () if cls is typing.Literal else typing.get_args(plain)
            found.update(*[_classes_in(each, parts, seen) for each in arguments])
            continue
        found.add(cls)
        if plain not in seen:
            seen.add(plain)
            of_class = parts.setdefault(cls, {})
            for field in fields_of(plain):
                classes = _classes_in(field.annotation, parts, seen)
                of_class.setdefault(field.name, set()).update(classes)
    return found


def class_attribute(cls: type, name: str) -> tuple[Any] | None:
    """Return what the class has under the name of a field, in a tuple; ``None`` if it has nothing.

    A slot is nothing.
    """
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), _ABSENT)
    is_slot = isinstance(found, types.MemberDescriptorType)
    return None if found is _ABSENT or is_slot else (found,)


def _inherited_defaults(cls: type) -> dict[str, Any]:
    """Return the defaults of fields that the class has as attributes."""
    return {
        field.name: field.default
        for field in (dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ())
        if field.default is not dataclasses.MISSING and class_attribute(cls, field.name) is not None
    }
