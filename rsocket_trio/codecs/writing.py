"""Annotated types into plain values (dicts, lists, numbers, text): `Writers`.

A value that is not what its annotation says raises `Mismatch`, with the place of the mistake. Most
values are plain already and go as they are. So each type has a set of classes whose instances need
no other check: one look-up for a field, and one pass in C for the items of a list.
"""

from __future__ import annotations

import typing
from collections import abc, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

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
    stripped,
    typed_dict_fields,
)
from .compiling import MAX_KNOWN, Compiled, Compiler
from .containers import as_it_is, steps_of
from .forms import (
    ACCEPTED,
    LISTED,
    PLAIN_TYPES,
    STRICT,
    Form,
    Writer,
    another,
    base_of,
    classes_of,
    instances,
    refuse,
)
from .mismatch import UNAWAITED, Mismatch, Unconvertible, raise_missing
from .reading import no_way
from .unions import writer_of

__all__ = ["Writers"]

_LISTS: Final = (list, tuple)
_NOTHING: Final = (typing.NoReturn, typing.Never)
_NO_LIST: Final = (str, bytes, bytearray, memoryview, abc.Mapping)


class Writers:
    """Functions that write values, by annotation.

    Args:
        leaves: How types without parts are written.
        kept: Types the format has values for, beside text and numbers.
        sets: Whether it has values for sets.
    """

    def __init__(
        self, leaves: Mapping[type, Writer], kept: Iterable[type] = (), *, sets: bool = False
    ) -> None:
        self.kept = PLAIN_TYPES.union(kept)
        self.leaves: dict[type, Writer] = {
            **dict.fromkeys(self.kept, as_it_is),
            PurePath: str,
            **leaves,
        }
        self.sets = sets
        self._forms: Compiled[Form] = Compiled(lambda: _Compiler(self))
        self._of_classes: dict[type, Writer] = {}

    def writer(self, annotation: Any) -> Writer:
        """Return a function that makes a value of the annotated type a plain one.

        The function raises `Mismatch` for a value of another type. It also raises what attributes
        of the value raise, and `RecursionError` for values that are too deep, or contain
        themselves.

        Raises:
            Unconvertible: Values of that type cannot be written.
        """
        return self._forms.of(annotation).write

    def anything(self, value: Any) -> Any:
        """Make a value plain by its own type, and its parts by theirs.

        Raises:
            Mismatch: It is a coroutine or an async generator.
        """
        cls = type(value)
        if cls in PLAIN_TYPES:
            return value
        write = self._of_classes.get(cls)
        if write is None:
            try:
                write = refuse if cls in UNAWAITED else self.writer(cls)
            except Unconvertible:
                write = as_it_is  # the format may know it
            if len(self._of_classes) > MAX_KNOWN:
                self._of_classes.clear()
            self._of_classes[cls] = write
        return write(value)


