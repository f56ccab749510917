"""Annotated types into plain values (dicts, lists, numbers, text): `Writers`.

Only what has to be made into something else is looked at: instances of classes, members of enums,
dates where the format has none. The rest goes as it is, and the format refuses what it has no
words for.
"""

from __future__ import annotations

import typing
from collections import abc, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from .annotations import (
    ANY,
    NONE,
    Field,
    annotation_name,
    class_fields,
    has_fields,
    is_named_tuple,
    is_typed_dict,
    members_of,
    named_tuple_fields,
    typed_dict_fields,
)
from .compiling import MAX_KNOWN, Compiled, Compiler
from .containers import as_it_is, steps_of
from .mismatch import Mismatch, Unconvertible, raise_missing
from .reading import no_way

__all__ = ["Writer", "Writers"]

Writer: TypeAlias = Callable[[Any], Any]
"""Makes a value of some type a plain one, or raises `Mismatch`."""

_PLAIN: Final = (str, bool, int, float, NONE)
_LISTS: Final = (list, tuple)
_NOTHING: Final = (typing.NoReturn, typing.Never)
_NO_LIST: Final = (str, bytes, bytearray, memoryview, abc.Mapping)


class Writers:
    """Functions that write values, by annotation.

    Args:
        leaves: How types are written that have no parts of their own, where the format has no
            values of their kind.
        kept: Types the format has values for, beside text and numbers.
        sets: Whether it has values for sets.
    """

    def __init__(
        self, leaves: Mapping[type, Writer], kept: Iterable[type] = (), *, sets: bool = False
    ) -> None:
        self.leaves: dict[type, Writer] = {
            **dict.fromkeys((*_PLAIN, *kept), as_it_is),
            PurePath: str,
            **leaves,
        }
        self.sets = sets
        self._writers: Compiled[Writer] = Compiled(lambda: _Compiler(self))
        self._of_classes: dict[type, Writer] = {}

    def writer(self, annotation: Any) -> Writer:
        """What makes a value of the annotated type a plain one, or raises `Mismatch`.

        It raises besides what attributes of the value raise, and `RecursionError` for values that
        are too deep, or contain themselves.

        Raises:
            Unconvertible: Values of that type cannot be written.
        """
        return self._writers.of(annotation)

    def anything(self, value: Any) -> Any:
        """Make a value plain by what it is, and what is in it likewise."""
        cls = type(value)
        write = self._of_classes.get(cls)
        if write is None:
            try:
                write = self.writer(cls)
            except Unconvertible:
                write = as_it_is  # the format may know it
            if len(self._of_classes) > MAX_KNOWN:
                self._of_classes.clear()
            self._of_classes[cls] = write
        return write(value)


