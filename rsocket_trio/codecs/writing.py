"""Annotated types into plain values (dicts, lists, numbers, text): `Writers`.

A value that is not what its annotation says raises `Mismatch`, with the place of the mistake. Most
values are plain already and go as they are. So each type has a set of classes whose instances need
no other check: one look-up for a field, and one pass in C for the items of a list.
"""

from __future__ import annotations

import typing
from collections import abc, deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from keyword import iskeyword
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, Final

import msgspec

from .annotations import (
    NONE,
    OCTETS,
    Field,
    annotation_name,
    has_fields,
    is_named_tuple,
    is_typed_dict,
    members_of,
    stripped,
)
from .compiling import Bounded, Converters, Kept
from .conventions import Conventions
from .mismatch import UNAWAITED, Mismatch, Unconvertible, kind_of, raise_missing
from .readable import as_it_is, steps_of
from .reading import no_way
from .unions import writer_of
from .writable import (
    ACCEPTED,
    LISTED,
    STRICT,
    Form,
    Writer,
    base_of,
    classes_of,
    instances,
    refuse,
    scan_by_msgspec,
)

__all__ = ["Writers", "attribute"]

_LISTS: Final = (list, tuple)
_NOTHING: Final = (typing.NoReturn, typing.Never)
_OBJECT: Final = """
def write(value):
    key = None
    try:
        {0}
        return {{{1}}}
    except Mismatch as error:
        if key is not None:
            error.within("." + key)
        raise

def write_all(values, done):
    key = None
    try:
        for value in values:
            {2}
            done.append({{{1}}})
    except Mismatch as error:
        if key is not None:
            error.within("." + key)
        raise
"""
"""The code of the writers of a class. Nothing but names of its fields is put into it."""
_NO_LIST: Final = (str, *OCTETS, abc.Mapping)


class Writers:
    """Functions that write values, by annotation.

    Args:
        leaves: How types without parts are written, beside those that are kept.
        kept: Types whose own values are in the format already. Those of subclasses are written as
            ``leaves`` says.
        conventions: The names of fields, and what enums are written as.
        key: Makes a key of what is written for it.
        kept_keys: Those of ``kept`` whose values are keys already.
        among_others: How types are written in a union, if not as elsewhere.
        check_key: Raises for the type of keys that cannot be read again; for a format whose keys
            are text.
        sets: Whether the format has values for sets.
        unknown: Writes values of classes that nothing is known of; it may refuse them.
    """

    def __init__(
        self,
        leaves: Mapping[type, Writer],
        kept: frozenset[type],
        conventions: Conventions,
        *,
        key: Writer,
        kept_keys: frozenset[type],
        among_others: Mapping[type, Writer] = MappingProxyType({}),
        check_key: Callable[[Any], object] | None = None,
        sets: bool = False,
        unknown: Writer = refuse,
    ) -> None:
        self.kept = frozenset([kind for kind in kept if not conventions.models.has(kind)])
        self.conventions = conventions
        self.leaves: dict[type, Writer] = {**dict.fromkeys(kept, as_it_is), PurePath: str, **leaves}
        self.key = key
        self.kept_keys = kept_keys
        self.among_others = {
            kind: Form(instances((kind,), kind.__name__, write))
            for kind, write in among_others.items()
        }
        self.check_key = check_key
        self.sets = sets
        self.unknown = unknown
        self._forms = Kept(self._compiled)
        self._of_classes: Kept[Writer] = Kept(self._of_class)

    def _compiled(self, annotation: Any) -> tuple[Writer, bool]:
        compiler = _Compiler(self)
        return compiler.whole(annotation).write, compiler.is_deep

    def writer(self, annotation: Any) -> Writer:
        """Return a function that makes a value of the annotated type a plain one.

        The function raises `Mismatch` for a value of another type. It also raises what attributes
        of the value raise, and `RecursionError` for values that are too deep, or contain
        themselves.

        Raises:
            Unconvertible: Values of that type cannot be written.
        """
        return self._forms.of(annotation)[0]

    def any_writer(self, annotation: Any) -> tuple[Writer, bool]:
        """Return `writer`, and whether its values may have any number of levels.

        The writer is `anything` for a name or a class that is not known here.

        Raises:
            Unconvertible: A part of the type cannot be written.
        """
        try:
            return self._forms.of(annotation)
        except Unconvertible:
            if typing.get_origin(annotation) is not None:
                raise
            return self.anything, True

    def anything(self, value: Any) -> Any:
        """Make a value plain by its own type, and its parts by theirs.

        Raises:
            Mismatch: It is a coroutine or an async generator.
        """
        cls = type(value)
        if cls in self.kept:
            return value
        return self._of_classes.of(cls)(value)

    def _of_class(self, cls: type) -> Writer:
        try:
            return refuse if cls in UNAWAITED else self.writer(cls)
        except Unconvertible:
            return self.unknown


