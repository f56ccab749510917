"""Classes that convert themselves: models of pydantic, and what users register: `Models`.

pydantic is not imported: there are no models of it before a program has done so.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, Never, TypeAlias
from uuid import UUID

from ..errors import StreamError
from ..field_checks import argument, instance_of
from .annotations import NONE, annotation_name
from .mismatch import Mismatch, kind_of
from .writable import Writer, instances

__all__ = ["Models", "Types"]

Types: TypeAlias = Mapping[type, tuple[Callable[[Never, Never], object], Callable[[Never], object]]]
"""For base classes, ``read(cls, plain)`` and ``write(value)``."""

_OF_THE_FORMATS: Final = (
    object, NONE, bool, int, float, str, bytes, list, tuple, dict, set, frozenset,
)  # fmt: skip
_ANY_VALUE: Final = frozenset(
    (*_OF_THE_FORMATS[2:], bytearray, memoryview, date, datetime, Decimal, UUID)
)
"""Types of the plain values that a class with functions of its own may be read from."""


class Models:
    """Classes that convert themselves.

    Args:
        types: What the user registers, by base class.
    """

    def __init__(self, types: Types | None = None) -> None:
        argument("types", types, instance_of(Mapping, none=True))
        self._types = dict(types or {})
        for base, functions in self._types.items():
            if not isinstance(base, type) or base in _OF_THE_FORMATS:
                raise TypeError(f"types has {base!r}, which is no class of an application")
            pair = isinstance(functions, tuple | list) and len(functions) == 2
            if not pair or not all(callable(function) for function in functions):
                raise TypeError(f"types must have (read, write) for {base.__name__}")

    def reader_of(self, annotation: Any) -> tuple[Callable[[Any], Any], frozenset[type]] | None:
        """Return what reads values of a class, and the types of the plain values that it takes.

        ``None`` means that the class does not convert itself.
        """
        cls = typing.get_origin(annotation) or annotation
        base = self._base_of(cls)
        if base is not None:
            read_as = self._types[base][0]
            return (lambda value: _read(read_as, annotation, value)), _ANY_VALUE
        if _is_model(cls):
            # A root model is read from what its root is.
            takes = _ANY_VALUE if cls.__pydantic_root_model__ else frozenset((dict,))
            names = frozenset(_names_in(cls, set()))
            return (lambda value: _validated(cls, value, names)), takes
        return None

    def writer_of(self, annotation: Any) -> Writer | None:
        """Return what makes values of a class plainer; ``None`` if it does not convert itself."""
        cls = typing.get_origin(annotation) or annotation
        base = self._base_of(cls)
        if base is not None:
            return instances((cls,), annotation_name(annotation), self._types[base][1])
        if _is_model(cls):
            return instances((cls,), cls.__name__, lambda value: _dumped(cls, value))
        return None

    def has(self, cls: Any) -> bool:
        """Whether a class converts itself."""
        return self._base_of(cls) is not None or _is_model(cls)

    def _base_of(self, cls: Any) -> type | None:
        if not self._types or not isinstance(cls, type):
            return None
        return next((base for base in cls.__mro__ if base in self._types), None)


def _read(read_as: Callable[[Any, Any], Any], annotation: Any, value: Any) -> Any:
    try:
        return read_as(annotation, value)
    except (Mismatch, StreamError):
        raise
    except Exception as error:  # the function is the user's
        raise Mismatch.refused(annotation_name(annotation), error) from error


def _is_model(cls: Any) -> bool:
    model = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    if not isinstance(model, type) or not isinstance(cls, type):
        return False
    return issubclass(cls, model) and hasattr(cls, "__pydantic_serializer__")


def _dumped(cls: Any, value: Any) -> Any:
    # As the annotated class: a subclass may have fields that the peer must not see. And a warning
    # shows values.
    serializer = cls.__pydantic_serializer__
    return serializer.to_python(value, mode="json", by_alias=True, warnings="error")


def _validated(cls: Any, value: Any, names: frozenset[str]) -> Any:
    try:
        return cls.model_validate(value)
    except StreamError:
        raise
    except Exception as error:  # of a validator, which is the application's
        first, *others = _mistakes(cls, error, names)
        first.gather(("", _raise, other) for other in others)
        raise first from None  # whose text shows the value


def _raise(error: Mismatch) -> typing.NoReturn:
    raise error


def _mistakes(cls: Any, error: Exception, names: frozenset[str]) -> Iterator[Mismatch]:
    errors: Any = getattr(error, "errors", None)
    if not callable(errors):
        yield Mismatch(f"refused by {cls.__name__} ({kind_of(error)})")
        return
    for each in errors(include_input=False, include_url=False, include_context=False):
        mismatch = Mismatch(f"refused by {cls.__name__} ({each['type']})")
        for step in reversed(each["loc"]):
            is_place = isinstance(step, int)
            # Other text may be a key of the peer.
            mismatch.within(f"[{step}]" if is_place else f".{step}" if step in names else "[...]")
        yield mismatch


def _names_in(annotation: Any, seen: set[Any]) -> Iterator[str]:
    """Return the names of the fields of a model, and of the models in it."""
    for part in typing.get_args(annotation):
        yield from _names_in(part, seen)
    fields = getattr(annotation, "model_fields", None)
    if not isinstance(annotation, type) or not isinstance(fields, dict) or annotation in seen:
        return
    seen.add(annotation)
    for name, field in fields.items():
        aliases = (field.alias, field.validation_alias)
        yield from (name, *[alias for alias in aliases if isinstance(alias, str)])
        yield from _names_in(field.annotation, seen)
