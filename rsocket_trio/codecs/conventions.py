"""What holds beside a format: names of fields, what enums are, own conversions: `Conventions`."""

from __future__ import annotations

import typing
from enum import Enum, Flag
from typing import Any, Literal

import attrs
import msgspec

from ..field_checks import one_of, optional
from .annotations import Field, fields_of, has_fields
from .mismatch import Unconvertible
from .models import Models

__all__ = ["Conventions"]


@attrs.frozen
class Conventions:
    """How the names of fields and the members of enums are written in data.

    Attributes:
        rename: ``camel`` for ``orderId`` in place of ``order_id``, in attrs classes and
            dataclasses; ``None`` for the names of the fields. ``rsocket_trio.name`` in the metadata
            of a field comes first.
        enums: Whether members are written by their ``value`` or by their ``name``. A Flag is always
            its value: combined members have no name.
        models: Classes that convert themselves.
    """

    rename: Literal["camel"] | None = attrs.field(default=None, validator=optional(one_of("camel")))
    enums: Literal["value", "name"] = attrs.field(
        default="value", validator=one_of("value", "name")
    )
    models: Models = attrs.field(factory=Models)

    def fields(self, annotation: Any) -> list[Field]:
        """Return `fields_of` an annotation, with their names in data.

        Raises:
            Unconvertible: An annotation cannot be resolved, or two fields have one name.
        """
        fields = fields_of(annotation)
        cls = typing.get_origin(annotation) or annotation
        renames = has_fields(cls) and not issubclass(cls, msgspec.Struct)  # it has its own
        if self.rename is not None and renames:
            fields = [
                attrs.evolve(field, key=_camel(field.name)) if field.key == field.name else field
                for field in fields
            ]
        owners: dict[str, str] = {}
        for field in fields:
            other = owners.setdefault(field.key, field.name)
            if other != field.name:
                raise Unconvertible(f"{other!r} and {field.name!r} are both {field.key!r} in data")
        return fields

    def are_named(self, cls: type[Enum]) -> bool:
        """Whether the members of an enum are written by their names."""
        return self.enums == "name" and not issubclass(cls, Flag)

    def plain(self, value: Any) -> Any:
        """Return what a member of an enum is written as, and another value as it is."""
        if not isinstance(value, Enum):
            return value
        return value.name if self.are_named(type(value)) else value.value


def _camel(name: str) -> str:
    """Return the name in Java of a field: ``from_`` has an underscore only because of Python."""
    bare = name.lstrip("_")
    first, *others = [part for part in bare.split("_") if part] or [bare]
    words = [word[0].upper() + word[1:] for word in others]
    return name[: len(name) - len(bare)] + first + "".join(words)