class _Compiler(Compiler[Writer]):
    """How one annotation is written, with all the types it is made of."""

    def __init__(self, writers: Writers) -> None:
        super().__init__()
        self._all = writers

    def _reference(self, annotation: Any, whole: list[Writer]) -> Writer:
        return lambda value: whole[0](value)

    def _compile(self, annotation: Any) -> Writer:
        members = members_of(annotation)
        if not set(ANY).isdisjoint(members):
            return self._all.anything
        if len(members) > 1:
            return self._union(members)
        plain = NONE if members[0] is None else members[0]
        cls = typing.get_origin(plain) or plain
        name = annotation_name(plain)
        if cls is typing.Literal or getattr(cls, "_is_protocol", False) is True:
            return self._all.anything
        if cls in _NOTHING:
            return as_it_is
        if not isinstance(cls, type):
            raise no_way(plain)
        if issubclass(cls, Enum):
            anything = self._all.anything
            return _of(cls, name, lambda member: anything(member.value))
        if has_fields(cls):
            return self._object(class_fields(plain), cls, name)
        if is_typed_dict(cls):
            return self._typed_dict(typed_dict_fields(plain), name)
        if is_named_tuple(cls):
            parts = [(f".{field.key}", field.annotation) for field in named_tuple_fields(plain)]
            return self._positions(parts, name)
        for base in cls.__mro__:
            leaf = self._all.leaves.get(base)
            if leaf is not None:
                return leaf if leaf is as_it_is else _of(base, name, leaf)
        return self._container(plain, cls, typing.get_args(plain), name)

    def _union(self, members: tuple[Any, ...]) -> Writer:
        others = [member for member in members if member not in (None, NONE)]
        writers = [self.compiled(member) for member in others]
        if len(writers) == len(members) or len(writers) > 1:
            return self._all.anything
        write = writers[0]
        return write if write is as_it_is else lambda value: None if value is None else write(value)

    def _container(self, plain: Any, cls: Any, arguments: tuple[Any, ...], name: str) -> Writer:
        if issubclass(cls, abc.Mapping):
            return self._mapping(arguments, name)
        if cls is tuple and arguments and arguments[-1] is not ...:
            return self._positions(zip(steps_of(arguments), arguments, strict=True), name)
        if issubclass(cls, abc.Set):
            return self._set(arguments, name)
        if issubclass(cls, abc.Sequence | deque) or cls in (abc.Iterable, abc.Collection):
            return self._items(self._part("[]", arguments), name)
        raise no_way(plain)

    def _items(self, write_item: Writer, name: str) -> Writer:
        def write(value: Any) -> Any:
            if write_item is as_it_is and isinstance(value, _LISTS):
                return value
            if not isinstance(value, abc.Iterable) or isinstance(value, _NO_LIST):
                raise Mismatch.of(name, value)
            done: list[Any] = []
            add = done.append
            try:
                for item in value:
                    add(write_item(item))
            except Mismatch as error:
                error.within(f"[{len(done)}]")
                raise
            return done

        return write

    def _set(self, arguments: tuple[Any, ...], name: str) -> Writer:
        write_items = self._items(self._part("[]", arguments), name)
        if not self._all.sets:
            return write_items

        def write(value: Any) -> Any:
            done = write_items(value)
            try:
                return set(done)
            except TypeError:
                return done  # of what has become dicts or lists

        return write

    def _mapping(self, arguments: tuple[Any, ...], name: str) -> Writer:
        write_key = self._part("[key]", arguments)
        write_value = self._part("[value]", arguments[1:])

        def write(value: Any) -> Any:
            if not isinstance(value, abc.Mapping):
                raise Mismatch.of(name, value)
            if write_key is as_it_is and write_value is as_it_is and type(value) is dict:
                return value
            done: dict[Any, Any] = {}
            step = "key"
            try:
                for key, item in value.items():
                    step = "key"
                    written = write_key(key)
                    step = "value"
                    done[written] = write_value(item)
            except Mismatch as error:
                error.within(f"[{step} {len(done)}]")
                raise
            return done

        return write

    def _positions(self, parts: Iterable[tuple[str, Any]], name: str) -> Writer:
        writers = [(step, self._part(step, (annotation,))) for step, annotation in parts]

        def write(value: Any) -> list[Any]:
            if not isinstance(value, _LISTS):
                raise Mismatch.of(name, value)
            if len(value) != len(writers):
                raise Mismatch(f"expected {name}, got {len(value)} items")
            done: list[Any] = []
            try:
                for item, (_, write_item) in zip(value, writers, strict=True):
                    done.append(write_item(item))
            except Mismatch as error:
                error.within(writers[len(done)][0])
                raise
            return done

        return write

    def _object(self, fields: list[Field], cls: type, name: str) -> Writer:
        parts = self._parts(fields)

        def write(value: Any) -> dict[str, Any]:
            if not isinstance(value, cls):
                raise Mismatch.of(name, value)
            done: dict[str, Any] = {}
            key = ""
            try:
                for key, write_part in parts:
                    part = getattr(value, key)
                    done[key] = part if write_part is as_it_is else write_part(part)
            except Mismatch as error:
                error.within(f".{key}")
                raise
            return done

        return write

    def _typed_dict(self, fields: list[Field], name: str) -> Writer:
        parts = self._parts(fields)
        required = [field for field in fields if field.required]

        def write(value: Any) -> dict[str, Any]:
            if not isinstance(value, abc.Mapping):
                raise Mismatch.of(name, value)
            done: dict[str, Any] = {}
            key = ""
            try:
                for field in required:
                    key = field.key
                    if key not in value:
                        raise_missing(annotation_name(field.annotation))
                for key, write_part in parts:
                    if key in value:
                        done[key] = write_part(value[key])
            except Mismatch as error:
                error.within(f".{key}")
                raise
            return done

        return write

    def _parts(self, fields: list[Field]) -> list[tuple[str, Writer]]:
        return [(field.key, self._part(f".{field.key}", (field.annotation,))) for field in fields]

    def _part(self, step: str, annotations: tuple[Any, ...]) -> Writer:
        """What writes a part of the type the first of ``annotations``; of any type without."""
        if not annotations:
            return self._all.anything
        try:
            return self.compiled(annotations[0])
        except Unconvertible as error:
            error.within(step)
            raise


def _of(cls: type, name: str, convert: Writer) -> Writer:
    """Instances of a class only, converted."""

    def write(value: Any) -> Any:
        if not isinstance(value, cls):
            raise Mismatch.of(name, value)
        return convert(value)

    return write
