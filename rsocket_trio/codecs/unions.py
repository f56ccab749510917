"""The choice of the member of a union: `choice_of` for reading, `writer_of` for writing.

The type of the value decides. Among classes a key decides that only one of them has, or the value
of a `Literal` that all have. The values of enums and literals come before others of their type.
Members are not read one after the other: with unions inside unions that would take as many attempts
as there are combinations.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any, Final
from uuid import UUID

from .annotations import Field, annotation_name, is_typed_dict, stripped
from .conventions import Conventions
from .mismatch import Mismatch, Unconvertible, kind_of
from .readable import DICT, Reader, Shape
from .writable import Form, Writer

__all__ = ["choice_of", "writer_of"]

_ABSENT: Final = object()
_TEXTS: Final = frozenset((date, datetime, time, timedelta, UUID))
"""Types that are read from texts of different forms. Decimals and base64 may look like dates."""
_NUMBERS: Final = frozenset((int, float))
"""An int is read as int; without fractions it is the same number as a float."""


def choice_of(name: str, members: list[tuple[Any, Shape]], conventions: Conventions) -> Shape:
    """Return the shape of a union.

    Args:
        name: The name of the union, for messages.
        members: Its members, stripped and flat; `Any` is not among them.
        conventions: Those of the readers.

    Raises:
        Unconvertible: Values of two members cannot be told apart.
    """
    hopes: dict[type, list[tuple[Any, Shape]]] = {}
    for member, shape in members:
        for kind in shape.takes:
            hopes.setdefault(kind, []).append((member, shape))
    chosen = {
        kind: _chosen(name, kind, candidates, conventions) for kind, candidates in hopes.items()
    }
    table = {kind: read for kind, read in chosen.items() if read is not None}
    of_mappings = table.get(dict)

    def read(value: Any) -> Any:
        reader = table.get(type(value))
        if reader is None:
            if of_mappings is None or not isinstance(value, Mapping):
                raise Mismatch.of(name, value)
            reader = of_mappings
        return reader(value)

    plain = [
        kind
        for kind, candidates in hopes.items()
        if len(candidates) == 1 and kind in candidates[0][1].plain
    ]
    leaf = all(shape.leaf for _, shape in members)
    return Shape(read, frozenset(table), leaf=leaf, plain=frozenset(plain))


def _chosen(
    name: str, kind: type, candidates: list[tuple[Any, Shape]], conventions: Conventions
) -> Reader | None:
    """Return the reader for plain values of one type; ``None`` if they are not read after all."""
    usual = [each for each in candidates if kind not in each[1].spare]
    spare, candidates = not usual, usual or candidates
    if len(candidates) == 1:
        return candidates[0][1].read
    hint = ""
    if all(shape.leaf for _, shape in candidates):
        # The order of the members does not count: `a | b` and `b | a` are equal, so one of them is
        # compiled for both.
        listed = [shape for _, shape in candidates if shape.values is not None]
        others = [(member, shape) for member, shape in candidates if shape.values is None]
        if _are_apart(kind, [member for member, _ in others], listed):
            # datetime comes last: it would read a date, too. float comes behind int.
            others.sort(key=lambda each: each[0] in (datetime, float))
            return _first_of(name, [s.read for s in (*listed, *[shape for _, shape in others])])
        if spare:
            return None
    elif kind is dict:
        # A class that converts itself may be read from more, and its fields say nothing.
        classes = [
            (conventions.fields(member) if shape.takes == DICT else [], shape.read)
            for member, shape in candidates
        ]
        choice = _by_tag(name, classes, conventions) or _by_keys(name, classes)
        if choice is not None:
            return choice
        hint = ": give each class a required field of its own, or a Literal under the same key"
    elif kind in (list, tuple, set, frozenset):
        hint = ": put the union inside, as in list[A | B]"
    both = " and ".join([annotation_name(member) for member, _ in candidates])
    raise Unconvertible(f"in {name}, {both} cannot be told apart{hint}")


def _are_apart(kind: type, others: list[Any], listed: list[Shape]) -> bool:
    """Return whether it is clear what each plain value of a type is read as.

    Args:
        kind: The type.
        others: The members without a list of values.
        listed: The shapes of the members that have one.
    """
    seen: dict[Any, Any] = {}
    for shape in listed:
        for (of_kind, value), made in (shape.values or {}).items():
            if of_kind is kind:
                before = seen.setdefault(value, made)
                if type(before) is not type(made) or before != made:
                    return False
    if len(others) > 1:
        return set(others) <= (_TEXTS if kind is str else _NUMBERS)
    # A Flag, or an enum with a `_missing_` of its own, has more values than its members.
    return not (listed and others and isinstance(others[0], type) and issubclass(others[0], Enum))


def _first_of(name: str, readers: list[Reader]) -> Reader:
    def read(value: Any) -> Any:
        for reader in readers:
            try:
                return reader(value)
            except Mismatch:
                continue
        raise Mismatch.another(name, value)

    return read


def writer_of(name: str, candidates: list[tuple[Any, Form]], conventions: Conventions) -> Writer:
    """Return a writer for the values of some members of a union that have the same class."""
    writers = [form.write for _, form in candidates]
    if len(writers) == 1:
        return writers[0]
    if all(is_typed_dict(member) for member, _ in candidates):
        classes = [(conventions.fields(member), form.write) for member, form in candidates]
        choice = _by_tag(name, classes, conventions) or _by_keys(name, classes)
        if choice is not None:
            return choice

    def write(value: Any) -> Any:
        found: list[Any] = []
        for write_member in writers:
            try:
                found.append(write_member(value))
            except Mismatch:
                continue
        if not found:
            raise Mismatch.another(name, value)
        if any(done != found[0] for done in found):
            raise Mismatch(f"expected {name}, got a value that several of them write differently")
        return found[0]

    return write


def _by_tag(
    name: str, classes: list[tuple[list[Field], Reader]], conventions: Conventions
) -> Reader | None:
    """Return a function that chooses by a key that all have, each with its own `Literal`.

    It gets a mapping, and returns what the reader (or writer) of one of the classes makes of it.
    ``None`` means that there is no such key.
    """
    for field in classes[0][0]:
        table: dict[tuple[type, Any], Reader] = {}
        count = 0
        for fields, reader in classes:
            tag = next((each for each in fields if each.key == field.key), None)
            plain = None if tag is None else stripped(tag.annotation)
            if typing.get_origin(plain) is not typing.Literal:
                break
            values = typing.get_args(plain)
            count += len(values)
            # A plain value has what the member is written as, and one that is written the member.
            members = [value for value in values if isinstance(value, Enum)]
            count += len(members)
            for value in (*values, *map(conventions.plain, members)):
                table[type(value), value] = reader
        else:
            if count == len(table):
                return _tagged(name, field.key, table)
    return None


def _tagged(name: str, key: str, table: dict[tuple[type, Any], Reader]) -> Reader:
    def read(value: Mapping[Any, Any]) -> Any:
        tag = value.get(key, _ABSENT)
        try:
            reader = table[type(tag), tag]
        except (KeyError, TypeError):
            raise _mistagged(name, key, tag) from None
        return reader(value)

    return read


def _mistagged(name: str, key: str, tag: object) -> Mismatch:
    # Made here: in a variable of the frame that raises it, its traceback would keep that frame.
    got = "nothing" if tag is _ABSENT else f"another {kind_of(tag)}"
    error = Mismatch(f"expected the tag of a member of {name}, got {got}")
    error.within(f".{key}")
    return error


def _by_keys(name: str, classes: list[tuple[list[Field], Reader]]) -> Reader | None:
    """As `_by_tag`, by a key that only one class has; one class may have none."""
    known: list[tuple[set[str], Reader]] = []
    rest: Reader | None = None
    for number, (fields, reader) in enumerate(classes):
        others = {
            field.key
            for other, (fields_of_other, _) in enumerate(classes)
            if other != number
            for field in fields_of_other
        }
        own = {field.key for field in fields if field.required} - others
        if own:
            known.append((own, reader))
        elif rest is None and fields:
            rest = reader
        else:
            return None

    def read(value: Mapping[Any, Any]) -> Any:
        found = [reader for own, reader in known if not own.isdisjoint(value)]
        if len(found) == 1:
            return found[0](value)
        if found:
            raise Mismatch(f"expected {name}, got a map with keys of several of them")
        if rest is None:
            raise Mismatch(f"expected {name}, got a map without a key that only one of them has")
        return rest(value)

    return read