class _Compiler(Compiler[Form]):
    """Compiles one annotation, with all the types it is made of."""

    def __init__(self, writers: Writers) -> None:
        super().__init__()
        self._all = writers
        self._anything = Form(writers.anything, PLAIN_TYPES)

    def _reference(self, annotation: Any, whole: list[Form]) -> Form:
        return Form(lambda value: whole[0].write(value))

    def _compile(self, annotation: Any) -> Form:
        members = members_of(annotation)
        if not set(ANY).isdisjoint(members):
            return self._anything
        if len(members) > 1:
            return self._union(members, annotation_name(annotation))
        plain = NONE if members[0] is None else members[0]
        cls = typing.get_origin(plain) or plain
        name = annotation_name(plain)
        if cls is typing.Literal:
            return self._literal(typing.get_args(plain), name)
        if getattr(cls, "_is_protocol", False) is True:
            return self._anything
        if cls in _NOTHING:
            return Form(as_it_is)
        if not isinstance(cls, type):
            raise no_way(plain)
        if issubclass(cls, Enum):
            anything = self._all.anything
            for kind in {type(member.value) for member in cls}:
                self._part(".value", (kind,))
            return Form(instances((cls,), name, lambda member: anything(member.value)))
        if has_fields(cls):
            return Form(self._object(class_fields(plain), cls, name))
        if is_typed_dict(cls):
            return Form(self._typed_dict(typed_dict_fields(plain), name))
        if is_named_tuple(cls):
            parts = [(f".{field.key}", field.annotation) for field in named_tuple_fields(plain)]
            return Form(self._positions(parts, name))
        base = base_of(cls, self._all.leaves)
        if base is not None:
            return self._leaf(base, name)
        return Form(self._container(plain, cls, typing.get_args(plain), name))

    def _leaf(self, base: type, name: str) -> Form:
        accepted = ACCEPTED.get(base, (base,))
        plain = self._all.kept.intersection(accepted)
        return Form(instances(accepted, name, self._all.leaves[base]), plain)

    def _literal(self, values: tuple[Any, ...], name: str) -> Form:
        table = {(type(value), value): self._all.anything(value) for value in values}

        def write(value: Any) -> Any:
            try:
                return table[type(value), value]
            except (KeyError, TypeError):  # TypeError: it has no hash
                raise another(name, value) from None

        return Form(write)

    def _union(self, members: tuple[Any, ...], name: str) -> Form:
        forms = [self.compiled(member) for member in members]
        plain = frozenset[type]().union(*[form.plain for form in forms])
        others = [
            form for member, form in zip(members, forms, strict=True) if member not in (None, NONE)
        ]
        if len(others) == 1 and len(members) == 2:
            write_other = others[0].write
            return Form(lambda value: None if value is None else write_other(value), plain)
        of_classes: dict[type, list[tuple[Any, Form]]] = {}
        lists: list[tuple[Any, Form]] = []
        for member, form in zip(members, forms, strict=True):
            of_member = classes_of(member, self._all.leaves)
            if not of_member:
                return self._anything
            for cls in of_member:
                of_classes.setdefault(cls, []).append((member, form))
            if not {tuple, *LISTED}.isdisjoint(of_member) or is_named_tuple(member):
                lists.append((member, form))
        by_class = {cls: writer_of(name, found) for cls, found in of_classes.items()}
        if lists:
            for cls in LISTED:
                by_class.setdefault(cls, writer_of(name, lists))
        strict = STRICT.difference(by_class)

        def write(value: Any) -> Any:
            kind = type(value)
            if kind in plain:
                return value
            if kind in strict:
                raise Mismatch.of(name, value)
            # As the member says: a subclass may have fields that the peer must not see.
            for cls in kind.__mro__:
                if cls in by_class:
                    return by_class[cls](value)
            for cls, write_member in by_class.items():
                if isinstance(value, cls):
                    return write_member(value)
            raise Mismatch.of(name, value)

        return Form(write, plain)

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

    def _items(self, form: Form, name: str) -> Writer:
        write_item, plain = form.write, form.plain

        def write(value: Any) -> Any:
            if not isinstance(value, abc.Iterable) or isinstance(value, _NO_LIST):
                raise Mismatch.of(name, value)
            if isinstance(value, _LISTS) and plain.issuperset(map(type, value)):
                return value
            done: list[Any] = []
            add = done.append
            try:
                for item in value:
                    add(item if type(item) in plain else write_item(item))
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
        key_form = self._key(arguments)
        value_form = self._part("[value]", arguments[1:])
        write_key, plain_keys = key_form.write, key_form.plain
        write_value, plain_values = value_form.write, value_form.plain

        def write(value: Any) -> Any:
            if not isinstance(value, abc.Mapping):
                raise Mismatch.of(name, value)
            if (
                type(value) is dict
                and plain_keys.issuperset(map(type, value))
                and plain_values.issuperset(map(type, value.values()))
            ):
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

    def _key(self, arguments: tuple[Any, ...]) -> Form:
        """The form of keys.

        Raises:
            Unconvertible: They are written as what cannot be a key.
        """
        form = self._part("[key]", arguments)
        for member in members_of(arguments[0]) if arguments else ():
            cls = typing.get_origin(member) or member
            maps = has_fields(cls) or (isinstance(cls, type) and issubclass(cls, abc.Mapping))
            if maps or (not self._all.sets and isinstance(cls, type) and issubclass(cls, tuple)):
                raise Unconvertible(f"{annotation_name(member)} cannot be written as a key")
        return form

    def _positions(self, parts: Iterable[tuple[str, Any]], name: str) -> Writer:
        writers = [(step, self._part(step, (annotation,)).write) for step, annotation in parts]

        def write(value: Any) -> tuple[Any, ...]:
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
            return tuple(done)  # which can be a key, and is written as a list is

        return write

    def _object(self, fields: list[Field], cls: type, name: str) -> Writer:
        parts = self._parts(fields)

        def write(value: Any) -> dict[str, Any]:
            if not isinstance(value, cls):
                raise Mismatch.of(name, value)
            done: dict[str, Any] = {}
            key = ""
            try:
                for key, plain, write_part in parts:
                    part = getattr(value, key)
                    done[key] = part if type(part) in plain else write_part(part)
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
                        raise_missing(annotation_name(stripped(field.annotation)))
                for key, plain, write_part in parts:
                    if key in value:
                        part = value[key]
                        done[key] = part if type(part) in plain else write_part(part)
            except Mismatch as error:
                error.within(f".{key}")
                raise
            return done

        return write

    def _parts(self, fields: list[Field]) -> list[tuple[str, frozenset[type], Writer]]:
        forms = [
            (field.key, self._part(f".{field.key}", (field.annotation,)))
            for field in fields
            if field.stored
        ]
        return [(key, form.plain, form.write) for key, form in forms]

    def _part(self, step: str, annotations: tuple[Any, ...]) -> Form:
        """The form of the first of ``annotations``; that of anything, if there is none."""
        if not annotations:
            return self._anything
        try:
            return self.compiled(annotations[0])
        except Unconvertible as error:
            error.within(step)
            raise
