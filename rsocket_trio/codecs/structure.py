"""Plain values (dicts, lists, numbers, text) <-> annotated types, strictly: `strict_converter`.

cattrs does the work. By itself it is helpful: ``int("7")`` is 7, ``str(7)`` is "7", and the
letters of a string make a list. What comes from a peer is rather taken at its word: a value of the
wrong type is an error here. Keys that a class does not know are ignored, so that peers can grow.
"""

from __future__ import annotations

import typing
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias, cast
from uuid import UUID

import attrs
from cattrs import Converter
from cattrs.strategies import configure_union_passthrough

__all__ = ["json_converter", "strict_converter"]

Hook: TypeAlias = Callable[[Any, Any], Any]

_SEQUENCES = (list, Sequence, MutableSequence)
_SETS = (set, frozenset, AbstractSet)
_MAPPINGS = (dict, Mapping, MutableMapping)


def _wrong(value: object, wanted: object) -> TypeError:
    # The value itself is the peer's and may be large or secret: its type says enough.
    name = wanted.__name__ if isinstance(wanted, type) else str(wanted)
    return TypeError(f"{name} wanted, not {type(value).__name__}")


def _expect(value: object, accepted: type | tuple[type, ...], wanted: object) -> None:
    if not isinstance(value, accepted):
        raise _wrong(value, wanted)


def strict_converter() -> Converter:
    """A converter that never makes one kind of value out of another."""
    converter = Converter(detailed_validation=False)
    _be_strict(converter, int_key=None)
    for kind in (bytes, datetime, date, Decimal, UUID):
        converter.register_structure_hook(kind, _instance_of(kind))
    return converter


def json_converter() -> Converter:
    """Likewise, for what JSON has no values for.

    bytes are base64 text (RFC 4648), datetimes and dates ISO 8601 text, Decimal and UUID text,
    sets lists; keys of mappings that are ints are text.
    """
    converter = Converter(
        detailed_validation=False, unstruct_collection_overrides={AbstractSet: list}
    )
    _be_strict(converter, int_key=_int_from_text)
    readers: dict[type, Callable[[str], object]] = {
        bytes: lambda text: b64decode(text, validate=True),
        datetime: datetime.fromisoformat,
        date: date.fromisoformat,
        Decimal: Decimal,
        UUID: UUID,
    }
    writers: dict[type, Callable[[Any], str]] = {
        bytes: lambda value: b64encode(value).decode("ascii"),
        datetime: datetime.isoformat,
        date: date.isoformat,
        Decimal: str,
        UUID: str,
    }
    for kind, read in readers.items():
        converter.register_structure_hook(kind, _from_text(read))
        converter.register_unstructure_hook(kind, writers[kind])
    return converter


def _be_strict(converter: Converter, int_key: Hook | None) -> None:
    converter.register_structure_hook(bool, _instance_of(bool))
    converter.register_structure_hook(str, _instance_of(str))
    converter.register_structure_hook(int, _to_int)
    converter.register_structure_hook(float, _to_float)
    converter.register_structure_hook_func(lambda t: t in (None, type(None)), _to_none)
    converter.register_structure_hook_func(lambda t: t is object, lambda value, _: value)
    configure_union_passthrough(str | bool | int | float | bytes | None, converter)

    def of(*origins: type) -> Callable[[Any], bool]:
        return lambda t: t in origins or typing.get_origin(t) in origins

    def is_class(t: Any) -> bool:
        cls = typing.get_origin(t) or t
        return attrs.has(cls) or (isinstance(cls, type) and is_dataclass(cls))

    factories: list[tuple[Callable[[Any], bool], Callable[[Any], Hook]]] = [
        (of(*_SEQUENCES), lambda t: _items(converter, t, list, (list, tuple))),
        (of(*_SETS), lambda t: _items(converter, t, _set_of(t), (list, tuple, set, frozenset))),
        (of(tuple), lambda t: _tuple(converter, t)),
        (of(*_MAPPINGS), lambda t: _mapping(converter, t, int_key)),
        (is_class, lambda t: _fields(converter.gen_structure_attrs_fromdict(_resolved(t)))),
        (typing.is_typeddict, lambda t: _fields(converter.gen_structure_typeddict(t))),
    ]
    for predicate, factory in factories:
        converter.register_structure_hook_factory(predicate, factory)
    converter.register_unstructure_hook_factory(
        is_class, lambda t: converter.gen_unstructure_attrs_fromdict(_resolved(t))
    )


