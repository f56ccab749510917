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
"""Writes a value of some type, or raises any exception if it is none, or an unusual one."""

_dumps: Final[Packer] = cbor2.dumps
_pack_float: Final = struct.Struct(">Bd").pack


def packer_of(annotation: Any, writers: Writers) -> Packer | None:
    """Return a function that writes values of a type as `writers` and cbor2 do.

    It raises any exception for a value that they may refuse, or write in another way.

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
        members = bounded_members(annotation)
        others = [each for each in members if each[0] is not NONE]
        if len(others) != 1:
            return None
        [(plain, bounds)] = others
        pack = None if bounds else self._of(plain)
        if pack is None or len(members) == 1:
            return pack
        return lambda value: b"\xf6" if value is None else pack(value)

    def _of(self, plain: Any) -> Packer | None:
        cls, arguments = typing.get_origin(plain) or plain, typing.get_args(plain)
        if self._conventions.models.has(cls):
            return None
        if isinstance(plain, type) and plain in _SCALARS:
            return _SCALARS[plain]
        if cls is list and arguments:
            return self._list(arguments[0])
        if has_fields(cls) and not issubclass(cls, msgspec.Struct):
            return self._object(plain, cls)
        return None

    def _list(self, annotation: Any) -> Packer | None:
        members = bounded_members(annotation)
        if not any(has_fields(typing.get_origin(each) or each) for each, _ in members):
            return None  # cbor2 is faster for others
        pack = self.of(annotation)
        if pack is None:
            return None

        def pack_list(value: Any) -> bytes:
            if type(value) is not list:
                raise TypeError
            return b"".join((_head(4, len(value)), *map(pack, value)))

        return pack_list

    def _object(self, plain: Any, cls: type) -> Packer | None:
        """The packer of a class. Nothing but names of its fields is put into its code."""
        fields = [field for field in self._conventions.fields(plain) if field.stored]
        names: dict[str, Any] = {**_NAMES, "cls": cls}
        lines = ["if not isinstance(value, cls): raise TypeError"]
        parts: list[str] = []
        before = _head(5, len(fields))
        others = 0
        for number, field in enumerate(fields):
            part, pack = f"part{number}", self.of(field.annotation)
            others += pack is None
            inline = None if pack is None else _INLINE.get(pack)
            if pack is None or inline is not None:
                pack = self._by_cbor2(field.annotation)
            names[f"pack{number}"] = pack
            lines.append(f"{part} = {attribute(field.name)}")
            lines.append(
                f"{part} = " + (inline or "").replace("part", part) + f"pack{number}({part})"
            )
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


_CODE: Final = """
def pack(value):
    {}
    return join(({}))
"""


def _head(major: int, number: int) -> bytes:
    data = _dumps(number)
    return bytes((major << 5 | data[0],)) + data[1:]


def _of(kind: type) -> Packer:
    """Return a packer of values of exactly one type."""

    def pack(value: Any) -> bytes:
        if type(value) is not kind:
            raise TypeError
        return _dumps(value)

    return pack


_SCALARS: Final[dict[type, Packer]] = {kind: _of(kind) for kind in (int, str, float, bool)}
_INLINE: Final[dict[Packer, str]] = {
    _SCALARS[int]: (
        "(integers[part] if 0 <= part < 256 else dumps(part)) if type(part) is int else "
    ),
    _SCALARS[str]: (
        "(texts[len(part)] if len(part := part.encode()) < 256 else head(3, len(part))) + part "
        "if type(part) is str else "
    ),
    _SCALARS[float]: "double(251, part) if type(part) is float and part - part == 0.0 else ",
    _SCALARS[bool]: r"b'\xf5' if part is True else b'\xf4' if part is False else ",
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
