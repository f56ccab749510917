"""CBOR of classes, written by code that is made for them: `packer_of`.

The names of fields are bytes in it already, and there is no plain value in between: an order of
five lines takes half of the time. What it has no code for, `Writers` and cbor2 write part by part.
"""

from __future__ import annotations

import struct
import typing
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import cbor2
import msgspec

from .annotations import NONE, bounded_members, has_fields
from .writing import Writers, attribute

__all__ = ["packer_of"]

Packer: TypeAlias = Callable[[Any], bytes]
"""Writes a value of some type, or raises any exception if it is none."""

_dumps: Final[Packer] = cbor2.dumps
_pack_float: Final = struct.Struct(">Bd").pack


def packer_of(annotation: Any, writers: Writers) -> Packer | None:
    """Return a function that writes values of a type as `writers` and cbor2 do.

    It raises an exception, often without the place, for a value that they refuse, and only then: an
    iterator cannot be written twice.

    Args:
        annotation: A type without values of any number of levels.
        writers: Those of CBOR.

    Returns:
        ``None`` if such code would not be faster.
    """
    return _Packers(writers).of(annotation)


class _Packers:
    def __init__(self, writers: Writers) -> None:
        self._writers = writers
        self._conventions = writers.conventions

    def of(self, annotation: Any) -> Packer | None:
        plain = _only_type(annotation)
        cls, arguments = typing.get_origin(plain) or plain, typing.get_args(plain)
        if plain is None or self._conventions.models.has(cls):
            return None
        if plain in _INLINE:
            return self._scalar(plain, annotation)
        if cls is list and arguments:
            return self._list(arguments[0], annotation)
        if has_fields(cls) and not issubclass(cls, msgspec.Struct):
            return self._object(plain, cls, annotation)
        return None

    def _scalar(self, kind: type, annotation: Any) -> Packer:
        write_other = self._by_cbor2(annotation)
        return lambda value: _dumps(value) if type(value) is kind else write_other(value)

    def _list(self, item: Any, annotation: Any) -> Packer | None:
        members = bounded_members(item)
        if not any(has_fields(typing.get_origin(each) or each) for each, _ in members):
            return None  # cbor2 is faster for others
        pack, write_other = self.of(item), self._by_cbor2(annotation)
        if pack is None:
            return None

        def pack_list(value: Any) -> bytes:
            if type(value) is not list:
                return write_other(value)
            return b"".join((_head(4, len(value)), *map(pack, value)))

        return pack_list

    def _object(self, plain: Any, cls: type, annotation: Any) -> Packer | None:
        """The packer of a class. Nothing but names of its fields is put into its code."""
        fields = [field for field in self._conventions.fields(plain) if field.stored]
        names: dict[str, Any] = {**_NAMES, "cls": cls, "write_other": self._by_cbor2(annotation)}
        lines = ["if not isinstance(value, cls): return write_other(value)"]
        parts: list[str] = []
        before = _head(5, len(fields))
        others = 0
        for number, field in enumerate(fields):
            part, kind = f"part{number}", _only_type(field.annotation)
            inline = _INLINE.get(kind, "")
            pack = None if inline else self.of(field.annotation)
            others += not inline and pack is None
            if kind is not None and len(bounded_members(field.annotation)) > 1:
                inline = r"b'\xf6' if part is None else " + inline
            names[f"pack{number}"] = pack or self._by_cbor2(field.annotation)
            lines.append(f"{part} = {attribute(field.name)}")
            lines.append(f"{part} = {inline.replace('part', part)}pack{number}({part})")
            parts += [repr(before + _dumps(field.key)), part]
            before = b""
        if not fields or 2 * others > len(fields):
            return None
        exec(_CODE.format("\n    ".join(lines), ", ".join(parts)), names)
        packer: Packer = names["pack"]
        return packer

    def _by_cbor2(self, annotation: Any) -> Packer:
        write = self._writers.writer(annotation)
        return lambda value: _dumps(write(value))


def _only_type(annotation: Any) -> Any:
    """Return the one type without bounds that values have beside ``None``; ``None`` if not so."""
    others = [each for each in bounded_members(annotation) if each[0] is not NONE]
    if len(others) != 1 or others[0][1]:
        return None
    return others[0][0]


_CODE: Final = """
def pack(value):
    {}
    return join(({}))
"""


def _head(major: int, number: int) -> bytes:
    data = _dumps(number)
    return bytes((major << 5 | data[0],)) + data[1:]


_INLINE: Final[dict[type, str]] = {
    int: "(integers[part] if 0 <= part < 256 else dumps(part)) if type(part) is int else ",
    str: (
        "(texts[len(part)] if len(part := part.encode()) < 256 else head(3, len(part))) + part "
        "if type(part) is str else "
    ),
    float: "double(251, part) if type(part) is float and part - part == 0.0 else ",
    bool: r"b'\xf5' if part is True else b'\xf4' if part is False else ",
}
"""The beginning of the code of a field, ``part``; behind it is the code for unusual values."""
_NAMES: Final[dict[str, Any]] = {
    "integers": [_dumps(number) for number in range(256)],
    "texts": [_head(3, size) for size in range(256)],
    "head": _head,
    "double": _pack_float,
    "dumps": _dumps,
    "join": b"".join,
}