def _resolved(t: Any) -> Any:
    # cattrs resolves a field's "Tree", but not its list["Tree"].
    cls = typing.get_origin(t) or t
    if attrs.has(cls):
        attrs.resolve_types(cls)
    return t


def _instance_of(kind: type) -> Hook:
    def check(value: Any, wanted: Any) -> Any:
        _expect(value, kind, wanted)
        return _as_subclass(value, kind, wanted)

    return check


def _to_int(value: Any, wanted: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(value, wanted)
    return cast(int, _as_subclass(value, int, wanted))


def _as_subclass(value: Any, kind: type, wanted: Any) -> Any:
    # cattrs asks the hook of `int` about subclasses too: IntEnum, StrEnum, ...
    return wanted(value) if isinstance(wanted, type) and wanted is not kind else value


def _int_from_text(value: Any, wanted: Any) -> int:
    _expect(value, str, wanted)
    number = int(value)
    if str(number) != value:  # int() also takes blanks, underscores and other digits
        raise ValueError("a key is no number as it would be written")
    return number


def _to_float(value: Any, wanted: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(value, wanted)
    return float(value)


def _to_none(value: Any, wanted: Any) -> None:
    if value is not None:
        raise _wrong(value, "None")


def _from_text(read: Callable[[str], object]) -> Hook:
    def convert(value: Any, wanted: Any) -> Any:
        _expect(value, str, wanted)
        return read(value)

    return convert


def _set_of(t: Any) -> Callable[[Any], object]:
    return set if (typing.get_origin(t) or t) is set else frozenset


# Hooks of the items are looked up per call, not when the hook is made: types may be recursive.


def _items(
    converter: Converter, t: Any, make: Callable[[Any], object], accepted: tuple[type, ...]
) -> Hook:
    args = typing.get_args(t)

    def convert(value: Any, wanted: Any) -> Any:
        _expect(value, accepted, wanted)
        if not args:
            return make(value)
        hook = converter.get_structure_hook(args[0])
        return make([hook(item, args[0]) for item in value])

    return convert


def _tuple(converter: Converter, t: Any) -> Hook:
    args = typing.get_args(t)
    if not args or args[-1] is Ellipsis:
        return _items(converter, t, tuple, (list, tuple))

    def convert(value: Any, wanted: Any) -> Any:
        _expect(value, (list, tuple), wanted)
        if len(value) != len(args):
            raise ValueError(f"{len(args)} items wanted, not {len(value)}")
        return tuple(
            [converter.structure(item, arg) for item, arg in zip(value, args, strict=True)]
        )

    return convert


def _mapping(converter: Converter, t: Any, int_key: Hook | None) -> Hook:
    args = typing.get_args(t)

    def convert(value: Any, wanted: Any) -> Any:
        _expect(value, Mapping, wanted)
        if not args:
            return dict(value)
        key, item = map(converter.get_structure_hook, args)
        if args[0] is int and int_key is not None:
            key = int_key
        return {key(k, args[0]): item(v, args[1]) for k, v in value.items()}

    return convert


def _fields(convert_fields: Callable[[Any, Any], Any]) -> Hook:
    def convert(value: Any, wanted: Any) -> Any:
        _expect(value, Mapping, wanted)
        return convert_fields(value, wanted)

    return convert