class _Compiler(Converters[Form]):
    """Compiles one annotation, with all the types it is made of."""

    def __init__(self, writers: Writers) -> None:
        super().__init__()
        self._all = writers
        self.is_deep = False

    @property
    def _anything(self) -> Form:
        self.is_deep = True
        return Form(self._all.anything, self._all.kept)

    def _reference(self, annotation: Any, whole: list[Form]) -> Form:
        self.is_deep = True
        return Form(lambda value: whole[0].write(value))

    def _checked(self, form: Form, check: Callable[[Any], None]) -> Form:
        write_any = form.write

        def write(value: Any) -> Any:
            done = write_any(value)
            check(value)
            return done

        return Form(write)

    def _of(self, plain: Any, cls: Any, name: str) -> Form:
        if cls is typing.Literal:
            return self._literal(typing.get_args(plain), name)
        if getattr(cls, "_is_protocol", False) is True:
            return self._anything
        if cls in _NOTHING:
            return Form(as_it_is)
        if not isinstance(cls, type):
            raise no_way(plain)
        conventions = self._all.conventions
        write = conventions.models.writer_of(plain)
        if write is not None:
            return self._model(write)
        if issubclass(cls, Enum):
            if conventions.are_named(cls):
                return Form(instances((cls,), name, lambda member: member.name))
            anything = self._all.anything
            for kind in {type(member.value) for member in cls}:
                self._part(".value", (kind,))
            return Form(instances((cls,), name, lambda member: anything(member.value)))
        if has_fields(cls):
            return self._object(conventions.fields(plain), cls, name)
        if is_typed_dict(cls):
            return Form(self._typed_dict(conventions.fields(plain), name))
        if is_named_tuple(cls):
            parts = [(f".{field.key}", field.annotation) for field in conventions.fields(plain)]
            return Form(self._positions(parts, name))
        base = base_of(cls, self._all.leaves)
        if base is not None:
            return self._leaf(base, name)
        return Form(self._container(plain, cls, typing.get_args(plain), name))

    def _model(self, write: Writer) -> Form:
        write_plain = self._anything.write
        return Form(lambda value: write_plain(write(value)))

    def _leaf(self, base: type, name: str) -> Form:
        accepted = ACCEPTED.get(base, (base,))
        plain = self._all.kept.intersection((base,))
        write = instances(accepted, name, self._all.leaves[base])
        if plain and base in (int, str):
            return Form(write, plain, are_plain=scan_by_msgspec(base))
        return Form(write, plain, finite=base is float and float not in self._all.kept)

    def _literal(self, values: tuple[Any, ...], name: str) -> Form:
        table = {(type(value), value): self._all.anything(value) for value in values}

        def write(value: Any) -> Any:
            try:
                return table[type(value), value]
            except (KeyError, TypeError):  # TypeError: it has no hash
                raise Mismatch.another(name, value) from None

        return Form(write)

    def _union(self, members: Bounded, name: str) -> Form:
        conventions = self._all.conventions
        listed = _listed([member for member, _ in members], conventions)
        others = [each for each in members if each[0] not in (None, NONE)]
        if len(others) == 1 and len(members) == 2 and (NONE, None) not in listed:
            [(_, other)] = self._members(others)
            write_other = other.write
            optional = other.plain | {NONE}
            return Form(
                lambda value: None if value is None else write_other(value), optional, other.finite
            )
        forms = self._members(members, self._all.among_others)
        if listed:
            forms = [(member, _not_listed(form, listed, name)) for member, form in forms]
        plain = frozenset[type]().union(*[form.plain for _, form in forms])
        of_classes: dict[type, list[tuple[Any, Form]]] = {}
        lists: list[tuple[Any, Form]] = []
        for member, form in forms:
            cls = typing.get_origin(member) or member
            converts_itself = self._all.conventions.models.has(cls)
            of_member = (cls,) if converts_itself else classes_of(member, self._all.leaves)
            if not of_member:
                return self._anything
            for cls in of_member:
                of_classes.setdefault(cls, []).append((member, form))
            if not {tuple, *LISTED}.isdisjoint(of_member) or is_named_tuple(member):
                lists.append((member, form))
        by_class = {cls: writer_of(name, found, conventions) for cls, found in of_classes.items()}
        if lists:
            for cls in LISTED:
                by_class.setdefault(cls, writer_of(name, lists, conventions))
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
        write_item, write_all = form.write, form.write_all
        plain, are_plain = form.plain, form.are_plain

        def write(value: Any) -> Any:
            if type(value) in _LISTS:
                if are_plain(value):
                    return value
            elif not isinstance(value, abc.Iterable) or isinstance(value, _NO_LIST):
                raise Mismatch.of(name, value)
            done: list[Any] = []
            add = done.append
            try:
                if not plain:
                    write_all(value, done)
                    return done
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
                members = frozenset(done)  # which can be a key, and a member of another
            except TypeError:
                return done  # of what has become dicts or lists
            if len(members) < len(value):
                raise Mismatch(f"expected {name}, got items that are written alike")
            return members

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
            if len(done) < len(value):
                raise Mismatch(f"expected {name}, got keys that are written alike")
            return done

        return write

    def _key(self, arguments: tuple[Any, ...]) -> Form:
        """The form of keys.

        Raises:
            Unconvertible: They are written as what cannot be a key, or is not read as one.
        """
        form = self._part("[key]", arguments)
        for member in members_of(arguments[0]) if arguments else ():
            cls = typing.get_origin(member) or member
            maps = has_fields(cls) or self._all.conventions.models.has(cls)
            maps = maps or (isinstance(cls, type) and issubclass(cls, abc.Mapping))
            if maps or (not self._all.sets and isinstance(cls, type) and issubclass(cls, tuple)):
                raise Unconvertible(f"{annotation_name(member)} cannot be written as a key")
        if arguments and self._all.check_key is not None:
            self._all.check_key(arguments[0])
        elif arguments and len(members_of(arguments[0])) > 1:
            return form  # text might be read as another member
        write, make_key = form.write, self._all.key
        return Form(lambda key: make_key(write(key)), form.plain & self._all.kept_keys)

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

    def _object(self, fields: list[Field], cls: type, name: str) -> Form:
        """The form of a class, made as code: it takes a third of the time of a loop."""
        names: dict[str, Any] = {"cls": cls, "name": name, "Mismatch": Mismatch}
        lines = ["if not isinstance(value, cls):", "    key = None"]
        lines.append("    raise Mismatch.of(name, value)")
        done = []
        if issubclass(cls, msgspec.Struct) and cls.__struct_config__.tag_field is not None:
            names["tag"] = cls.__struct_config__.tag
            done.append(f"{cls.__struct_config__.tag_field!r}: tag")
        unset = []
        for number, (field, form) in enumerate(self._forms_of(fields)):
            names |= {f"plain{number}": form.plain, f"write{number}": form.write}
            part = f"part{number}"
            is_other = f"type({part}) not in plain{number}"
            if len(form.plain) == 1:
                is_other = f"type({part}) is not kind{number}"
                [names[f"kind{number}"]] = form.plain
            if form.finite:
                is_infinite = f"(type({part}) is not float or {part} - {part})"
                is_other = f"{is_infinite} and {is_other}" if form.plain else is_infinite
            if field.unset:
                is_other = f"{part} is not unset and ({is_other})"
                unset.append(field.key)
            lines += [
                f"{part} = {attribute(field.name)}",
                f"if {is_other}:",
                f"    key = {field.key!r}",
                f"    {part} = write{number}({part})",
            ]
            done.append(f"{field.key!r}: {part}")
        names["unset"] = msgspec.UNSET
        one, each = [f"\n{' ' * depth}".join(lines) for depth in (8, 12)]
        exec(_OBJECT.format(one, ", ".join(done), each), names)
        if unset:
            return Form(_without_unset(names["write"], unset))
        return Form(names["write"], write_all=names["write_all"])

    def _typed_dict(self, fields: list[Field], name: str) -> Writer:
        parts = [(field.key, form.plain, form.write) for field, form in self._forms_of(fields)]
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

    def _forms_of(self, fields: list[Field]) -> list[tuple[Field, Form]]:
        return [
            (field, self._part(f".{field.key}", (field.annotation,)))
            for field in fields
            if field.stored
        ]


