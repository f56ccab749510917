"""The choice of the member of a union that a plain value is read as: `choice_of`.

The type of the value decides. Among classes a key decides that only one of them has, or the value
of a `Literal` that all have. Members are not tried one after the other: with unions inside unions
that would take as many attempts as there are combinations.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from .annotations import (
    Field,
    annotation_name,
    class_fields,
    has_fields,
    is_typed_dict,
    stripped,
    typed_dict_fields,
)
from .mismatch import Mismatch, Unconvertible, kind_of
from .shapes import Reader, Shape

__all__ = ["choice_of"]

_ABSENT: Final = object()


def choice_of(name: str, members: list[tuple[Any, Shape]]) -> Shape:
    """Return the shape of a union.

    Args:
        name: The name of the union, for messages.
        members: Its members, stripped and flat; `Any` is not among them.

    Raises:
        Unconvertible: Values of two members cannot be told apart.
    """
    hopes: dict[type, list[tuple[Any, Shape]]] = {}
    for member, shape in members:
        for kind in shape.takes:
            hopes.setdefault(kind, []).append((member, shape))
    table = {kind: _chosen(name, kind, candidates) for kind, candidates in hopes.items()}
    of_mappings = table.get(dict)

    def read(value: Any) -> Any:
        reader = table.get(type(value))
        if reader is None:
            if of_mappings is None or not isinstance(value, Mapping):
                raise Mismatch.of(name, value)
            reader = of_mappings
        return reader(value)

    return Shape(read, frozenset(table), leaf=all(shape.leaf for _, shape in members))


def _chosen(name: str, kind: type, candidates: list[tuple[Any, Shape]]) -> Reader:
    """Return the reader for plain values of one type."""
    if len(candidates) == 1:
        return candidates[0][1].read
    for member, shape in candidates:
        if member is kind:  # a str is read as str before other types, and an int not as float
            return shape.read
    if all(shape.leaf for _, shape in candidates):
        # datetime comes last: it would read a date, too.
        candidates = sorted(candidates, key=lambda candidate: candidate[0] is datetime)
        return _first_of(name, [shape.read for _, shape in candidates])
    if kind is dict:
        classes = [(_fields_of(member), shape.read) for member, shape in candidates]
        choice = _by_tag(name, classes) or _by_keys(name, classes)
        if choice is not None:
            return choice
    both = " and ".join([annotation_name(member) for member, _ in candidates])
    raise Unconvertible(f"in {name}, {both} cannot be told apart")


def _first_of(name: str, readers: list[Reader]) -> Reader:
    def read(value: Any) -> Any:
        for reader in readers:
            try:
                return reader(value)
            except Mismatch:
                continue
        raise Mismatch(f"expected {name}, got another {kind_of(value)}")

    return read


def _fields_of(member: Any) -> list[Field]:
    cls = typing.get_origin(member) or member
    if has_fields(cls):
        return class_fields(member)
    return typed_dict_fields(member) if is_typed_dict(cls) else []


def _by_tag(name: str, classes: list[tuple[list[Field], Reader]]) -> Reader | None:
    """Return a reader that chooses by a key that all have, with a `Literal` of its own in each."""
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
            table.update({(type(value), value): reader for value in values})
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
    """Return a reader that chooses by a key that only one class has; one class may have none."""
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
        for own, reader in known:
            if not own.isdisjoint(value):
                return reader(value)
        if rest is None:
            raise Mismatch(f"expected {name}, got a map without a key that only one of them has")
        return rest(value)

    return read