def _without_unset(write_all: Writer, keys: list[str]) -> Writer:
    def write(value: Any) -> Any:
        done = write_all(value)
        for key in keys:
            if done[key] is msgspec.UNSET:
                del done[key]
        return done

    return write


def attribute(name: str) -> str:
    """Return the expression for a field of ``value``; other names than usual ones stay data."""
    is_usual = name.isascii() and name.isidentifier() and not iskeyword(name)
    return f"value.{name}" if is_usual else f"getattr(value, {name!r})"


def _listed(members: list[Any], conventions: Conventions) -> dict[tuple[type, Any], Any]:
    """Return what enums and literals of a union are read from, with its type; and as what."""
    listed: dict[tuple[type, Any], Any] = {}
    for member in members:
        values: Iterable[Any] = ()
        if typing.get_origin(member) is typing.Literal:
            values = typing.get_args(member)
        elif isinstance(member, type) and issubclass(member, Enum):
            values = member
        for value in values:
            plain = conventions.plain(value)
            listed[type(plain), plain] = value
    return listed


def _not_listed(form: Form, listed: dict[tuple[type, Any], Any], name: str) -> Form:
    """Return a form that refuses what a peer would read as another value, that of an enum."""
    kinds = frozenset(kind for kind, _ in listed)

    def write(value: Any) -> Any:
        done = form.write(value)
        if type(done) in kinds and listed.get((type(done), done), value) != value:
            raise Mismatch(f"expected {name}, got a {kind_of(value)} that is read as another value")
        return done

    return Form(write, form.plain - kinds)
